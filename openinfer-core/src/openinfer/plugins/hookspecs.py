"""The hooks that a plugin module may implement (decorate with `hookimpl`).

Every catalogue hook returns an iterable of the named description; it is consumed when plugins are loaded. Import
`openinfer_hookimpl` as ``from openinfer.plugins.hookspecs import hookimpl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.types import (
        AttributeSpec,
        CodeSpec,
        CommandSpec,
        DeviceSpec,
        ImporterSpec,
        KernelSpec,
        ModelFormatSpec,
        ObserverSpec,
        PassSpec,
        ProfileSpec,
        RunnerSpec,
        SynthTargetSpec,
    )

PROJECT = "openinfer"
"""Name of the entry-point group and of the pluggy project."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def openinfer_ops() -> Iterable[OpSchema]:
    """Operators."""
    return ()


@hookspec
def openinfer_kernels(target: str) -> Iterable[KernelSpec]:
    """Kernels for the device or synth target of that name; requested when it is opened."""
    return ()


@hookspec(firstresult=True)
def openinfer_select_kernel(call: OpCall, candidates: Sequence[KernelSpec], device: str) -> KernelSpec | None:
    """Choose among the kernels that fit a call; None leaves it to the next plugin, lastly to the lowest cost."""
    return None


@hookspec
def openinfer_devices() -> Iterable[DeviceSpec]:
    """Devices."""
    return ()


@hookspec
def openinfer_synth_targets() -> Iterable[SynthTargetSpec]:
    """Synth targets."""
    return ()


@hookspec
def openinfer_profiles() -> Iterable[ProfileSpec]:
    """Profiles of devices for synth targets."""
    return ()


@hookspec
def openinfer_passes(stage: str) -> Iterable[PassSpec]:
    """Passes of a stage."""
    return ()


@hookspec
def openinfer_model_formats() -> Iterable[ModelFormatSpec]:
    """Model file formats."""
    return ()


@hookspec
def openinfer_importers() -> Iterable[ImporterSpec]:
    """Foreign model formats that become programs."""
    return ()


@hookspec
def openinfer_attributes() -> Iterable[AttributeSpec]:
    """Declaration attributes."""
    return ()


@hookspec
def openinfer_runners() -> Iterable[RunnerSpec]:
    """Runners of many inputs."""
    return ()


@hookspec
def openinfer_observers() -> Iterable[ObserverSpec]:
    """Trace observers."""
    return ()


@hookspec
def openinfer_codes() -> Iterable[CodeSpec]:
    """Codes of errors and warnings."""
    return ()


@hookspec
def openinfer_commands() -> Iterable[CommandSpec]:
    """Subcommands."""
    return ()
