"""The synthesizer: model and graph in, plan and bundle out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import Diagnostic, Severity, as_errors
from openinfer.errors import SynthesisError
from openinfer.ir.graph import Graph
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.plugins.types import load_object
from openinfer.synth.bundle import Bundle, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.model import Model
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.target import Array, RunResult, SynthTarget

LARGE_ARENA = 2**30
"""Bytes of static memory above which a program may be meant, and is warned of."""


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthesised program: its plan, its source files, and the warnings found on the way."""

    plan: ExecutionPlan
    bundle: Bundle
    target: SynthTarget
    warnings: tuple[Diagnostic, ...] = ()

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


class Synthesizer:
    """Writes programs out for one synth target.

    Args:
        target: name of a synth target, such as ``"c"``.
        environment: what the plugins offer; the installed ones by default.

    Raises:
        SynthesisError: the target is unknown.
    """

    def __init__(self, target: str | Enum, *, environment: Environment | None = None) -> None:
        self._environment = environment or Environment.default()
        name = str(target.value) if isinstance(target, Enum) else target
        self._spec = self._environment.target(name)
        self._target: SynthTarget = load_object(self._spec.target)()

    def synthesize(
        self,
        model: Model,
        graph: Graph | Mapping[str, Any] | str | os.PathLike[str],
        *,
        sizes: Mapping[str, int] | None = None,
        strict: bool = False,
    ) -> Synthesis:
        """Return the plan and the source files of a program.

        Args:
            graph: a graph, its JSON document, JSON text (a ``str``), or the path object of an ``.oi`` or ``.json`` one.
            sizes: named sizes that take the place of the model's.
            strict: whether warnings are errors.

        Raises:
            ValidationError: the graph does not fit the model; all findings.
            SynthesisError: the target cannot carry out something in it; the message names construct and line. In
                strict mode also ``large-arena``, the intermediate results take more than a GiB.
        """
        from openinfer.plan import make_plan
        from openinfer.validate import resolve

        resolved = resolve(_graph_of(graph), model, sizes=sizes, environment=self._environment, strict=strict)
        table = kernel_table(self._environment, self._spec)
        plan = make_plan(resolved, model, self._environment, table, epilogues=self._target.epilogues)
        large = tuple(_large_arena(plan.arena_nbytes))
        if strict and large:
            raise SynthesisError(large[0].message, diagnostics=as_errors(large))
        return Synthesis(plan, self._target.emit(plan), self._target, (*resolved.warnings, *large))


def _large_arena(nbytes: int) -> Iterator[Diagnostic]:
    if nbytes > LARGE_ARENA:
        yield Diagnostic(
            code="large-arena",
            message=f"the intermediate results take {nbytes / 2**30:.1f} GiB of static memory",
            severity=Severity.WARNING,
            hint="use smaller sizes (--size); many linkers refuse more than 2 GiB",
        )


def _graph_of(graph: Graph | Mapping[str, Any] | str | os.PathLike[str]) -> Graph:
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, os.PathLike) and Path(graph).suffix != ".json":
        from openinfer.dsl import load_graph

        return load_graph(graph)
    return Graph.from_json(graph)
