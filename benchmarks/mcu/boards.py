"""The boards of `instructions.py`: devices, compilers, and the machines of QEMU that count for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer_synth_c.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "cortex-m4"

ARM = ("qemu-system-arm", "-semihosting", "-nographic", "-icount", "shift=0", "-M")
RISCV = ("qemu-system-riscv32", "-bios", "none", "-nographic", "-icount", "shift=0", "-semihosting", "-M")


@dataclass(frozen=True)
class Board:
    """A device and where its programs run.

    Attributes:
        arch: the document of its device file.
        tools: what the names of its compiler and of its binary tools begin with.
        sources: what runs before ``main``, a clock and a log.
        script: for the linker.
        machine: the command of QEMU, up to the program.
        nanoseconds: of a tick of the clock; an instruction takes one.
        peers: instructions of CMSIS-NN (commit 99f736a6, GCC 12.2.1, -O2) for the layer shapes of each model.
        marks: what the instructions of each model are to be, as a part of those of CMSIS-NN.
        flags: further ones for every source, and ``linked`` for the linker.
        slower: what quantised models are to take, as a part of what those of floats take.
    """

    arch: Mapping[str, Any]
    tools: str
    sources: tuple[Path, ...]
    script: Path
    machine: tuple[str, ...]
    nanoseconds: float
    peers: Mapping[str, int]
    marks: Mapping[str, float]
    flags: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    slower: float | None = None


def _peers(kws: int, image: int, person: int, anomaly: int) -> dict[str, int]:
    names = ("kws_ref_model_int8", "pretrainedResnet_quant", "vww_96_int8", "ad01_int8")
    return dict(zip(names, (kws, image, person, anomaly), strict=True))


def _marks(convolutional: float, anomaly: float) -> dict[str, float]:
    names = ("kws_ref_model_int8", "pretrainedResnet_quant", "vww_96_int8")
    return {**dict.fromkeys(names, convolutional), "ad01_int8": anomaly}


def _without(document: Mapping[str, Any], *instructions: str) -> dict[str, Any]:
    """Return a device whose schedules do without some instructions."""
    return {**document, "target": {**document["target"], **dict.fromkeys(instructions, False)}}


_M4 = {
    "tools": "arm-none-eabi-",
    "sources": (EXAMPLE / "board.c",),
    "script": HERE / "cortex-m4.ld",
    "machine": (*ARM, "mps2-an386", "-kernel"),
    "nanoseconds": 40,
    "peers": _peers(7_700_000, 29_800_000, 24_100_000, 579_000),
    "linked": ("--specs=nosys.specs", f"-L{HERE}"),
}

BOARDS = {
    "cortex-m4": Board(arch=PROFILES["cortex-m4"](), marks=_marks(0.60, 0.80), slower=0.85, **_M4),
    "cortex-m4-c99": Board(
        arch=_without(PROFILES["cortex-m4"](), "dsp"),
        marks=_marks(1.0, 1.15),
        flags=("-U__ARM_FEATURE_DSP", "-U__ARM_FEATURE_SAT"),
        **_M4,
    ),
    "cortex-m55": Board(
        arch=PROFILES["cortex-m55"](),
        tools="arm-none-eabi-",
        sources=(EXAMPLE / "board.c",),
        script=HERE / "cortex-m55.ld",
        machine=(*ARM, "mps3-an547", "-kernel"),
        nanoseconds=31.25,
        peers=_peers(1_810_000, 4_910_000, 6_550_000, 147_000),
        marks=_marks(0.85, 0.55),
        linked=("--specs=nosys.specs", f"-L{HERE}"),
        slower=0.9,
    ),
    "rv32imc": Board(
        arch=PROFILES["rv32imc"](),
        tools="riscv64-unknown-elf-",
        sources=(HERE / "rv32imc.c",),
        script=HERE / "rv32imc.ld",
        machine=(*RISCV, "virt", "-kernel"),
        nanoseconds=1,
        peers=_peers(16_300_000, 63_200_000, 48_600_000, 1_470_000),
        marks=_marks(0.70, 0.75),
        flags=("--specs=picolibc.specs", "-mcmodel=medany"),
        slower=0.1,
    ),
}
"""By name. ``cortex-m4-c99`` is the form without intrinsics."""
