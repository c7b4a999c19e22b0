"""Entry point of the distribution: what it offers to OpenInfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BUILTIN
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import DeviceSpec, SynthTargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

OPENINFER_API = 1


@hookimpl
def openinfer_devices() -> Iterable[DeviceSpec]:
    """The device c."""
    yield DeviceSpec(
        name="c",
        summary="the program as target c writes it out, compiled and run in this process",
        probe="openinfer_synth_c.probe:probe",
        backend="openinfer_synth_c.device:CDevice",
        expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
        computations=True,
        loop_programs=True,
        whole_programs=True,
        state=True,
    )


@hookimpl
def openinfer_synth_targets() -> Iterable[SynthTargetSpec]:
    """The target c."""
    yield SynthTargetSpec(
        name="c",
        summary="plain C99 source: no heap, static arena, weights embedded",
        target="openinfer_synth_c.target:CTarget",
        expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
        computations=True,
        loop_programs=True,
        state=True,
        profiles="openinfer_synth_c.profiles:PROFILES",
    )
