"""Prefix tables of a plan: which entries can be asked for, and the weights that they are."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from openinfer.ir.resolved import FromTensor
from openinfer.plan.findings import about
from openinfer.plan.values import WeightTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.resolved import Initial, PrefixTable
    from openinfer.model import Model
    from openinfer.plan.indices import Interval
    from openinfer.plan.weights import WeightStore

MOST_ENTRIES = 1 << 16
"""Most entries that a table may span; an index expression that spans more is a mistake."""


@dataclass
class TableUse:
    """A prefix table and the indices that the program may use; ``anywhere``: some are only known when it runs."""

    number: int
    table: PrefixTable
    anywhere: bool = False
    boxes: list[tuple[tuple[Interval, ...], bool]] = field(
        default_factory=list["tuple[tuple[Interval, ...], bool]"],
    )

    def add(self, box: Sequence[Interval | None], *, exact: bool) -> None:
        """Note an access; ``exact``: every entry of the box is used."""
        known = [interval for interval in box if interval is not None]
        if len(known) == len(box):
            self.boxes.append((tuple(known), exact))
        else:
            self.anywhere = True


def weight_table(use: TableUse, model: Model, store: WeightStore) -> WeightTable:
    """Return the entries that the program may ask for.

    Raises:
        SynthesisError: an entry that is surely used is missing in the model or has another type, or the indices span
            too many entries.
    """
    table = use.table
    hull = _hull([box for box, _ in use.boxes] + ([_model_box(table, model)] if use.anywhere else []))
    if math.prod(high - low + 1 for low, high in hull) > MOST_ENTRIES:
        raise about("cache-limit", f"indices of prefix table {table.name!r} span more than {MOST_ENTRIES} entries")
    certain = [box for box, exact in use.boxes if exact]
    entries: list[int | None] = []
    for indices in product(*(range(low, high + 1) for low, high in hull)):
        must = any(all(low <= i <= high for i, (low, high) in zip(indices, box, strict=True)) for box in certain)
        initial = _entry(table, indices, model, must=must)
        entries.append(None if initial is None else store.number_of(table.name, table.type, initial))
    return WeightTable(
        number=use.number,
        name=table.name,
        type=table.type,
        starts=tuple(low for low, _ in hull),
        extents=tuple(high - low + 1 for low, high in hull),
        entries=tuple(entries),
    )


def _entry(table: PrefixTable, indices: tuple[int, ...], model: Model, *, must: bool) -> Initial | None:
    shown = f"{table.name}[{', '.join(map(str, indices))}]"
    name = table.tensor_name(indices)
    info = model.var_info(name) if min(indices, default=0) >= 0 else None
    if info is None:
        if must:
            raise about("unbound", f"{model.name} has no tensor {name!r}, which the program reads as {shown}")
        return None
    if info.dtype is not table.type.dtype or info.shape != table.type.shape:
        found = f"{info.dtype}[{','.join(map(str, info.shape))}]"
        raise about("model-mismatch", f"{shown} is declared {table.type}, tensor {name!r} of {model.name} is {found}")
    return FromTensor(name) if info.has_data else table.initial


def _hull(boxes: Sequence[tuple[Interval, ...]]) -> tuple[Interval, ...]:
    return tuple((min(low for low, _ in axis), max(high for _, high in axis)) for axis in zip(*boxes, strict=True))


def _model_box(table: PrefixTable, model: Model) -> tuple[Interval, ...]:
    """Return the smallest box with every entry that the model has."""
    pattern = _pattern(table)
    found = [match for name in model.tensors if (match := pattern.fullmatch(name))]
    if not found:
        raise about("unbound", f"{model.name} has no tensor for prefix table {table.name!r} ({table.pattern})")
    columns = [[int(match.group(formal)) for match in found] for formal in table.formals]
    return tuple((min(column), max(column)) for column in columns)


def _pattern(table: PrefixTable) -> re.Pattern[str]:
    pieces: list[str] = []
    seen: set[str] = set()
    for piece in re.split(r"(\{[A-Za-z_][A-Za-z0-9_]*\})", table.pattern):
        formal = piece[1:-1]
        if not piece.startswith("{") or formal not in table.formals:
            pieces.append(re.escape(piece))
        elif formal in seen:
            pieces.append(f"(?P={formal})")
        else:
            seen.add(formal)
            pieces.append(f"(?P<{formal}>0|[1-9][0-9]{{0,9}})")
    return re.compile("".join(pieces))
