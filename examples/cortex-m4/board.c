/* A Cortex-M4 without an operating system: what runs before `main`, a clock, and a log over semihosting. QEMU has such
   a board: `qemu-system-arm -M mps2-an386 -semihosting`. */

#include <stddef.h>
#include <stdint.h>

#include "digits/openinfer_platform.h"

/* Registers of every Cortex-M: coprocessor access, and the counter SysTick. */
#define CPACR (*(volatile uint32_t *)0xE000ED88u)
#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)
#define SYST_LAST 0xFFFFFFu

/* From link.ld. */
extern uint32_t _stack, _data_start, _data_end, _data_load, _bss_start, _bss_end, _ccm_start, _ccm_end;

int main(void);
void reset_handler(void);
void systick_handler(void);
void fault_handler(void);

static volatile uint32_t rounds; /* how often SysTick went through */

static uintptr_t semihosting(uintptr_t operation, uintptr_t argument) {
    register uintptr_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

uint64_t openinfer_board_ticks(void) {
    uint32_t before, left;
    do {
        before = rounds;
        left = SYST_CVR;
    } while (before != rounds);
    return (uint64_t)before * (SYST_LAST + 1u) + (SYST_LAST - left);
}

void openinfer_board_write(const char *text, size_t bytes) {
    size_t at;
    for (at = 0; at < bytes; ++at) {
        semihosting(0x03, (uintptr_t)&text[at]);
    }
}

void systick_handler(void) {
    ++rounds;
}

void fault_handler(void) {
    static const char text[] = "fault\n";
    openinfer_board_write(text, sizeof text - 1);
    semihosting(0x18, 0x20023); /* ends QEMU with an error */
    for (;;) {
    }
}

void reset_handler(void) {
    const uint32_t *from = &_data_load;
    uint32_t *to;
    for (to = &_data_start; to < &_data_end; ++to) {
        *to = *from++;
    }
    for (to = &_bss_start; to < &_bss_end; ++to) {
        *to = 0;
    }
    for (to = &_ccm_start; to < &_ccm_end; ++to) {
        *to = 0;
    }
    CPACR |= 0xFu << 20; /* floating point */
    SYST_RVR = SYST_LAST;
    SYST_CVR = 0;
    SYST_CSR = 7;
    semihosting(0x18, main() == 0 ? 0x20026 : 0x20023);
    for (;;) {
    }
}

typedef void (*handler)(void);

/* What the core finds at address 0. */
struct vectors {
    const void *stack;
    handler handlers[15];
};

__attribute__((section(".vectors"), used)) const struct vectors vectors = {
    &_stack,
    {reset_handler, fault_handler, fault_handler, fault_handler, fault_handler, fault_handler, NULL, NULL, NULL, NULL,
     fault_handler, NULL, NULL, fault_handler, systick_handler},
};
