"""Prefix tables of a plan: which entries can be read, and their weights."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from openinfer.ir.resolved import FromTensor
from openinfer.plan.findings import about
from openinfer.plan.values import WeightTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Interval
    from openinfer.ir.resolved import Initial, PrefixTable
    from openinfer.model import Model
    from openinfer.plan.weights import WeightStore

Ends: TypeAlias = "tuple[int, int]"
"""Smallest and largest index, both included."""

MOST_ENTRIES = 1 << 16
"""Most entries that a table of run-time indices may have."""

WIDEST_SPAN = 1 << 20
"""Most places that such a table may have, those without an entry included."""

LONGEST_INDEX = 10
"""Digits of the longest index that is looked for in the names of a model."""


@dataclass
class TableUse:
    """A prefix table and the indices that the program may use.

    ``fixed`` are those written as numbers, ``boxes`` what others can take (and whether every entry of the box is used);
    ``anywhere``: some are only known when it runs.
    """

    number: int
    table: PrefixTable
    anywhere: bool = False
    fixed: dict[tuple[int, ...], None] = field(default_factory=dict[tuple[int, ...], None])
    boxes: list[tuple[tuple[Ends, ...], bool]] = field(
        default_factory=list["tuple[tuple[Ends, ...], bool]"],
    )

    def add(self, box: Sequence[Interval], *, exact: bool) -> None:
        """Note an access with indices that are not all numbers; ``exact``: every entry of the box is used."""
        ends = tuple((ends.low, ends.high) for ends in box)
        finite = tuple((low, high) for low, high in ends if low is not None and high is not None)
        if len(finite) == len(box):
            self.boxes.append((finite, exact))
        else:
            self.anywhere = True


def weight_table(use: TableUse, model: Model, store: WeightStore) -> WeightTable:
    """Return the entries that the program may ask for.

    Raises:
        SynthesisError: an entry that is surely used is missing in the model or has another type, or the indices span
            too many entries.
    """
    table = use.table
    numbers = {indices: _number(table, indices, model, store) for indices in (*use.fixed, *_wanted(use, model))}
    hull = _hull(use, [indices for indices in numbers if indices not in use.fixed or _within(indices, use)])
    places = product(*(range(low, high + 1) for low, high in hull))
    return WeightTable(
        number=use.number,
        name=table.name,
        type=table.type,
        starts=tuple(low for low, _ in hull),
        extents=tuple(high - low + 1 for low, high in hull),
        entries=tuple(numbers.get(indices) for indices in places),
        fixed=tuple((indices, numbers[indices]) for indices in use.fixed),
    )


def _wanted(use: TableUse, model: Model) -> dict[tuple[int, ...], None]:
    """Return the indices of run-time accesses that have an entry, or must have one."""
    wanted: dict[tuple[int, ...], None] = {}
    for box, exact in use.boxes:
        for indices in product(*(range(low, high + 1) for low, high in box)) if exact else ():
            _need(use.table, indices, model)
            wanted[indices] = None
    if use.anywhere or not all(exact for _, exact in use.boxes):
        for indices in _existing(use.table, model):
            if _within(indices, use):
                wanted[indices] = None
            if len(wanted) > MOST_ENTRIES:
                break
    if use.anywhere and not wanted:
        message = f"{model.name} has no tensor for prefix table {use.table.name!r} ({use.table.pattern})"
        raise about("unbound", message)
    if len(wanted) > MOST_ENTRIES:
        raise about("cache-limit", f"indices of prefix table {use.table.name!r} reach more than {MOST_ENTRIES} entries")
    return wanted


def _within(indices: tuple[int, ...], use: TableUse) -> bool:
    """Whether a run-time access may have these indices."""
    return use.anywhere or any(
        all(low <= i <= high for i, (low, high) in zip(indices, box, strict=True)) for box, _ in use.boxes
    )


def _hull(use: TableUse, wanted: Sequence[tuple[int, ...]]) -> tuple[Ends, ...]:
    """Return the smallest box around indices: one place without an entry where there are none."""
    if not wanted:
        return tuple((0, 0 if use.boxes else -1) for _ in use.table.formals)
    hull = tuple((min(column), max(column)) for column in zip(*wanted, strict=True))
    if math.prod(high - low + 1 for low, high in hull) > WIDEST_SPAN:
        message = f"indices of prefix table {use.table.name!r} span more than {WIDEST_SPAN} places"
        raise about("cache-limit", message, "read entries that are far apart by indices that are numbers")
    return hull


def _need(table: PrefixTable, indices: tuple[int, ...], model: Model) -> None:
    name = table.tensor_name(indices)
    if min(indices, default=0) < 0 or model.var_info(name) is None:
        shown = f"{table.name}[{', '.join(map(str, indices))}]"
        raise about("unbound", f"{model.name} has no tensor {name!r}, which the program reads as {shown}")


def _number(table: PrefixTable, indices: tuple[int, ...], model: Model, store: WeightStore) -> int:
    _need(table, indices, model)
    return store.number_of(table.name, table.type, _initial(table, indices, model))


def _initial(table: PrefixTable, indices: tuple[int, ...], model: Model) -> Initial:
    name = table.tensor_name(indices)
    info = model.linked(name, table.type.dtype)
    if info is None:
        raise ValueError(f"there is no tensor {name!r}")
    if info.dtype is not table.type.dtype or info.shape != table.type.shape:
        shown = f"{table.name}[{', '.join(map(str, indices))}]"
        stored = f"{info.dtype}[{','.join(map(str, info.shape))}]"
        raise about("model-mismatch", f"{shown} is declared {table.type}, tensor {name!r} of {model.name} is {stored}")
    return FromTensor(info.name) if info.has_data else table.initial


def _existing(table: PrefixTable, model: Model) -> Iterator[tuple[int, ...]]:
    """Yield the indices of every entry that the model has."""
    pieces = [piece for piece in re.split(r"(\{[A-Za-z_][A-Za-z0-9_]*\})", table.pattern) if piece]
    # A part of quantised tensors (`Model`): the names of the tensors followed by the part's.
    part = table.pattern.partition("@")[1:]
    for name in ("".join((tensor, *part)) for tensor in model.tensors):
        yield from _readings(pieces, table.formals, name)


def _readings(pieces: Sequence[str], formals: Sequence[str], name: str) -> Iterator[tuple[int, ...]]:
    """Yield every way to read a name as the pattern: adjacent indices can be separated in several."""
    stack: list[tuple[int, int, dict[str, str]]] = [(0, 0, {})]
    while stack:
        number, offset, values = stack.pop()
        if number == len(pieces):
            if offset == len(name):
                yield tuple(int(values[formal]) for formal in formals)
            continue
        piece = pieces[number]
        formal = piece[1:-1]
        if piece.startswith("{") and formal in formals and formal not in values:
            texts = _index_texts(name, offset)
            stack += [(number + 1, offset + len(text), {**values, formal: text}) for text in texts]
            continue
        literal = values.get(formal, piece) if piece.startswith("{") else piece
        if name.startswith(literal, offset):
            stack.append((number + 1, offset + len(literal), values))


def _index_texts(name: str, offset: int) -> Iterator[str]:
    """Yield the indices that begin at an offset: decimal numbers without leading zeros."""
    for end in range(offset + 1, min(offset + LONGEST_INDEX, len(name)) + 1):
        if name[end - 1] not in "0123456789":
            return
        yield name[offset:end]
        if name[offset] == "0":
            return
