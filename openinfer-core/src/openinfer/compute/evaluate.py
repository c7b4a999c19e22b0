"""The meaning of a computation on NumPy arrays: what every schedule, printer and kernel is compared with.

Folds are carried out term by term in row-major order, whatever their `Order` allows, vectorised over the other axes.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.affine import Index
from openinfer.array_types import storage_dtype
from openinfer.compute.stage import Read, variables_of
from openinfer.errors import OpenInferError
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation, Element, Fold, Stage, Tensor
    from openinfer.expr.numpy_renderer import Evaluate
    from openinfer.expr.tree import Expr

Array: TypeAlias = npt.NDArray[Any]


class RefusedError(OpenInferError):
    """An element is an error: an index out of range, or a value that the operator refuses."""

    default_code = "out-of-range"


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

    def run(given: Mapping[str, Array], parameters: Mapping[str, int]) -> None:
        arrays = {**given, **{tensor.name: _zeros(tensor, parameters) for tensor in computation.temporaries}}
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
        self._totals = [
            (total.start and _Compiled(total.start), _Compiled(total.term), _Compiled(total.combine))
            for total in totals
        ]

    def __call__(self, arrays: dict[str, Array], parameters: Mapping[str, int]) -> None:
        extents = [_extent(var, parameters) for var in self._stage.axes]
        if self._stage.is_sequential:
            for place in product(*map(range, extents)):
                self._places(arrays, {**parameters, **_named(self._stage.axes, place)}, ())
        elif 0 not in extents:
            grid = np.ix_(*map(np.arange, extents)) if extents else ()
            self._places(arrays, {**parameters, **_named(self._stage.axes, grid)}, tuple(extents))

    def _places(self, arrays: dict[str, Array], env: dict[str, Any], shape: tuple[int, ...]) -> None:
        """Compute and store the values of a grid of places; ``env`` has an integer or an array for each variable."""
        fold = self._stage.fold
        if fold is None:
            self._finish(arrays, env, shape, {})
            return
        values: dict[int, Array] = {}
        for step, place in enumerate(product(*(range(_extent(var, env)) for var in fold.axes))):
            at = {**env, **_named(fold.axes, place)}
            values = self._advanced(arrays, at, shape, fold, values, is_first=step == 0)
            if fold.running:
                self._finish(arrays, at, shape, values)
        if not fold.running:
            self._finish(arrays, env, shape, values or self._started(arrays, env, shape))

    def _started(self, arrays: dict[str, Array], env: dict[str, Any], shape: tuple[int, ...]) -> dict[int, Array]:
        look = _Elements(self, arrays, env, shape)
        return {~number: start(look, {}) for number, (start, _, _) in enumerate(self._totals) if start is not None}

    def _advanced(
        self,
        arrays: dict[str, Array],
        env: dict[str, Any],
        shape: tuple[int, ...],
        fold: Fold,
        values: dict[int, Array],
        *,
        is_first: bool,
    ) -> dict[int, Array]:
        """Return the totals after the terms at one place of the folded axes."""
        look = _Elements(self, arrays, env, shape)
        if is_first:
            values = self._started(arrays, env, shape)
        terms = {~(len(fold.totals) + number): term(look, {}) for number, (_, term, _) in enumerate(self._totals)}
        if len(values) < len(fold.totals):
            return {~number: terms[~(len(fold.totals) + number)] for number in range(len(fold.totals))}
        return {~number: combine(look, {**values, **terms}) for number, (_, _, combine) in enumerate(self._totals)}

    def _finish(
        self, arrays: dict[str, Array], env: dict[str, Any], shape: tuple[int, ...], totals: Mapping[int, Array]
    ) -> None:
        look = _Elements(self, arrays, env, shape)
        for check, refused in self._checks:
            if refused(look, totals).any():
                raise RefusedError(check.rule)
        at = tuple(_broadcast(index, look.env, shape) for index in self._stage.at)
        value = self._value(look, totals)
        # NumPy has no index of arrays for a tensor without dims, which has one element however large the grid.
        arrays[self._stage.tensor][at] = value if at else value.reshape(-1)[-1]

    def find_lookups(self, look: _Elements) -> None:
        """Add the values of computed indices to the variables of a place."""
        for lookup, value in self._lookups:
            if any(var.name not in look.env for var in variables_of(lookup.value, self._stage.elements)):
                continue
            found = value(look, {})
            if found.size and not 0 <= int(found.min()) <= int(found.max()) < _extent(lookup.var, look.env):
                raise RefusedError(lookup.rule)
            look.env[lookup.var.name] = found

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
        element = self._elements[number]
        if not isinstance(element, Read):
            return _broadcast(element.at, self.env, self.shape).astype(storage_dtype(element.dtype))
        array = self._arrays[element.tensor]
        at = [_broadcast(index, self.env, self.shape) for index in element.at]
        if element.fill is None:
            return np.asarray(array[tuple(at)])
        inside = np.ones(self.shape, np.bool_)
        for index, extent in zip(at, array.shape, strict=True):
            inside &= (index >= 0) & (index < extent)
        for guard in element.guards:
            index, extent = (_broadcast(each, self.env, self.shape) for each in (guard.index, guard.extent))
            inside &= (index >= 0) & (index < extent)
        fill = np.full(self.shape, element.fill.value, array.dtype)
        if array.size:
            near = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(at, array.shape, strict=True))
            np.copyto(fill, array[near], where=inside)
        return fill


class _Compiled:
    """An expression as a function of elements and totals."""

    def __init__(self, expr: Expr) -> None:
        program = linearise(expr)
        self._inputs = program.inputs
        # The renderer numbers inputs from 0 on; totals have negative numbers.
        self._run: Evaluate = compile_program(_renumbered(expr, self._inputs))
        self._storage = storage_dtype(expr.dtype)

    def __call__(self, look: _Elements, totals: Mapping[int, Array]) -> Array:
        out = np.empty(look.shape, self._storage)
        self._run([totals[number] if number < 0 else look[number] for number in self._inputs], out)
        return out


def _renumbered(expr: Expr, inputs: Sequence[int]) -> Any:
    from openinfer.expr import tree

    types = {i.index: i.dtype for i in linearise(expr).instructions if i.function == "input"}
    return linearise(
        tree.substitute(expr, {number: tree.Input(place, types[number]) for place, number in enumerate(inputs)})
    )


def _named(axes: Sequence[Var], values: Sequence[Any]) -> dict[str, Any]:
    return {var.name: value for var, value in zip(axes, values, strict=True)}


def _extent(var: Var, env: Mapping[str, Any]) -> int:
    return Index.of(0 if var.extent is None else var.extent).evaluate(env)


def _broadcast(index: Index, env: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.asarray(index.evaluate(env), np.int64), shape)
