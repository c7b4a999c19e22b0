/* A RISC-V core without an operating system: what runs before `main`, a clock, and text and files over semihosting, which
   a debugger or an emulator answers. On a board that runs alone, replace `openinfer_board_write` by its serial line, and
   the call of `openinfer_semihosting` after `main` by a loop. */

#include <stddef.h>
#include <stdint.h>

#include "openinfer_platform.h"

/* From board.ld. */
extern uint32_t _data_start, _data_end, _data_load;
extern uint32_t *const _zero_table[], *const _zero_table_end[];

int main(void);
uintptr_t openinfer_semihosting(uintptr_t operation, const void *argument);
void start(void);
void fault_handler(void);

uintptr_t openinfer_semihosting(uintptr_t operation, const void *argument) {
    register uintptr_t a0 __asm__("a0") = operation;
    register uintptr_t a1 __asm__("a1") = (uintptr_t)argument;
    /* Three instructions of four bytes, on one page. */
    __asm__ volatile(".option push\n\t.option norvc\n\t.balign 16\n\t"
                     "slli zero, zero, 0x1f\n\tebreak\n\tsrai zero, zero, 7\n\t.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

/* Instructions that were executed: minstreth and minstret, by number for assemblers that ask for an extension. */
uint64_t openinfer_board_ticks(void) {
    uint32_t high, low, again;
    do {
        __asm__ volatile(".insn i 0x73, 2, %0, x0, -1150" : "=r"(high));
        __asm__ volatile(".insn i 0x73, 2, %0, x0, -1278" : "=r"(low));
        __asm__ volatile(".insn i 0x73, 2, %0, x0, -1150" : "=r"(again));
    } while (high != again);
    return (uint64_t)high << 32 | low;
}

void openinfer_board_write(const char *text, size_t bytes) {
    size_t at;
    for (at = 0; at < bytes; ++at) {
        openinfer_semihosting(0x03, &text[at]);
    }
}

__attribute__((aligned(4))) void fault_handler(void) {
    static const char text[] = "fault\n";
    openinfer_board_write(text, sizeof text - 1);
    openinfer_semihosting(0x18, (const void *)0x20023); /* ends the emulator with an error */
    for (;;) {
    }
}

__attribute__((used)) void start(void) {
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
    openinfer_semihosting(0x18, (const void *)(main() == 0 ? 0x20026 : 0x20023));
    for (;;) {
    }
}

/* The core begins at the start of flash; faults come to fault_handler (mtvec is 0x305). Floating point is switched on
   where there is any (bits 13 and 14 of mstatus, 0x300). */
__asm__(".section .vectors, \"ax\"\n"
        ".globl reset_handler\n"
        "reset_handler:\n"
        ".option push\n.option norelax\n"
        "    la gp, __global_pointer$\n"
        ".option pop\n"
        "    la sp, _stack\n"
        "    la t0, fault_handler\n"
        "    .insn i 0x73, 1, x0, t0, 0x305\n"
        "    li t0, 0x6000\n"
        "    .insn i 0x73, 2, x0, t0, 0x300\n"
        "    call start\n"
        ".text\n");
