"""The synthesizer: model and graph in, plan and bundle out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from openinfer.arch import DeviceArch
from openinfer.boundary import public_methods
from openinfer.diagnostics import Diagnostic, Severity, as_errors, counted
from openinfer.errors import SynthesisError
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.synth.bundle import Bundle, write_bundle
from openinfer.synth.guarded_target import opened_target
from openinfer.synth.profiles import device_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.programs import Program
    from openinfer.synth.target import Array, RunResult, SynthTarget

LARGE_ARENA = 2**30
"""Bytes of static memory above which a program may be meant, and is warned of."""


@public_methods
@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthesised program: its plan, its source files, and the warnings found on the way."""

    plan: ExecutionPlan
    bundle: Bundle
    target: SynthTarget
    warnings: tuple[Diagnostic, ...] = ()

    def __repr__(self) -> str:
        return f"<Synthesis for {self.plan.target}: {self._counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import Table, fragment

        files = [(name, f"{len(data):,}") for name, data in self.bundle.files.items()]
        warnings = [(warning.code, warning.message) for warning in self.warnings]
        return fragment(
            f"Synthesis for {self.plan.target}",
            self._counts(),
            Table(("warning", "message"), warnings, "warnings"),
            Table(("file", "bytes"), files, "files"),
            *self.plan.notebook_parts(),
        )

    def _counts(self) -> str:
        files = counted(len(self.bundle.files), "file")
        return f"{files}, {self.bundle.nbytes:,} bytes; {self.plan.counts()}"

    def report(self) -> str:
        """Return inputs, outputs, sizes and the schedule."""
        return self.plan.report()

    def memory_map(self) -> str:
        """Return where every value lies in the arena."""
        return self.plan.memory_map()

    def emit(self, directory: str | os.PathLike[str]) -> Path:
        """Write the source files to a directory, all or none; return it.

        Raises:
            SynthesisError: the directory holds something else than an earlier bundle, or cannot be written.
        """
        return write_bundle(self.bundle, directory)

    def run(
        self, inputs: Mapping[str, Array], *, steps: int | None = None, repeat: int = 1, timeout: float = 60.0
    ) -> RunResult:
        """Compile and run the program; see `openinfer.synth.SynthTarget.build_and_run`."""
        return self.target.build_and_run(self.plan, self.bundle, inputs, steps=steps, repeat=repeat, timeout=timeout)


@public_methods
class Synthesizer:
    """Writes programs out for one synth target.

    Args:
        target: name of a synth target, such as ``"c"``; by default the one that ``arch`` names.
        arch: the device that the program is for: a `DeviceArch`, its document, the path of its file, or the name of one
            of the target's profiles, such as ``"host"``. Its ``memory.global_bytes`` is a limit, and targets find all
            of it in the plan. By default a device of which nothing is known.
        environment: what the plugins offer; the installed ones by default.

    Raises:
        SynthesisError: the target is unknown, or another one than that of the device.
        SerializationError: the file or document is not that of a device.
        OSError: there is neither a profile nor a file of that name.
        PluginError: its plugin failed.
    """

    def __init__(
        self,
        target: str | Enum | None = None,
        *,
        arch: DeviceArch | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        environment: Environment | None = None,
    ) -> None:
        self._environment = environment or Environment.default()
        self._arch = device_of(arch, _name_of(target), self._environment)
        name = _target_name(target, self._arch)
        self._spec = self._environment.target(name)
        self._target: SynthTarget = opened_target(self._spec, self._environment.owner("synth target", name))

    @classmethod
    def from_arch(
        cls, arch: DeviceArch | Mapping[str, Any] | str | os.PathLike[str], *, environment: Environment | None = None
    ) -> Synthesizer:
        """Return the synthesizer for a device: the same as ``Synthesizer(arch=arch)``."""
        return cls(arch=arch, environment=environment)

    @property
    def target(self) -> str:
        """Name of the synth target."""
        return self._spec.name

    def __repr__(self) -> str:
        return f"<Synthesizer for {self.target}>"

    def synthesize(
        self, model: Model, graph: Program, *, sizes: Mapping[str, int] | None = None, strict: bool = False
    ) -> Synthesis:
        """Return the plan and the source files of a program.

        Args:
            graph: a graph, its JSON document, its text or JSON text, or the path of an ``.oi`` or ``.json`` file.
            sizes: named sizes that take the place of the model's.
            strict: whether warnings are errors.

        Raises:
            DslSyntaxError, GraphError, SerializationError: the text or JSON is not a program; all findings.
            ValidationError: the graph does not fit the model; all findings.
            SynthesisError: the target cannot carry out something in it; the message names construct and line. Or the
                device has less memory than it needs. In strict mode also ``large-arena``, the intermediate results take
                more than a GiB.
        """
        from openinfer import programs
        from openinfer.plan import make_plan
        from openinfer.validate import resolve

        program = programs.graph(graph, strict=strict)
        resolved = resolve(program, model, sizes=sizes, environment=self._environment, strict=strict)
        table = kernel_table(self._environment, self._spec)
        machine = None if self._arch is None else self._arch.processor
        plan = make_plan(resolved, model, self._environment, table, epilogues=self._target.epilogues, machine=machine)
        plan = replace(plan, arch=self._arch)
        warnings = (*(() if self._arch is None else self._arch.warnings), *_large_arena(plan.arena_nbytes))
        if strict and warnings:
            raise SynthesisError(warnings[0].message, diagnostics=as_errors(warnings))
        _check_memory(plan)
        return Synthesis(plan, self._target.emit(plan), self._target, (*resolved.warnings, *warnings))


def _target_name(target: str | Enum | None, arch: DeviceArch | None) -> str:
    if target is None and arch is None:
        raise TypeError("Synthesizer needs the name of a synth target, or arch")
    name = _name_of(target)
    if name is not None and arch is not None and name != arch.api:
        raise SynthesisError(f"the device is for the synth target {arch.api!r}, found {name!r}: leave the target out")
    return arch.api if name is None and arch is not None else str(name)


def _name_of(target: str | Enum | None) -> str | None:
    return str(target.value) if isinstance(target, Enum) else target


def _check_memory(plan: ExecutionPlan) -> None:
    """Raise when the device is known to have too little memory."""
    most = 0 if plan.arch is None else plan.arch.memory.global_bytes
    needed = plan.arena_nbytes + plan.weights_nbytes
    if 0 < most < needed:
        message = f"the program needs {needed} bytes ({plan.weights_nbytes} of weights), the device has {most}"
        raise SynthesisError(f"{message} (memory.global_bytes): use smaller sizes", code="synthesis")


def target_findings(
    resolved: ResolvedGraph, model: Model, target: str, environment: Environment
) -> tuple[Diagnostic, ...]:
    """Return why a synth target does not write a program out: every statement that it refuses.

    Raises:
        SynthesisError: ``target`` is unknown, or the program is refused for what has no place in it.
    """
    from openinfer.plan import plan_findings

    spec = environment.target(target)
    return plan_findings(resolved, model, environment, kernel_table(environment, spec))


def _large_arena(nbytes: int) -> Iterator[Diagnostic]:
    if nbytes > LARGE_ARENA:
        yield Diagnostic(
            code="large-arena",
            message=f"the intermediate results take {nbytes / 2**30:.1f} GiB of static memory",
            severity=Severity.WARNING,
            hint="use smaller sizes (--size); many linkers refuse more than 2 GiB",
        )
