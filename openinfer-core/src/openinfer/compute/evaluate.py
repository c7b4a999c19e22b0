"""The meaning of a computation on NumPy arrays: what every schedule, printer and kernel is compared with.

Folds add up term by term in row-major order, whatever their `Order` allows. Terms are computed for many places of all
axes at once, within a bound of memory.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.affine import Index
from openinfer.array_types import storage_dtype
from openinfer.compute.stage import Read, variables_of
from openinfer.errors import OpenInferError
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_functions import routine
from openinfer.expr.numpy_renderer import compile_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation, Element, Stage, Tensor, Total
    from openinfer.expr.numpy_renderer import Evaluate
    from openinfer.expr.tree import Expr

Array: TypeAlias = npt.NDArray[Any]

MOST_PLACES = 1 << 21
"""Places of a stage that are computed at once."""

MOST_TERMS = 1 << 16
"""Terms of folds that are computed at once, where there are not more places than that."""

MOST_EVALUATED, MOST_IN_ORDER = 1 << 26, 1 << 14
"""Terms of a stage that `is_soon_known`, and places or terms of one place that it may visit one after the other."""


class RefusedError(OpenInferError):
    """An element is an error: an index out of range, or a value that the operator refuses."""

    default_code = "out-of-range"


def is_soon_known(stage: Stage) -> bool:
    """Whether a stage computes few enough terms to be evaluated within seconds."""
    extents = [axis.extent for axis in stage.axes]
    folded = [] if stage.fold is None else [axis.extent for axis in stage.fold.axes]
    places = [extent for extent in extents if isinstance(extent, int)]
    terms = [extent for extent in folded if isinstance(extent, int)]
    if len(places) != len(extents) or len(terms) != len(folded) or prod(places) * prod(terms) > MOST_EVALUATED:
        return False
    return prod(terms) <= MOST_IN_ORDER and (not stage.is_sequential or prod(places) <= MOST_IN_ORDER)


def evaluate(
    computation: Computation, inputs: Sequence[Array], parameters: Mapping[str, int] | None = None
) -> tuple[Array, ...]:
    """Return the outputs of a computation.

    ``inputs`` are arrays of storage types, packed types one element a byte; ``parameters`` has the sizes that are known
    at run time only.

    Raises:
        RefusedError: an element is refused; the message is the rule of the check.
    """
    sizes = parameters or {}
    arrays = {tensor.name: array for tensor, array in zip(computation.inputs, inputs, strict=True)}
    arrays |= {tensor.name: _zeros(tensor, sizes) for tensor in computation.outputs}
    compiled(computation)(arrays, sizes)
    return tuple(arrays[tensor.name] for tensor in computation.outputs)


def compiled(computation: Computation) -> Callable[[Mapping[str, Array], Mapping[str, int]], None]:
    """Return a function that evaluates the computation on arrays by name, its expressions compiled once.

    It reads inputs and writes outputs; temporaries are its own.
    """
    runs = [_StageRun(stage) for stage in computation.stages]

    def run(tensors: Mapping[str, Array], parameters: Mapping[str, int]) -> None:
        arrays = {**tensors, **{tensor.name: _zeros(tensor, parameters) for tensor in computation.temporaries}}
        for stage_run in runs:
            stage_run(arrays, parameters)

    return run


def _zeros(tensor: Tensor, parameters: Mapping[str, int]) -> Array:
    shape = tuple(extent.evaluate(parameters) for extent in tensor.shape)
    return np.zeros(shape, storage_dtype(tensor.dtype))


class _StageRun:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._value = _Compiled(stage.value)
        self._lookups = [(lookup, _Compiled(lookup.value)) for lookup in stage.lookups]
        self._checks = [(check, _Compiled(check.refused)) for check in stage.checks]
        totals = () if stage.fold is None else stage.fold.totals
        self._totals = [(total.start and _Compiled(total.start), _Compiled(total.term)) for total in totals]
        self._combine = _combination(totals)

    def __call__(self, arrays: dict[str, Array], parameters: Mapping[str, int]) -> None:
        axes = self._stage.axes
        extents = [_extent(var, parameters) for var in axes]
        if self._stage.is_sequential:
            for values in product(*map(range, extents)):
                self._places(arrays, {**parameters, **_named(axes, values)}, ())
        elif 0 not in extents:
            for ranges in _blocks(extents, MOST_PLACES):
                grid = np.ix_(*(np.arange(r.start, r.stop) for r in ranges)) if ranges else ()
                self._places(arrays, {**parameters, **_named(axes, grid)}, tuple(map(len, ranges)))

    def _places(self, arrays: dict[str, Array], env: dict[str, Any], shape: tuple[int, ...]) -> None:
        """Compute and store the values of a grid of places; ``env`` has an integer or an array for each variable."""
        fold = self._stage.fold
        if fold is None:
            self._finish(arrays, env, shape, [])
            return
        extents = tuple(_extent(var, env) for var in fold.axes)
        totals: list[Array] = []
        if 0 in extents or self._totals[0][0] is not None:
            look = _Elements(self, arrays, env, shape)
            totals = [start(look, []) for start, _ in self._totals if start is not None]
        together = 1 if fold.running else max(1, MOST_TERMS // prod(shape))
        for first in range(0, prod(extents), together):
            count = min(together, prod(extents) - first)
            steps = np.unravel_index(np.arange(first, first + count), extents) if extents else ()
            at = {**env, **_named(fold.axes, [step.reshape(count, *(1 for _ in shape)) for step in steps])}
            look = _Elements(self, arrays, at, (count, *shape))
            terms = [term(look, []) for _, term in self._totals]
            for number in range(count):
                added = [array[number] for array in terms]
                totals = self._combine(totals, added) if totals else [array.copy() for array in added]
            if fold.running:
                self._finish(arrays, {**env, **_named(fold.axes, [int(step[0]) for step in steps])}, shape, totals)
        if not fold.running:
            self._finish(arrays, env, shape, totals)

    def _finish(
        self, arrays: dict[str, Array], env: dict[str, Any], shape: tuple[int, ...], totals: Sequence[Array]
    ) -> None:
        look = _Elements(self, arrays, env, shape)
        for check, refused in self._checks:
            if refused(look, totals).any():
                raise RefusedError(check.rule)
        at = tuple(np.broadcast_to(_values(index, look.env), shape) for index in self._stage.at)
        value = self._value(look, totals)
        # NumPy has no index of arrays for a tensor without dims, which has one element however large the grid.
        arrays[self._stage.tensor][at] = value if at else value.reshape(-1)[-1]

    def find_lookups(self, look: _Elements) -> None:
        """Add the values of computed indices to the variables of a place."""
        for lookup, value in self._lookups:
            if any(var.name not in look.env for var in variables_of(lookup.value, self._stage.elements)):
                continue
            positions = value(look, [])
            if positions.size and not 0 <= int(positions.min()) <= int(positions.max()) < _extent(lookup.var, look.env):
                raise RefusedError(lookup.rule)
            look.env[lookup.var.name] = positions

    @property
    def elements(self) -> tuple[Element, ...]:
        return self._stage.elements


class _Elements:
    """The elements of a stage at a grid of places, read when an expression asks for them."""

    def __init__(self, run: _StageRun, arrays: dict[str, Array], env: dict[str, Any], shape: tuple[int, ...]) -> None:
        self._elements = run.elements
        self._arrays = arrays
        self.env = dict(env)
        self.shape = shape
        run.find_lookups(self)

    def __getitem__(self, number: int) -> Array:
        """Return the values of an element, which broadcast to the grid."""
        element = self._elements[number]
        if not isinstance(element, Read):
            return _values(element.at, self.env).astype(storage_dtype(element.dtype))
        array = self._arrays[element.tensor]
        at = [_values(index, self.env) for index in element.at]
        if element.fill is None:
            return np.asarray(array[tuple(at)])
        tests = list(zip(at, array.shape, strict=True))
        tests += [(_values(guard.index, self.env), _values(guard.extent, self.env)) for guard in element.guards]
        inside = np.True_
        for index, extent in tests:
            inside = inside & (index >= 0) & (index < extent)
        near = np.broadcast_arrays(inside, *(np.clip(index, 0, max(extent - 1, 0)) for index, extent in tests))
        fill = np.full(near[0].shape, element.fill.value, array.dtype)
        if array.size:
            np.copyto(fill, array[tuple(near[1 : 1 + len(at)])], where=near[0])
        return fill


class _Compiled:
    """An expression as a function of elements and totals."""

    def __init__(self, expr: Expr) -> None:
        program = linearise(expr)
        self._inputs = program.inputs
        # The renderer numbers inputs from 0 on; totals have negative numbers.
        self._run: Evaluate = compile_program(_renumbered(expr, self._inputs))
        self._storage = storage_dtype(expr.dtype)

    def __call__(self, look: _Elements, totals: Sequence[Array]) -> Array:
        out = np.empty(look.shape, self._storage)
        self._run([totals[~number] if number < 0 else look[number] for number in self._inputs], out)
        return out


def _combination(totals: Sequence[Total]) -> Callable[[list[Array], list[Array]], list[Array]]:
    """Return the function from totals and terms to the next totals; totals that it is given may be written over."""
    programs = [linearise(total.combine) for total in totals]
    if len(programs) == 1 and [step.function for step in programs[0].instructions[:-1]] == ["input", "input"]:
        (*operands, last), dtype = programs[0].instructions, totals[0].term.dtype
        chosen = routine(last.function, [dtype] * len(last.operands), dtype)
        if chosen.atomic and last.operands:
            places = [~operands[number].index for number in last.operands]

            def advance(totals_so_far: list[Array], terms: list[Array]) -> list[Array]:
                with np.errstate(all="ignore"):
                    chosen.run(totals_so_far[0], (), *((*totals_so_far, *terms)[operand] for operand in places))
                return totals_so_far

            return advance
    compiled = [
        (program.inputs, compile_program(_renumbered(total.combine, program.inputs)), storage_dtype(total.term.dtype))
        for program, total in zip(programs, totals, strict=True)
    ]

    def combine(totals_so_far: list[Array], terms: list[Array]) -> list[Array]:
        both, following = (
            [*totals_so_far, *terms],
            [np.empty(totals_so_far[0].shape, storage) for _, _, storage in compiled],
        )
        for (inputs, run, _), out in zip(compiled, following, strict=True):
            run([both[~number] for number in inputs], out)
        return following

    return combine


def _blocks(extents: Sequence[int], most: int) -> Iterator[tuple[range, ...]]:
    """Yield ranges of places in row-major order that cover the whole grid, each with a limited number of places."""
    if prod(extents) <= most:
        yield tuple(range(extent) for extent in extents)
        return
    first, *others = extents
    step = max(1, most // prod(others))
    for start in range(0, first, step):
        for ranges in _blocks(others, most) if step == 1 else (tuple(range(extent) for extent in others),):
            yield (range(start, min(start + step, first)), *ranges)


def _renumbered(expr: Expr, inputs: Sequence[int]) -> Any:
    from openinfer.expr import tree

    types = {i.index: i.dtype for i in linearise(expr).instructions if i.function == "input"}
    return linearise(
        tree.substitute(expr, {number: tree.Input(position, types[number]) for position, number in enumerate(inputs)})
    )


def _named(axes: Sequence[Var], values: Sequence[Any]) -> dict[str, Any]:
    return {var.name: value for var, value in zip(axes, values, strict=True)}


def _extent(var: Var, env: Mapping[str, Any]) -> int:
    return Index.of(0 if var.extent is None else var.extent).evaluate(env)


def _values(index: Index, env: Mapping[str, Any]) -> Array:
    return np.asarray(index.evaluate(env), np.int64)
