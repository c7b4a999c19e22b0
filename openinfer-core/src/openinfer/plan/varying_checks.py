"""Whether what is planned for an operator at a few sizes is what it does at small sizes and at the largest.

Integer settings make that differ: a place below 0 counts from the end of an axis, and ends of ranges are clipped.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.affine import Index
from openinfer.plan.given_sizes import parameter_name
from openinfer.symbolic import DivisionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.ir.resolved import SettingValue
    from openinfer.plan.draft import Draft
    from openinfer.plan.setting_search import PolynomialRange
    from openinfer.plan.varying_calls import Planned, Sample, VaryingCall
    from openinfer.plan.varying_settings import VaryingSettings

Sizes: TypeAlias = "Mapping[str, int]"

MOST_CHECKED = 100
"""Combinations of sizes that are checked."""


def differing_sizes(
    call: VaryingCall,
    settings: VaryingSettings,
    ranges: Mapping[str, PolynomialRange],
    planned: Planned,
    draft: Draft,
    does: Callable[[VaryingCall, Sizes], Sample | None],
) -> Sizes | None:
    """Return sizes at which an operator does something else than what is planned; None: none is found.

    Settings whose values do not follow from sizes are not checked, and neither are sizes that the operator refuses.
    Where the plan has two sizes be equal, the operator must refuse others, except for an axis of 1.

    Args:
        call: with parameters for extents.
        ranges: of the settings that are tested or clipped when the program runs.
        does: what a call does at some sizes; None where the operator refuses them.
    """
    if not (settings.unknown or settings.sizes):
        return None
    names = {p.value: p.name for p in call.parameters}
    equal = [(names[left], names[right]) for left, right in planned.equal]
    for sizes in islice(_combinations(call, settings, draft), MOST_CHECKED):
        written = _values(settings, sizes)
        if written is None:
            continue
        unequal = {sizes[name] for pair in equal if sizes[pair[0]] != sizes[pair[1]] for name in pair}
        if unequal:
            # The operator may accept unequal sizes only where an axis of 1 is broadcast.
            if min(unequal) > 1 and does(call, {**sizes, **written}) is not None:
                return sizes
            continue
        written_at = {**sizes, **written}
        expected = does(call, written_at)
        if expected is None:
            continue
        taken = _taken(ranges, written, sizes)
        if taken is None:
            return sizes
        known = {**sizes, **taken}
        shapes = [tuple(max(extent.evaluate(known), 0) for extent in shape) for shape in planned.shapes]
        if shapes != [kind.shape for kind in expected.outputs] or (taken != written and does(call, known) != expected):
            return sizes
        if any(kind.count for kind in expected.outputs) and any(
            does(other, written_at) == expected for other in _counted(call, settings, written_at)
        ):
            return sizes
    return None


def _taken(ranges: Mapping[str, PolynomialRange], written: Sizes, sizes: Sizes) -> Sizes | None:
    """Return what a program takes settings as; None where it refuses one."""
    found: dict[str, int] = {}
    for name, each in ranges.items():
        value = each.taken(written[name], {**sizes, **found})
        if value is None:
            return None
        found[name] = value
    return found


def _combinations(call: VaryingCall, settings: VaryingSettings, draft: Draft) -> Iterator[Sizes]:
    """Yield values of the sizes that extents and settings depend on."""
    most = {p.name: p.high for p in call.parameters}
    if draft.given is not None:
        names = {name for expr in settings.unknown.values() for name in symbolic.names(expr)}
        most |= {parameter_name(name): draft.given.most[name] for name in names & draft.given.most.keys()}
    rows = [sorted({*range(min(high, 8) + 1), high // 2, high}) for high in most.values()]
    if len(rows) > 1:
        rows = [sorted({*range(min(high, 3) + 1), high}) for high in most.values()]
    yield from (dict(zip(most, row, strict=True)) for row in product(*rows))


def _values(settings: VaryingSettings, sizes: Sizes) -> Sizes | None:
    """Return the unknown settings at some sizes; None where they do not follow from these."""

    def size(name: str) -> int:
        return sizes[parameter_name(name)] if parameter_name(name) in sizes else settings.program_sizes[name]

    try:
        return {name: symbolic.evaluate(expr, size) for name, expr in settings.unknown.items()}
    except (KeyError, DivisionError):
        return None


def _counted(call: VaryingCall, settings: VaryingSettings, sizes: Sizes) -> Iterator[VaryingCall]:
    """Yield calls in which a setting below 0 that is a polynomial over sizes counts from the end of an axis."""
    extents = {e.evaluate(sizes) if isinstance(e, Index) else e for shape in call.given for e in shape or ()}
    for name in settings.sized:
        for extent in sorted(extents - {0}):

            def counted(given: Sizes, name: str = name, extent: int = extent) -> Mapping[str, SettingValue]:
                found = dict(call.settings(given))
                found[name] = _from_end(found[name], extent)
                return found

            if counted(sizes)[name] != call.settings(sizes)[name]:
                yield replace(call, settings=counted)


def _from_end(value: SettingValue, extent: int) -> SettingValue:
    """Return an integer setting, or a list of integers, in which places below 0 count from an extent."""
    if isinstance(value, tuple):
        items = [item for item in value if isinstance(item, int)]
        return tuple(_place(item, extent) for item in items) if len(items) == len(value) else value
    return _place(value, extent) if isinstance(value, int) else value


def _place(value: int, extent: int) -> int:
    return value + extent if -extent <= value < 0 else value
