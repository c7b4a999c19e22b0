"""NaN and infinities: their places in values, and the values that bring them into a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.ir.nodes import Branch, CacheRead, CacheWrite, Op, Return, Transfer
from openinfer.ir.resolved import FromTensor, Storage
from openinfer.ir.text import ref_text
from openinfer.ir.uses import reads, writes
from openinfer.simulate.execute.touched import fetched, inputs_of, outputs_of
from openinfer.validate.numbers import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.events import TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.simulate.execute.executor import Executor
    from openinfer.simulate.values import Tensor

NAN, INFINITY = "NaN", "infinity"


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The elements of a value that are NaN, or that are infinite.

    Attributes:
        first: indices of the first one, in C order.
        count: how many there are among the ``size`` elements.
    """

    first: tuple[int, ...]
    count: int
    size: int


NonFinite: TypeAlias = "dict[str, Occurrences]"
"""What a value holds of `NAN` and `INFINITY`; nothing where it is finite."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """NaN or infinities of a value from outside the step that a statement reads.

    Attributes:
        name: what the program calls the value.
        label: what the model calls a tensor, a number as it is written, else as ``name``.
        origin: where it comes from, such as ``in the model``.
    """

    name: str
    label: str
    origin: str
    kind: str
    occurrences: Occurrences

    def __str__(self) -> str:
        first, count, size = self.occurrences.first, self.occurrences.count, self.occurrences.size
        place = f"[{', '.join(map(str, first))}]" if first else ""
        others = f" ({count} of {size} elements are)" if count > 1 else ""
        return f"`{self.label}{place}` is {'NaN' if self.kind == NAN else 'infinite'} {self.origin}{others}"


def non_finite(tensor: Tensor) -> NonFinite:
    """Return where a value has NaN and infinities."""
    if not tensor.dtype.is_float:
        return {}
    array = tensor.array
    with np.errstate(all="ignore"):
        if np.isfinite(array).all():
            return {}
        masks = {NAN: np.isnan(array), INFINITY: np.isinf(array)}
    return {kind: _occurrences(mask) for kind, mask in masks.items() if mask.any()}


def _occurrences(mask: Any) -> Occurrences:
    first = np.unravel_index(int(mask.argmax()), mask.shape)
    return Occurrences(tuple(map(int, first)), int(np.count_nonzero(mask)), mask.size)


class Origins:
    """Follows what statements write in a step: all other values come from the model, the host or memory.

    Such a value is scanned once: a constant once for all steps, the others once a step.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._written: set[str] = set()
        self._scans: dict[str, NonFinite] = {}
        self._reported: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """Begin a step: the host may have given other values."""
        self._written.clear()
        self._scans = {n: found for n, found in self._scans.items() if self._storage(n) is Storage.CONSTANT}
        self._reported = {each for each in self._reported if self._storage(each[0]) is not Storage.DYNAMIC}

    def overwritten(self, node: Node) -> Mapping[str, NonFinite]:
        """Return what a statement's inputs hold that it is about to overwrite."""
        return {name: self._scan(name) for name in reads(node) & writes(node)}

    def held(self, event: TraceEvent, node: Node, before: Mapping[str, NonFinite]) -> set[str]:
        """Return the kinds in the inputs of a statement that has just run; ``before`` is from `overwritten`."""
        return {kind for name in _inputs(event, node) for kind in self._read(name, before)}

    def arrivals(self, event: TraceEvent, node: Node, before: Mapping[str, NonFinite]) -> list[Arrival]:
        """Return what a statement that has just run has read from outside and `settle` has not reported."""
        if isinstance(node.kind, CacheRead):
            cache = node.kind.src.base
            values = [(cache, name, f"in what `{cache}` keeps", self._scan(name)) for name in outputs_of(event, node)]
        else:
            names = [name for name in _inputs(event, node) if _base(name) not in self._written]
            values = [(name, *self._source(name, node), held) for name in names if (held := self._read(name, before))]
        arrivals = [
            Arrival(name, label, origin, kind, occurrences)
            for name, label, origin, held in values
            for kind, occurrences in held.items()
        ]
        return [each for each in arrivals if (each.name, each.kind) not in self._reported]

    def settle(self, event: TraceEvent, node: Node, reported: Iterable[Arrival]) -> None:
        """Note what was reported, a constant for all steps, and what memory gets, which is not reported when read."""
        self._reported |= {(each.name, each.kind) for each in reported}
        if isinstance(node.kind, CacheWrite):
            kinds = {kind for name in outputs_of(event, node) for kind in self._scan(name)}
            self._reported |= {(node.kind.dst.base, kind) for kind in kinds}

    def note(self, node: Node) -> None:
        """Note what the statement that has just run has written."""
        self._written |= writes(node)

    def _read(self, name: str, before: Mapping[str, NonFinite]) -> NonFinite:
        return before[name] if name in before else self._known(name)

    def _known(self, name: str) -> NonFinite:
        """Return what a value holds, scanned once while no statement writes it."""
        if _base(name) in self._written:
            return self._scan(name)
        if name not in self._scans:
            self._scans[name] = self._scan(name)
        return self._scans[name]

    def _scan(self, name: str) -> NonFinite:
        values = list(fetched(self._executor.fetch_raw, (name,)))
        return non_finite(values[0][1]) if values else {}

    def _storage(self, name: str) -> Storage | None:
        program = self._executor.program
        declared = program.variables.get(_base(name)) or program.tables.get(_base(name))
        return None if declared is None else declared.storage

    def _source(self, name: str, node: Node) -> tuple[str, str]:
        """Return what to call a value that a statement reads, and where it comes from."""
        number = next((number for number in numbers_of(node) if number.name == name), None)
        if number is not None:
            return ref_text(number), "as this statement writes it"
        program, base = self._executor.program, _base(name)
        if base in program.tables and name != base:
            indices = tuple(map(int, name[len(base) + 1 : -1].split(",")))
            return program.tables[base].tensor_name(indices), "in the model"
        initial = program.variables[base].initial
        if isinstance(initial, FromTensor):
            return initial.name, "in the model"
        if self._storage(name) is Storage.DYNAMIC:
            return name, "in the input of this step"
        is_initialised = self._storage(name) in (Storage.CONSTANT, Storage.VOLATILE)
        return name, "by its `@init`" if is_initialised else "since before this step"


def _base(name: str) -> str:
    return name.partition("[")[0]


def _inputs(event: TraceEvent, node: Node) -> list[str]:
    """Return what a statement read as values, by names that can be fetched; variables of settings included."""
    if not isinstance(node.kind, Op | Transfer | CacheWrite | Branch | Return):
        return []
    names = inputs_of(event, node)
    others = reads(node).difference(map(_base, names))
    return [*dict.fromkeys(names), *sorted(others)]
