/* QEMU's machine virt without an operating system: what runs before `main`, a clock of instructions, and a log over
   its serial line. QEMU fills memory with zeros. */

#include <stddef.h>
#include <stdint.h>

#include "digits/openinfer_platform.h"

int main(void);
void start(void);

__attribute__((naked, section(".start"))) void _start(void) {
    __asm__ volatile(
        ".option push\n"
        ".option norelax\n"
        "la gp, __global_pointer$\n"
        ".option pop\n"
        "la sp, _stack\n"
        "j start");
}

uint64_t openinfer_board_ticks(void) {
    uint32_t count;
    __asm__ volatile(".option push\n.option arch, +zicsr\ncsrr %0, minstret\n.option pop" : "=r"(count));
    return count;
}

void openinfer_board_write(const char *text, size_t bytes) {
    size_t at;
    for (at = 0; at < bytes; ++at) {
        *(volatile uint8_t *)0x10000000u = (uint8_t)text[at];
    }
}

void start(void) {
    /* The device that ends QEMU: with success, or with an error. */
    *(volatile uint32_t *)0x100000u = main() == 0 ? 0x5555u : 0x13333u;
    for (;;) {
    }
}
