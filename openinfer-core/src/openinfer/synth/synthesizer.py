"""The synthesizer: model and graph in, plan and bundle out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from openinfer.arch import DeviceArch
from openinfer.boundary import public_methods
from openinfer.diagnostics import Diagnostic, Severity, as_errors, counted
from openinfer.errors import SynthesisError
from openinfer.ir.bulk import many_objects
from openinfer.plan.findings import findings_of
from openinfer.plan.options import BundleOptions
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.synth.bundle import Bundle, write_bundle
from openinfer.synth.guarded_target import opened_target
from openinfer.synth.profiles import device_of
from openinfer.synth.proof import Prover
from openinfer.synth.target import Profiler

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.plan import PlanOptions
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.limits import Limits
    from openinfer.plan.schedules import ScheduleFile
    from openinfer.plan.stages import Watch
    from openinfer.programs import Program
    from openinfer.synth.proof import Proof
    from openinfer.synth.target import Array, RunResult, SynthTarget

LARGE_ARENA = 2**30
"""Bytes of static memory above which a program may be meant, and is warned of."""


OVER_BUDGET = "over-budget"
"""The code of a program that needs more memory than a device has."""


@public_methods
@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthesised program: its plan, its source files, and the warnings found on the way.

    Attributes:
        proof: the result of the analyser, after `prove` was called.
    """

    plan: ExecutionPlan
    bundle: Bundle
    target: SynthTarget
    warnings: tuple[Diagnostic, ...] = ()
    proof: Proof | None = None

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
        self,
        inputs: Mapping[str, Array],
        *,
        steps: int | None = None,
        repeat: int = 1,
        timeout: float = 60.0,
        initial: Mapping[str, Array] | None = None,
    ) -> RunResult:
        """Compile and run the program; see `openinfer.synth.SynthTarget.build_and_run`."""
        return self.target.build_and_run(
            self.plan, self.bundle, inputs, steps=steps, repeat=repeat, timeout=timeout, initial=initial
        )

    def profile(self, inputs: Mapping[str, Array], *, timeout: float = 60.0) -> RunResult:
        """Run one step on the emulated board of the device and count the instructions of every step of the plan.

        Args:
            inputs: arrays by input name, of the plan's types.
            timeout: seconds that compiling and running may take, each.

        Raises:
            MissingDependencyError: the compiler or the emulator of the board is not installed.
            SynthesisError: the target or the device has no board that is emulated, or building or running failed.
        """
        if not isinstance(self.target, Profiler):
            raise SynthesisError(
                f"no board runs programs of target {self.plan.target}: those of target c can be counted"
            )
        return self.target.profile(self.plan, inputs, timeout=timeout)

    def prove(self, *, timeout: float = 60.0) -> Synthesis:
        """Return the synthesis with `proof`, which its bundle records too; alarms are not an error.

        Args:
            timeout: seconds that the analyser may take.

        Raises:
            MissingDependencyError: the analyser is not installed.
            SynthesisError: it failed or took too long, or the target has none.
        """
        if not isinstance(self.target, Prover):
            message = f"no analyser reads what target {self.plan.target} writes: programs of target c can be proved"
            raise SynthesisError(message)
        proof, bundle = self.target.prove(self.plan, timeout=timeout)
        return replace(self, bundle=bundle, proof=proof)


