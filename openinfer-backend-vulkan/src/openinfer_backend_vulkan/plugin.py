"""Entry point of the distribution: what it offers to OpenInfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BY_NAME
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import DeviceSpec, Fallback, SynthTargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

OPENINFER_API = 1

FUNCTIONS = "openinfer.expr.glsl_functions:has_function"
"""Which functions shaders have: those of the library are in f32 only."""


@hookimpl
def openinfer_devices() -> Iterable[DeviceSpec]:
    """The device vulkan: every Vulkan device can compute in the element types of at most 32 bits, some in all."""
    yield DeviceSpec(
        name="vulkan",
        summary="compute shaders through the Vulkan API",
        probe="openinfer_backend_vulkan.api.probe:probe",
        backend="openinfer_backend_vulkan.backend:VulkanBackend",
        expression_dtypes=frozenset(dtype.name for dtype in BY_NAME.values() if dtype.bits <= 32),
        optional_dtypes=frozenset({"f64", "i64", "u64"}),
        computations=True,
        fitting_programs=True,
        state=True,
        functions=FUNCTIONS,
        fallback=Fallback(device="cpu", dtypes=frozenset({"f64", "i64", "u64"})),
    )


@hookimpl
def openinfer_synth_targets() -> Iterable[SynthTargetSpec]:
    """The target vulkan."""
    yield SynthTargetSpec(
        name="vulkan",
        summary="GLSL compute shaders and a C99 host over the Vulkan API",
        target="openinfer_backend_vulkan.target.target:VulkanTarget",
        expression_dtypes=frozenset(BY_NAME),
        computations=True,
        state=True,
        functions=FUNCTIONS,
        profiles="openinfer_backend_vulkan.target.devices:PROFILES",
    )
