"""Boards that QEMU emulates, and the compilers of their cores: chosen by the flags of a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError

if TYPE_CHECKING:
    from openinfer.arch import MemoryBank
    from openinfer.plan.execution_plan import ExecutionPlan

FLASH = "flash"
"""The kind of memory that holds code and weights."""

_FOR_DATA = ("sram", "external", "tcm")
"""Kinds of memory for variables and the stack, the usual one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Cores of one architecture: what builds programs without an operating system for them, and what runs these.

    Attributes:
        prefix: of the names of the compiler and its tools.
        emulator: command of QEMU.
        start: template of what runs before ``main``.
        flags: further flags of the compiler, for every file.
        libraries: flags of the linker that name the C library.
        packages: Debian's packages with all of it.
    """

    prefix: str
    emulator: str
    start: str
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    packages: str

    @property
    def compiler(self) -> str:
        """The command of the compiler."""
        return f"{self.prefix}gcc"


ARM = Family(
    prefix="arm-none-eabi-",
    emulator="qemu-system-arm",
    start="cortex_m.c",
    libraries=("--specs=nosys.specs",),
    packages="gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
RISC_V = Family(
    prefix="riscv64-unknown-elf-",
    emulator="qemu-system-riscv32",
    start="riscv.c",
    # The emulated memory lies beyond what absolute addresses of code reach.
    flags=("--specs=picolibc.specs", "-mcmodel=medany"),
    packages="gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """An emulated board.

    Attributes:
        machine: QEMU's name of it, with its options.
        core: the processor, for people.
        code: where code lies, as an address and bytes.
        data: where all other memory lies.
        vectors: where the table of vectors lies, if not at the start of code.
        tick: instructions of one tick of the board's counter when QEMU counts them; 1: it counts instructions.
    """

    family: Family
    machine: str
    core: str
    code: tuple[int, int]
    data: tuple[int, int]
    vectors: int | None = None
    tick: float = 1.0

    @property
    def command(self) -> tuple[str, ...]:
        """What runs the program whose file is the next word."""
        still = ("-display", "none", "-monitor", "none", "-serial", "none", "-icount", "shift=0")
        semihosting = ("-semihosting-config", "enable=on,target=native")
        return (self.family.emulator, "-M", *self.machine.split(), *still, *semihosting, "-kernel")


_MIB = 1 << 20
_PSRAM = (0x21000000, 16 * _MIB)

# With -icount shift=0 an instruction takes a nanosecond: counters of 25, 20 and 32 MHz have 40, 50 and 31.25 a tick.
# A Cortex-M3 executes all that a Cortex-M0+ does; QEMU's only board with a core of ARMv6-M has 16 KiB of memory.
_M3 = Board(family=ARM, machine="mps2-an385", core="Cortex-M3", code=(0, 4 * _MIB), data=_PSRAM, tick=40)
_BOARDS = {
    **dict.fromkeys(("-mcpu=cortex-m0", "-mcpu=cortex-m0plus", "-mcpu=cortex-m3"), _M3),
    "-mcpu=cortex-m4": replace(_M3, machine="mps2-an386", core="Cortex-M4"),
    "-mcpu=cortex-m7": replace(_M3, machine="mps2-an500", core="Cortex-M7", data=(0x60000000, 16 * _MIB)),
    "-mcpu=cortex-m33": Board(
        family=ARM,
        machine="mps2-an505",
        core="Cortex-M33",
        code=(0x10000000, 4 * _MIB),
        data=(0x80000000, 16 * _MIB),
        tick=50,
    ),
    "-mcpu=cortex-m55": Board(
        family=ARM,
        machine="mps3-an547",
        core="Cortex-M55",
        code=(0x01000000, 2 * _MIB),
        data=(0x60000000, 64 * _MIB),
        vectors=0,
        tick=31.25,
    ),
    "-march=rv32": Board(
        family=RISC_V,
        machine="virt -bios none",
        core="RV32",
        code=(0x80000000, 16 * _MIB),
        data=(0x82000000, 96 * _MIB),
    ),
}
"""By the flag that chooses the core; what a flag of RISC-V names after its width are extensions."""


def board_of(plan: ExecutionPlan) -> Board | None:
    """Return the board that a plan's program is built for, by the flags of its device; None: the machine is hosted."""
    for flag in () if plan.arch is None else plan.arch.compiler.flags:
        board = _BOARDS.get(flag.partition("+")[0] if flag.startswith("-mcpu=") else flag[: len("-march=rv32")])
        if board is not None:
            return board
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Memory of a linker script: a memory of the device, at an address that the emulated board has.

    Attributes:
        name: in the script.
        section: of the arrays that lie in it; "" for what has no memory of its own.
    """

    name: str
    section: str
    origin: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """Where a program's parts lie.

    Attributes:
        flash: code and weights.
        banks: the device's other memories.
        main: the one with variables and the stack.
    """

    flash: Region
    banks: tuple[Region, ...]
    main: Region


def check_emulated(board: Board, memories: tuple[MemoryBank, ...]) -> None:
    """Check that an emulated board has as much memory for data as a device; that the code fits, the linker checks.

    Raises:
        SynthesisError: it has less.
    """
    nbytes = sum(bank.nbytes for bank in memories if bank.kind != FLASH)
    if nbytes > board.data[1]:
        raise SynthesisError(
            f"the device has {nbytes:,} bytes of memory other than flash, QEMU's board {board.machine.split()[0]} has "
            f"{board.data[1]:,}: to verify or measure the program, give a device file with at most these"
        )


def memory_map(board: Board, memories: tuple[MemoryBank, ...]) -> MemoryMap:
    """Return where the memories of a device lie on a board, one after the other; without any, all of the board's."""
    flash = sum(bank.nbytes for bank in memories if bank.kind == FLASH) or board.code[1]
    code = Region(name="FLASH", section="", origin=board.code[0], nbytes=min(flash, board.code[1]))
    origin, banks = board.data[0], dict[str, Region]()
    others = [bank for bank in memories if bank.kind != FLASH]
    for bank in others:
        banks[bank.name] = Region(name=f"RAM_{bank.name.upper()}", section=bank.name, origin=origin, nbytes=bank.nbytes)
        origin += bank.nbytes
    if not others:
        banks["ram"] = Region(name="RAM", section="ram", origin=origin, nbytes=board.data[1])
        return MemoryMap(flash=code, banks=tuple(banks.values()), main=banks["ram"])
    usual = min(others, key=lambda bank: _FOR_DATA.index(bank.kind))
    return MemoryMap(flash=code, banks=tuple(banks.values()), main=banks[usual.name])