@public_methods
class Synthesizer:
    """Writes programs out for one synth target.

    Args:
        target: name of a synth target, such as ``"c"``; by default the one that ``arch`` names.
        arch: the device that the program is for: a `DeviceArch`, its document, the path of its file, or the name of one
            of the target's profiles, such as ``"host"``. Its ``memory.global_bytes`` is a limit, and targets find all
            of it in the plan. By default a device of which nothing is known.
        schedules: schedules in place of those that the cost model chooses: the path of a file, as ``openinfer plan
            --schedules-out`` writes it, or its content (`openinfer.plan.schedules.ScheduleFile`).
        limits: how far caches may grow that nothing else bounds: ``{"K.t": 1024}`` for index ``t`` of cache ``K``, or
            ``{"t": 1024}`` for that index of every cache. ``{"T": 1024}`` for a size that may differ from step to step:
            the caller gives it in every step, up to the limit. Each such size needs a limit, or one value for all
            steps among the ``sizes`` of `synthesize`.
        strict_order: whether every sum adds its terms one by one in row-major order without fused multiply-add: slower,
            and with the bits of any other device that does so. The hint ``strict_order`` decides for single statements.
        prefix: what external names of the source begin with: functions, types, macros, files. Models with different
            prefixes link into one program.
        project: the build system whose files a bundle has: ``"make"`` by default, ``"cmake"`` or ``"platformio"``, and
            with target c a framework: ``"zephyr"``, ``"arduino"``, ``"esp-idf"`` or ``"cmsis-pack"``.
        weights: where weights are: ``"embedded"`` in the source, in a ``"file"`` that the program hands over, in an
            ``"object"`` that is linked; by default embedded up to 1 MiB, else a file.
        io: where inputs and outputs are: arrays of the ``"caller"`` by default, or ``"inside"`` of an instance too, for
            which a step is given ``NULL``.
        threads: whether blocks that wait for what ``entry`` yields run on threads of the platform header, up to the
            await; by default they run in line.
        environment: what the plugins offer; the installed ones by default.

    Raises:
        SynthesisError: the target is unknown, or another one than that of the device; or the file has no schedules; or
            the target does not follow an option.
        SerializationError: the file or document is not that of a device.
        OSError: there is neither a profile nor a file of that name.
        PluginError: its plugin failed.
    """

    def __init__(
        self,
        target: str | Enum | None = None,
        *,
        arch: DeviceArch | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        schedules: ScheduleFile | str | os.PathLike[str] | None = None,
        limits: Mapping[str, int] | None = None,
        strict_order: bool = False,
        prefix: str | None = None,
        project: str | None = None,
        weights: str | None = None,
        io: str | None = None,
        threads: bool = False,
        environment: Environment | None = None,
    ) -> None:
        self._limits = dict(limits or {})
        self._strict_order = strict_order
        self._environment = environment or Environment.default()
        self._arch = device_of(arch, _name_of(target), self._environment)
        self._schedules = _schedules_of(schedules)
        name = _target_name(target, self._arch)
        self._spec = self._environment.target(name)
        self._target: SynthTarget = opened_target(self._spec, self._environment.owner("synth target", name))
        if self._schedules is not None and not self._target.arrangements:
            message = f"the synth target {name!r} arranges loops itself, no schedules fit it: leave them out"
            raise SynthesisError(message, code="schedules")
        self._options = _options_of(
            self._spec.name,
            self._target,
            {"prefix": prefix, "project": project, "weights": weights, "io": io, "threads": threads or None},
        )

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
                device has less memory than it needs. In strict mode also ``large-arena``, the intermediate results, or
                the persistent variables, take more than a GiB.
        """
        with many_objects():
            plan, warnings = self._planned(model, graph, sizes, strict=strict)
            _check_memory(plan)
            return Synthesis(plan, self._target.emit(plan), self._target, warnings)

    def refusals(
        self, model: Model, graph: Program, *, sizes: Mapping[str, int] | None = None
    ) -> tuple[Diagnostic, ...]:
        """Return why `synthesize` refuses a program that is valid, every statement of which that is known; or nothing.

        Raises:
            DslSyntaxError, GraphError, SerializationError, ValidationError: as `synthesize`.
        """
        try:
            self.synthesize(model, graph, sizes=sizes)
        except SynthesisError as error:
            return findings_of(error)
        return ()

    def plan(
        self,
        model: Model,
        graph: Program,
        *,
        sizes: Mapping[str, int] | None = None,
        strict: bool = False,
        watch: Watch | None = None,
    ) -> ExecutionPlan:
        """Return the plan of a program, which may need more memory than the device has; nothing is written out.

        Other parameters, and errors, are those of `synthesize`.

        Args:
            watch: is called after each pass with its name, and a function that returns the program as text.
        """
        with many_objects():
            return self._planned(model, graph, sizes, strict=strict, watch=watch)[0]

    def _planned(
        self,
        model: Model,
        graph: Program,
        sizes: Mapping[str, int] | None,
        *,
        strict: bool,
        watch: Watch | None = None,
    ) -> tuple[ExecutionPlan, tuple[Diagnostic, ...]]:
        from openinfer import programs
        from openinfer.plan import limits_of, make_plan, refuse_unlimited
        from openinfer.plan.stages import ignored
        from openinfer.validate import resolve

        program = programs.graph(graph, strict=strict)
        limits = limits_of(program, model, self._limits)
        largest = {**(sizes or {}), **limits.sizes}
        resolved = resolve(program, model, sizes=largest, environment=self._environment, strict=strict)
        refuse_unlimited(program, model, largest)
        table = kernel_table(self._environment, self._spec)
        plan = make_plan(resolved, model, self._environment, table, self._plan_options(limits), watch=watch or ignored)
        plan = replace(plan, arch=self._arch, options=self._options, program_digest=_digest(program))
        warnings = (*(() if self._arch is None else self._arch.warnings), *_large_memory(plan), *_ports_beyond(plan))
        if strict and warnings:
            raise SynthesisError(warnings[0].message, diagnostics=as_errors(warnings))
        return plan, (*resolved.warnings, *warnings, *_unused_precision(self._arch))

    def _plan_options(self, limits: Limits) -> PlanOptions:
        from openinfer.plan import PlanOptions

        of_target = PlanOptions(
            epilogues=self._target.epilogues,
            overlaps=self._target.overlaps,
            scheduled=self._target.arrangements,
            folded=True,
            schedules=self._schedules,
            limits=limits.caches,
            given=limits.sizes,
            strict_order=self._strict_order,
            threads=self._options.threads,
        )
        if self._arch is None:
            return of_target
        preferences = self._arch.preferences
        return replace(
            of_target,
            machine=self._arch.machine,
            memories=self._arch.memories if self._target.banks else (),
            states_first=preferences.prefer_persistent_kv,
            most_ops=preferences.most_ops,
        )


def _target_name(target: str | Enum | None, arch: DeviceArch | None) -> str:
    if target is None and arch is None:
        raise TypeError("Synthesizer needs the name of a synth target, or arch")
    name = _name_of(target)
    if name is not None and arch is not None and name != arch.api:
        raise SynthesisError(f"the device is for the synth target {arch.api!r}, found {name!r}: leave the target out")
    return arch.api if name is None and arch is not None else str(name)


def _digest(program: Graph) -> str:
    """Return the SHA-256 of a program's JSON without the identities of nodes, which differ between equal programs."""
    from openinfer.serialize import GraphSerialize

    text = json.dumps(_without_identities(GraphSerialize.json(program)), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _without_identities(value: Any) -> Any:
    """Return JSON without the ids of nodes, which are strings; what a variable of the name ``uuid`` is stays."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _without_identities(entry) for key, entry in items if key != "uuid" or not isinstance(entry, str)}
    if isinstance(value, list):
        return [_without_identities(entry) for entry in cast("list[Any]", value)]
    return value


def _options_of(name: str, target: SynthTarget, given: Mapping[str, Any]) -> BundleOptions:
    """Return the options that are given; raise for one that the target does not follow."""
    chosen = {option: value for option, value in given.items() if value is not None}
    for option in chosen:
        if option not in target.options:
            raise SynthesisError(f"the synth target {name!r} has no option {option}: leave it out")
    return BundleOptions(**chosen)


def _schedules_of(given: ScheduleFile | str | os.PathLike[str] | None) -> ScheduleFile | None:
    from openinfer.plan.schedules import ScheduleFile, read_schedules

    return given if isinstance(given, ScheduleFile | None) else read_schedules(given)


def _name_of(target: str | Enum | None) -> str | None:
    return str(target.value) if isinstance(target, Enum) else target


def _check_memory(plan: ExecutionPlan) -> None:
    """Raise when the device is known to have too little memory."""
    _check_flash(plan)
    most = 0 if plan.arch is None else plan.arch.memory.global_bytes
    needed = plan.arena_nbytes + plan.state_nbytes + plan.weights_nbytes
    if 0 < most < needed:
        kept = f", {plan.state_nbytes} of persistent variables" if plan.states else ""
        message = f"the program needs {needed} bytes ({plan.weights_nbytes} of weights{kept}), the device has {most}"
        raise SynthesisError(f"{message} (memory.global_bytes): use smaller sizes", code="synthesis")


def _check_flash(plan: ExecutionPlan) -> None:
    """Raise when the device has flash, and too little for the weights."""
    flash = [bank.nbytes for bank in (() if plan.arch is None else plan.arch.memories) if bank.kind == "flash"]
    if not flash or plan.weights_nbytes <= sum(flash):
        return
    largest = max(plan.weights, key=lambda weight: weight.stored.nbytes)
    message = f"the weights take {plan.weights_nbytes:,} bytes, the flash of the device has {sum(flash):,}"
    hint = f"the largest is {largest.source}: {largest.type}, {largest.stored.nbytes:,} bytes"
    found = Diagnostic(code=OVER_BUDGET, message=message, hint=hint)
    raise SynthesisError(message, code=OVER_BUDGET, diagnostics=(found,))


def _ports_beyond(plan: ExecutionPlan) -> Iterator[Diagnostic]:
    """Warn where the memories of the device have no room for the caller's inputs and outputs."""
    ports = sorted((*plan.inputs, *plan.outputs), key=lambda port: -port.type.nbytes)
    needed, room = sum(port.type.nbytes for port in ports), sum(bank.capacity - bank.nbytes for bank in plan.banks)
    if plan.banks and needed > room:
        yield Diagnostic(
            code=OVER_BUDGET,
            message=f"inputs and outputs take {needed:,} bytes, the memories of the device have {room:,} left",
            severity=Severity.WARNING,
            hint=f"the largest is {ports[0].name}: {ports[0].type}, {ports[0].type.nbytes:,} bytes",
        )


def _unused_precision(arch: DeviceArch | None) -> Iterator[Diagnostic]:
    precision = "f32" if arch is None else arch.preferences.default_precision
    if precision != "f32":
        message = f"preferences.default_precision is {precision}, which changes nothing: no program leaves it open"
        hint = "every value has the type that the program states, and arithmetic follows it: declare or cast values"
        yield Diagnostic(code="default-precision", message=message, severity=Severity.NOTE, hint=hint)


def _large_memory(plan: ExecutionPlan) -> Iterator[Diagnostic]:
    parts = (
        ("the intermediate results take", plan.arena_nbytes, "smaller sizes (--size)"),
        ("persistent variables take", plan.state_nbytes, "smaller sizes (--size) or limits (--limit)"),
    )
    for what, nbytes, smaller in parts:
        if nbytes > LARGE_ARENA:
            yield Diagnostic(
                code="large-arena",
                message=f"{what} {nbytes / 2**30:.1f} GiB of static memory",
                severity=Severity.WARNING,
                hint=f"use {smaller}; many linkers refuse more than 2 GiB",
            )
