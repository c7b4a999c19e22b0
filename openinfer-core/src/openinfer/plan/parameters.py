"""Parameters of calls: sizes and settings that are known at run time only, and the values at which they are tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.plan.steps import Register

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.plan.draft import Draft
    from openinfer.plan.steps import IndexExpr

    Given = tuple[tuple[int | Index, ...] | None, ...]
    """The extents of inputs: numbers, or polynomials over parameters."""

FAR = ((1009, 1013, 1511), (1201, 1213, 1721), (1301, 1319, 1823), (1409, 1423, 1931))
"""Sizes at which operators are planned for extents of run time: larger than what definitions treat apart."""

MOST_APART = 5
"""Most extents of a call of which some are tried to be equal, and not all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A size of a call that is known at run time only.

    Attributes:
        value: the size in the program.
        high: no value is larger.
        tried: three values that it may have, ascending or not.
        is_extent: whether it is an extent of inputs; else it is a setting.
        extent: of a setting one more than the largest value, over extents and settings in front of it.
        checked: values of it, alone, at which results have to have the shapes that the operator gives them.
    """

    name: str
    value: IndexExpr
    high: int
    tried: tuple[int, int, int]
    is_extent: bool = True
    low: int = 0
    checked: tuple[int, ...] = ()
    extent: Index | None = None


def partitions(extents: tuple[Parameter, ...]) -> Iterator[tuple[tuple[Parameter, ...], ...]]:
    """Yield the ways to have some extents equal, those with the fewest that are equal first; not all different ones.

    Of more than `MOST_APART` extents there is the one way that all are equal.
    """
    if len(extents) > MOST_APART:
        yield (extents,)
        return
    every: list[tuple[tuple[Parameter, ...], ...]] = [()]
    for extent in extents:
        grown = [(*parts[:n], (*parts[n], extent), *parts[n + 1 :]) for parts in every for n in range(len(parts))]
        every = [*((*parts, (extent,)) for parts in every), *grown]
    yield from sorted((parts for parts in every if len(parts) < len(extents)), key=lambda parts: -len(parts))


def extent_parameters(
    draft: Draft, shapes: Sequence[tuple[int | Register, ...] | None], sizes: Sequence[str] = ()
) -> tuple[tuple[Parameter, ...], Given]:
    """Return a parameter for each size that extents of inputs depend on, and the extents as polynomials over these.

    Args:
        sizes: parameters of sizes of steps that there are in any case.
    """
    found: dict[str, Parameter] = {}
    names: dict[int, str] = {}

    def parameter(name: str, value: IndexExpr, high: int) -> None:
        if name not in found:
            tried = FAR[len(found) % len(FAR)]
            found[name] = Parameter(name=name, value=value, high=high, tried=tried, checked=_near(high))

    def of_size(name: str) -> None:
        if draft.given is not None:
            size_of = Index.of(Var(name))
            parameter(name, draft.given.value(size_of), draft.given.largest(size_of))

    def of(register: Register) -> Index:
        extent = None if draft.given is None else draft.given.polynomial_of(register)
        if extent is None:
            name = names.setdefault(register.number, f"n{len(names)}")
            parameter(name, draft.size(register), draft.registers[register.number].most)
            return Index.of(Var(name))
        for var in sorted(extent.variables(), key=lambda each: each.name):
            of_size(var.name)
        return extent

    given = tuple(
        None if shape is None else tuple(of(extent) if isinstance(extent, Register) else extent for extent in shape)
        for shape in shapes
    )
    for name in sizes:
        of_size(name)
    return tuple(found.values()), given


def inside(trial: Mapping[str, int], parameters: Sequence[Parameter]) -> dict[str, int]:
    """Return values of parameters with settings in the range that they have at these extents, and earlier settings."""
    found = dict(trial)
    for p in parameters:
        value = found[p.name]
        found[p.name] = max(value if p.extent is None else min(value, p.extent.evaluate(found) - 1), 0)
    return found


def variable_of(parameter: Parameter) -> Var:
    """Return what computations know of a parameter."""
    if parameter.extent is None:
        return Var(parameter.name, None if parameter.is_extent else parameter.high + 1)
    return bounded(parameter.name, parameter.extent)


def bounded(name: str, extent: Index) -> Var:
    """Return a variable below an extent."""
    known = extent.constant
    return Var(name, extent if known is None else known)


def _near(high: int) -> tuple[int, ...]:
    """Return extents at which results must have the shapes that the trials predict, if ends are not clipped."""
    powers = (1 << power for power in range(high.bit_length()))
    return tuple(dict.fromkeys((*range(min(high, 3) + 1), *powers, high)))
