"""Where conformance cases run: devices, and synth targets through the programs that they write out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from openinfer.plugins.selection import kernel_table
from openinfer.testing.programs import refuse_on_device, run_on_device, run_on_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.errors import OpenInferError
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable
    from openinfer.plugins.types import KernelSpec
    from openinfer.testing.cases import Case
    from openinfer.testing.refused import RefusedCase
    from openinfer.testing.values import Array

    Run: TypeAlias = Callable[[Sequence[Case]], list[list[Array]]]
    Refuse: TypeAlias = Callable[[Sequence[RefusedCase]], list[list[OpenInferError | None]]]


@dataclass(frozen=True, slots=True)
class Place:
    """A device or synth target.

    Attributes:
        table: its kernels.
        run: runs cases as one program and returns the outputs of each.
        refuse: runs cases as one program, a step for each of their elements that have no result, and returns the errors
            that these end with; None: it is not tried.
    """

    table: KernelTable
    run: Run
    refuse: Refuse | None = None


def device_place(name: str, environment: Environment) -> Place:
    """Return a device as a place; it has to run everything itself, also where it could leave it to another device.

    Raises:
        DeviceError: the device is unknown.
    """
    spec = environment.device(name)
    alone = replace(environment, devices={**environment.devices, name: replace(spec, fallback=None)})
    table = kernel_table(environment, spec)
    on_device = {"device": name, "environment": alone}
    return Place(table, partial(run_on_device, **on_device), partial(refuse_on_device, **on_device))


def reference_place(schema: OpSchema, environment: Environment) -> Place:
    """Return the device cpu without kernels of an operator: its definition is what is left.

    Raises:
        DeviceError: there is no device cpu.
    """

    def others(target: str) -> list[KernelSpec]:
        return [kernel for kernel in environment.kernel_source(target) if kernel.op != schema.name]

    return device_place("cpu", replace(environment, kernel_source=others))


def target_place(name: str, environment: Environment) -> Place:
    """Return a synth target as a place: programs are written out, built and run as the target does it for users.

    Raises:
        SynthesisError: the target is unknown.
    """
    table = kernel_table(environment, environment.target(name))
    return Place(table, partial(run_on_target, target=name, environment=environment))
