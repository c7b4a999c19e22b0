"""The boards of `instructions.py`: devices, and what programs for them are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openinfer_synth_c.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Board:
    """A device; its flags choose the machine of QEMU that runs its programs.

    Attributes:
        arch: the document of its device file.
        peers: instructions of CMSIS-NN (commit 99f736a6, GCC 12.2.1, -O2) for the layer shapes of each model.
        marks: what the instructions of each model are to be, as a part of those of CMSIS-NN.
        slower: what quantised models are to take, as a part of what those of floats take.
        flags: further ones for every source.
    """

    arch: Mapping[str, Any]
    peers: Mapping[str, int]
    marks: Mapping[str, float]
    slower: float | None = None
    flags: tuple[str, ...] = ()


def _peers(kws: int, image: int, person: int, anomaly: int) -> dict[str, int]:
    names = ("kws_ref_model_int8", "pretrainedResnet_quant", "vww_96_int8", "ad01_int8")
    return dict(zip(names, (kws, image, person, anomaly), strict=True))


def _marks(convolutional: float, anomaly: float) -> dict[str, float]:
    names = ("kws_ref_model_int8", "pretrainedResnet_quant", "vww_96_int8")
    return {**dict.fromkeys(names, convolutional), "ad01_int8": anomaly}


def _without(document: Mapping[str, Any], *instructions: str) -> dict[str, Any]:
    """Return a device whose schedules do without some instructions."""
    return {**document, "target": {**document["target"], **dict.fromkeys(instructions, False)}}


_M4_PEERS = _peers(7_700_000, 29_800_000, 24_100_000, 579_000)

BOARDS = {
    "cortex-m4": Board(PROFILES["cortex-m4"](), _M4_PEERS, _marks(0.60, 0.80), slower=0.85),
    "cortex-m4-c99": Board(
        _without(PROFILES["cortex-m4"](), "dsp"),
        _M4_PEERS,
        _marks(1.0, 1.15),
        flags=("-U__ARM_FEATURE_DSP", "-U__ARM_FEATURE_SAT"),
    ),
    "cortex-m55": Board(
        PROFILES["cortex-m55"](),
        _peers(1_810_000, 4_910_000, 6_550_000, 147_000),
        _marks(0.85, 0.55),
        slower=0.9,
    ),
    "rv32imc": Board(
        PROFILES["rv32imc"](),
        _peers(16_300_000, 63_200_000, 48_600_000, 1_470_000),
        _marks(0.70, 0.75),
        slower=0.1,
    ),
}
"""By name. ``cortex-m4-c99`` is the form without intrinsics."""
