"""Devices by name: the built-in names, and opening one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from openinfer.errors import DeviceError
from openinfer.plugins.probing import probe
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.devices.binding import Binder
from openinfer.simulate.devices.guarded_backend import opened_backend

if TYPE_CHECKING:
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import DeviceSpec
    from openinfer.simulate.devices.backend import DeviceBackend


MOST_DIGITS = 9
"""Digits of a device's number; no machine has more devices."""


class Device(StrEnum):
    """Names of the built-in devices; the device of a plugin is given by its name.

    ``Device.Cpu`` and ``Device.Vulkan`` are other names of the same members.
    """

    CPU = "cpu"
    VULKAN = "vulkan"
    C = "c"
    Cpu = CPU
    Vulkan = VULKAN


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """An available device, and its number among devices of its kind."""

    spec: DeviceSpec
    ordinal: int

    @property
    def name(self) -> str:
        """The name, with the ordinal where it is not 0."""
        return f"{self.spec.name}:{self.ordinal}" if self.ordinal else self.spec.name


def choose_device(name: str, environment: Environment) -> DeviceChoice:
    """Return the device of a name such as ``"cpu"`` or ``"vulkan:1"``.

    Raises:
        DeviceError: it is unknown, or cannot be used here (``device-unavailable``, with what to do).
    """
    kind, colon, digits = str(name).partition(":")
    if colon and not (digits.isascii() and digits.isdigit()):
        raise DeviceError(f"expected a device such as `{kind}` or `{kind}:1`, found {str(name)!r}")
    if len(digits) > MOST_DIGITS:
        raise DeviceError(f"no device {kind} has a number of {len(digits)} digits")
    spec = environment.device(kind)
    probed = probe(spec, environment.owner("device", kind))
    if not probed.available:
        raise DeviceError(f"device {kind} cannot be used here: {probed.detail}", code="device-unavailable")
    return DeviceChoice(spec, int(digits or 0))


def open_device(choice: DeviceChoice, environment: Environment) -> tuple[DeviceBackend, Binder]:
    """Return an opened device and its binder of operators.

    Raises:
        DeviceError: it cannot be opened.
        PluginError: its plugin failed, or its backend is without a method.
    """
    backend = opened_backend(choice.spec, choice.ordinal, environment.owner("device", choice.spec.name))
    table = kernel_table(environment, choice.spec)
    return backend, Binder(environment, table, backend)
