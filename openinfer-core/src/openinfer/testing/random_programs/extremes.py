"""Statements whose results the specification leaves open for the values that they meet.

A sum whose terms together overflow is infinite in one order and finite in another. A device that cannot keep
subnormals takes them for zero, as inputs and as results. Rounding moves the angles of far positions by any part of a
turn. What follows may be anything, so that such results are not compared. A program is run again on cpu to find these
statements, where places differ about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from openinfer.dtypes import BF16, F32, F64
from openinfer.errors import OpenInferError
from openinfer.ir.nodes import CacheRead, CacheWrite, NodeKind, Op, Transfer
from openinfer.ir.resolved import ResolvedOp, RuntimeScalar
from openinfer.ops.schema import Elementwise
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator
from openinfer.testing.random_programs.precision import CARRIED
from openinfer.testing.random_programs.running import LONGEST, within
from openinfer.testing.random_programs.sample import Array, Sample

LEAST_NORMAL = 2.0**-126
"""Of f32, in which bf16 is computed too. Those of f8 and f16 are normal there, and f64 runs on cpu."""

GREATEST_EXPONENT = {F64: 1024}
"""Sums of magnitudes from 2 to this power on overflow; those of other types are computed in f32."""


FARTHEST = 2.0**31
"""Position up to which angles are right to about 1e-6: they have a rounding error of double precision a position."""


@dataclass(slots=True)
class Range:
    """The values of a variable during a run: of floats the greatest finite magnitude, and whether one was subnormal in
    f32; of integers the greatest magnitude."""

    greatest: float = 0.0
    subnormal: bool = False
    farthest: float = 0.0

    def hold(self, values: Array) -> None:
        """Add values."""
        if values.dtype.kind in "iu" and values.size:
            self.farthest = max(self.farthest, float(np.abs(values.astype(np.float64)).max()))
        if values.dtype.kind in "iub" or not values.size:
            return
        with np.errstate(all="ignore"):
            sizes = np.abs(values.astype(np.float64))
        self.greatest = max(self.greatest, float(sizes[np.isfinite(sizes)].max(initial=0.0)))
        self.subnormal |= bool(((sizes > 0) & (sizes < LEAST_NORMAL)).any())

    def join(self, other: Range) -> None:
        """Add what another variable held."""
        self.greatest, self.subnormal = max(self.greatest, other.greatest), self.subnormal or other.subnormal
        self.farthest = max(self.farthest, other.farthest)


ANY = Range(math.inf, subnormal=True, farthest=math.inf)
"""What a variable may have held that cannot be read."""


def open_statements(sample: Sample, environment: Environment, *, flushes: bool) -> tuple[frozenset[int], float]:
    """Return the numbers of the statements whose results are open, and the greatest magnitude of all floats.

    Args:
        flushes: whether subnormals may be taken for zero.
    """
    with within(LONGEST), Simulator(sample.model(), sample.graph, environment=environment).make_executor() as executor:
        ranges = _ranges(sample, executor)
        ops = executor.program.ops.items()
        found = {
            number
            for number, op in ops
            if (not sample.calm and _may_overflow(op, ranges, environment))
            or (flushes and _meets_subnormals(op, ranges, environment))
            or (op.op == "rope" and max(each.farthest for each in _inputs(op, ranges)) > FARTHEST)
        }
    return frozenset(found), max((each.greatest for each in ranges.values()), default=0.0)


def _ranges(sample: Sample, executor: Executor) -> dict[str, Range]:
    """Run the steps of a sample, and return the values that its variables had at any time."""
    ranges = {name: Range() for name in sample.graph.vars}
    for name, declared in sample.graph.vars.items():
        stored = declared.ref or name
        tensors = [each for key, each in sample.tensors.items() if key == stored or key.startswith(f"{stored}.")]
        for array in (*tensors, *(inputs[name] for inputs in sample.steps if name in inputs)):
            ranges[name].hold(array)
        if declared.init is not None:
            _read(executor, name, ranges)
    kinds = {node.index: node.kind for _, node in sample.graph.nodes()}
    for inputs in sample.steps:
        with suppress(OpenInferError):
            executor.insert(inputs)
            for run in executor.iterate(consumers=True):
                _follow(kinds.get(run.event.node_index), executor, ranges)
    return ranges


def _follow(kind: NodeKind | None, executor: Executor, ranges: dict[str, Range]) -> None:
    """Note what a statement that has just run wrote."""
    if isinstance(kind, Op):
        for name in kind.outputs:
            _read(executor, name, ranges)
    elif isinstance(kind, Transfer):
        ranges.setdefault(kind.dst, Range()).join(ranges.get(kind.src.name, ANY))
    elif isinstance(kind, CacheRead):
        ranges.setdefault(kind.dst, Range()).join(ranges.get(kind.src.base, ANY))
    elif isinstance(kind, CacheWrite):
        ranges.setdefault(kind.dst.base, Range()).join(ranges.get(kind.src.name, ANY))


def _read(executor: Executor, name: str, ranges: dict[str, Range]) -> None:
    known = ranges.setdefault(name, Range())
    try:
        known.hold(executor.fetch_raw(name).array)
    except OpenInferError:
        known.join(ANY)


def _may_overflow(op: ResolvedOp, ranges: dict[str, Range], environment: Environment) -> bool:
    """Whether an operator that sums meets magnitudes whose sum or whose products overflow the type of the sum."""
    schema = environment.op(op.op)
    if isinstance(schema.definition, Elementwise) or schema.category in CARRIED:
        return False
    floats = [kind for kind in (*op.input_types, *op.output_types) if kind is not None and kind.dtype.is_float]
    if not floats:
        return False
    exponents = [_exponent(each.greatest) for each in _inputs(op, ranges)]
    terms = max((kind.count for kind in op.input_types if kind is not None), default=1)
    reached = max(sum(exponents), 2 * max(exponents, default=0.0)) + _exponent(terms)
    return reached >= max(GREATEST_EXPONENT.get(kind.dtype, 128) for kind in floats)


def _exponent(magnitude: float) -> float:
    return math.log2(max(magnitude, 1.0))


def _meets_subnormals(op: ResolvedOp, ranges: dict[str, Range], environment: Environment) -> bool:
    """Whether an operator that computes in f32 reads or writes a subnormal."""
    if environment.op(op.op).category in CARRIED:
        return False
    kinds = (*op.input_types, *op.output_types)
    if not any(kind is not None and kind.dtype in (F32, BF16) for kind in kinds):
        return False
    return any(each.subnormal for each in (*_inputs(op, ranges), *(ranges.get(name, ANY) for name in op.outputs)))


def _inputs(op: ResolvedOp, ranges: dict[str, Range]) -> Iterator[Range]:
    """Yield what the inputs and the numbers among the settings of a statement held."""
    names = [given.name for given in op.inputs if given is not None]
    names += [each.name for each in op.runtime_settings.values() if isinstance(each, RuntimeScalar)]
    yield from (ranges.get(name, ANY) for name in names)
    yield _range_of(value for value in op.settings.values() if isinstance(value, float))


def _range_of(values: Iterable[float]) -> Range:
    known = Range()
    known.hold(np.array(list(values), np.float64))
    return known
