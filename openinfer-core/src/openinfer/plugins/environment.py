"""The environment: what the loaded plugins offer, as one frozen value that is handed down. There is no registry."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.boundary import public_methods
from openinfer.diagnostics import counted, did_you_mean
from openinfer.dtypes import BUILTIN
from openinfer.errors import DeviceError, OpenInferError, SynthesisError
from openinfer.ops.other_names import other_name_hint
from openinfer.plugins.crossing import UNKNOWN, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.dtypes import DType
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


MOST_NAMED = 5
"""Plugins that a message names."""


class Status(Enum):
    """What became of a plugin."""

    OK = "ok"
    FAILED = "failed"
    BLOCKED = "blocked"
    DUPLICATE = "duplicate"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """A plugin found on this machine: who published it, and what became of it.

    Attributes:
        reason: why it is not ok; empty where it is.
        withheld: kinds and names of what it would offer if it were ok, as far as that is known.
    """

    name: str
    distribution: str
    version: str
    status: Status
    reason: str = ""
    withheld: tuple[tuple[str, str], ...] = ()


def _none() -> Mapping[str, Any]:
    return MappingProxyType({})


@public_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the plugins offer.

    Attributes:
        plugins: every plugin found, loaded or not.
        providers: name of the plugin that provided an object, by kind and key, such as ``("op", "add")``.
        ops: operators by canonical name; `op` finds aliases too.
        profiles: by synth target and name, such as ``"c:board"``.
        kernel_source: yields the kernels for a device or target.
        kernel_choice: chooses among several kernels that fit.
    """

    plugins: tuple[PluginInfo, ...] = ()
    providers: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))
    dtypes: Mapping[str, DType] = field(default_factory=lambda: MappingProxyType({d.name: d for d in BUILTIN}))
    ops: Mapping[str, OpSchema] = field(default_factory=_none)
    devices: Mapping[str, DeviceSpec] = field(default_factory=_none)
    targets: Mapping[str, SynthTargetSpec] = field(default_factory=_none)
    profiles: Mapping[str, ProfileSpec] = field(default_factory=_none)
    passes: Mapping[str, PassSpec] = field(default_factory=_none)
    model_formats: Mapping[str, ModelFormatSpec] = field(default_factory=_none)
    importers: Mapping[str, ImporterSpec] = field(default_factory=_none)
    attributes: Mapping[str, AttributeSpec] = field(default_factory=_none)
    runners: Mapping[str, RunnerSpec] = field(default_factory=_none)
    observers: Mapping[str, ObserverSpec] = field(default_factory=_none)
    codes: Mapping[str, CodeSpec] = field(default_factory=_none)
    commands: Mapping[str, CommandSpec] = field(default_factory=_none)
    op_aliases: Mapping[str, str] = field(default_factory=_none)
    kernel_source: Callable[[str], Sequence[KernelSpec]] = lambda _target: ()
    kernel_choice: Callable[[OpCall, Sequence[KernelSpec], str], KernelSpec] = lambda _call, candidates, _device: min(
        candidates, key=lambda kernel: kernel.cost
    )

    def __repr__(self) -> str:
        counts = ((len(self.plugins), "plugin"), (len(self.ops), "operator"), (len(self.dtypes), "element type"))
        devices = f"devices {', '.join(self.devices) or 'none'}; targets {', '.join(self.targets) or 'none'}"
        return f"<Environment: {', '.join(counted(number, what) for number, what in counts)}; {devices}>"

    @staticmethod
    def default() -> Environment:
        """Return the environment of this process: its installed plugins, loaded at the first call."""
        from openinfer.plugins.loader import default_environment

        return default_environment()

    def op(self, name: str) -> OpSchema:
        """Return the operator of that name or alias.

        Raises:
            OpenInferError: ``unknown-op``, with near names.
        """
        schema = self.ops.get(self.op_aliases.get(name, name))
        if schema is None:
            known = [*self.ops, *self.op_aliases]
            hint = other_name_hint(name, known) or did_you_mean(name, known)
            message = f"unknown operator {name!r}" + (f": {hint}" if hint else "")
            raise OpenInferError(message + self._left_out("op", name), code="unknown-op")
        return schema

    def owner(self, noun: str, name: str) -> Owner:
        """Return the plugin that offers an object; ``noun`` is its kind, such as ``"device"``."""
        plugin = self.providers.get((noun, name))
        found = (info for info in self.plugins if info.name == plugin and info.status is Status.OK)
        info = next(found, None)
        return UNKNOWN if info is None else Owner(info.name, info.distribution)

    def device(self, name: str) -> DeviceSpec:
        """Return the device of that name, without its ordinal.

        Raises:
            DeviceError: there is none; the message lists the devices.
        """
        spec = self.devices.get(name)
        if spec is None:
            raise DeviceError(_unknown("device", name, self.devices) + self._left_out("device", name))
        return spec

    def target(self, name: str) -> SynthTargetSpec:
        """Return the synth target of that name.

        Raises:
            SynthesisError: there is none; the message lists the targets.
        """
        spec = self.targets.get(name)
        if spec is None:
            message = _unknown("synth target", name, self.targets) + self._left_out("synth target", name)
            raise SynthesisError(message, code="unknown-target")
        return spec

    def runner(self, name: str) -> RunnerSpec:
        """Return the runner of that name.

        Raises:
            OpenInferError: ``unknown-runner``; the message lists the runners.
        """
        spec = self.runners.get(name)
        if spec is None:
            message = _unknown("runner", name, self.runners) + self._left_out("runner", name)
            raise OpenInferError(message, code="unknown-runner")
        return spec

    def _left_out(self, noun: str, name: str) -> str:
        """Return which plugins that are not loaded offer an object, or may, as the end of a message."""
        absent = [info for info in self.plugins if info.status is not Status.OK and _may_offer(info, name)]
        offering = [info for info in absent if (noun, name) in info.withheld]
        if not absent:
            return ""
        named = offering or absent
        listed = ", ".join(f"{info.name} ({info.status.value})" for info in named[:MOST_NAMED])
        more = ", ..." if len(named) > MOST_NAMED else ""
        verb = "offer it, but did not load" if offering else "may offer it, but did not load"
        return f"; these plugins {verb}: {listed}{more}; `openinfer plugins` says why"

    def kernels(self, target: str) -> Mapping[str, Sequence[KernelSpec]]:
        """Return the kernels for a device or target, by operator."""
        found: dict[str, list[KernelSpec]] = {}
        for kernel in self.kernel_source(target):
            found.setdefault(kernel.op, []).append(kernel)
        return found


def _may_offer(info: PluginInfo, name: str) -> bool:
    """Whether a plugin that did not load may offer an object; what this repository publishes is known."""
    return Owner(info.name, info.distribution).is_foreign or info.name in (name, "core")


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    hint = did_you_mean(name, known)
    listed = ", ".join(sorted(known)) or "none: no installed plugin offers one"
    return f"unknown {what} {name!r}; known: {listed}" + (f"; {hint}" if hint else "")
