/* A Cortex-M without an operating system: what runs before `main`, a clock, and text and files over semihosting, which a
   debugger or an emulator answers. On a board that runs alone, replace `openinfer_board_write` by its serial line, and the
   call of `openinfer_semihosting` after `main` by a loop. */

#include <stddef.h>
#include <stdint.h>

#include "openinfer_platform.h"

/* Registers of every Cortex-M: coprocessor access, and the counter SysTick. */
#define CPACR (*(volatile uint32_t *)0xE000ED88u)
#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)
#define SYST_LAST 0xFFFFFFu

/* From board.ld. */
extern uint32_t _stack, _data_start, _data_end, _data_load;
extern uint32_t *const _zero_table[], *const _zero_table_end[];

int main(void);
uintptr_t openinfer_semihosting(uintptr_t operation, const void *argument);
void reset_handler(void);
void systick_handler(void);
void fault_handler(void);

static volatile uint32_t rounds; /* how often SysTick went through */

uintptr_t openinfer_semihosting(uintptr_t operation, const void *argument) {
    register uintptr_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = (uintptr_t)argument;
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
        openinfer_semihosting(0x03, &text[at]);
    }
}

void systick_handler(void) {
    ++rounds;
}

void fault_handler(void) {
    static const char text[] = "fault\n";
    openinfer_board_write(text, sizeof text - 1);
    openinfer_semihosting(0x18, (const void *)0x20023); /* ends the emulator with an error */
    for (;;) {
    }
}

void reset_handler(void) {
    const uint32_t *from = &_data_load;
    uint32_t *const *range;
    uint32_t *to;
    for (to = &_data_start; to < &_data_end; ++to) {
        *to = *from++;
    }
    for (range = _zero_table; range < _zero_table_end; range += 2) {
        for (to = range[0]; to < range[1]; ++to) {
            *to = 0;
        }
    }
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= 0xFu << 20; /* floating point and vectors */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    SYST_RVR = SYST_LAST;
    SYST_CVR = 0;
    SYST_CSR = 7;
    openinfer_semihosting(0x18, (const void *)(main() == 0 ? 0x20026 : 0x20023));
    for (;;) {
    }
}

typedef void (*handler)(void);

/* What the core finds at the start of flash. */
struct vectors {
    const void *stack;
    handler handlers[15];
};

__attribute__((section(".vectors"), used)) const struct vectors vectors = {
    &_stack,
    {reset_handler, fault_handler, fault_handler, fault_handler, fault_handler, fault_handler, fault_handler, NULL, NULL,
     NULL, fault_handler, NULL, NULL, fault_handler, systick_handler},
};
