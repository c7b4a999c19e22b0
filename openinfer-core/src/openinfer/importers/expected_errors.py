"""How far each value of a program may be from that of another program that computes the same.

Roundings are followed from statement to statement, each as large as the operator states
(`openinfer.ops.precision`), and added up as independent ones are: by their squares (N. J. Higham, Accuracy and
Stability of Numerical Algorithms, section 2.8). All are shares of the largest magnitude of a tensor.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.float_formats import FORMATS
from openinfer.ir.nodes import Branch, CacheRead, CacheWrite, Loop, Transfer
from openinfer.ops.calls import compute_type
from openinfer.ops.precision import ulps_of
from openinfer.ops.schema import Elementwise
from openinfer.random_inputs.flow import CARRYING
from openinfer.tolerances import EXACT, OF_OUTPUTS, Tolerance
from openinfer.validate.kernels import call_of_node

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp
    from openinfer.plugins.environment import Environment

MARGIN = 8.0
"""Times the expected rounding error that are allowed: cancellation makes errors grow, and both programs round."""

QUANTISED_MARGIN = 2.0
"""The same of steps of quantised values: few elements are off by one."""

PASSES = (8, 4, 2, 1)
"""Iterations that are followed of loops, by how many loops they are in; the rest is extrapolated.

Half of them lets errors arrive that variables hand on from one iteration to the next, the other half measures growth.
"""

MOST_ENTRIES = 1000
"""How often a block is followed: calls may double the number of entries from block to block."""

MOST_CALLS = 100
"""Blocks that call each other, one inside of the other, that are followed."""

STEPS = 3
"""Steps whose roundings add up in states."""


@dataclass(frozen=True, slots=True)
class Error:
    """How far a value may be off.

    Attributes:
        rounding: square of the error of floats.
        quantisations: roundings to integers of something inexact, one after the other.
        step: of the coarsest integer type among them, as a share of its greatest value.
        floor: largest absolute part of the tolerances of the float types on the way.
    """

    rounding: float = 0.0
    quantisations: int = 0
    step: float = 0.0
    floor: float = 0.0

    @property
    def is_exact(self) -> bool:
        return not self.rounding and not self.quantisations

    def joined(self, other: Error) -> Error:
        """Return the greater of both errors in each part."""
        return Error(
            max(self.rounding, other.rounding),
            max(self.quantisations, other.quantisations),
            max(self.step, other.step),
            max(self.floor, other.floor),
        )

    def grown(self, before: Error, times: float) -> Error:
        """Return the error after it has grown from ``before`` to this one, and then by so many times this growth."""
        return replace(
            self,
            rounding=self.rounding + max(0.0, self.rounding - before.rounding) * times,
            quantisations=self.quantisations + round(max(0, self.quantisations - before.quantisations) * times),
        )

    def tolerance(self, dtype: DType, scale: float = 1.0) -> Tolerance:
        """Return what is allowed of a value of some type with this error, where inputs have a magnitude ``scale``."""
        quantised = QUANTISED_MARGIN * sqrt(self.quantisations) * self.step
        relative = MARGIN * sqrt(self.rounding) + quantised
        if dtype.is_float:
            least = OF_OUTPUTS.get(dtype.name, EXACT)
            return Tolerance(scale * max(least.absolute, self.floor), max(least.relative, relative))
        if not self.quantisations or not dtype.is_integer:
            return EXACT
        # Sums of quantised values are off by many of their steps, quantised values themselves by few.
        return Tolerance(max(1, round(sqrt(self.quantisations))), relative if dtype.bits > 8 else 0.0)


def expected_errors(program: ResolvedGraph, environment: Environment) -> dict[str, Error]:
    """Return how far each variable may be off after a few steps, on exact inputs, weights and first states."""
    walk = _Walk(program, environment)
    for _ in range(STEPS):
        walk.block("entry")
    return walk.errors


class _Walk:
    def __init__(self, program: ResolvedGraph, environment: Environment) -> None:
        self._program = program
        self._environment = environment
        self._own: dict[int, Error] = {}
        self._entries: Counter[str] = Counter()
        self._records: list[dict[str, Error]] = []
        self._depth = 0
        self._active = 0
        self.errors: dict[str, Error] = {}

    def block(self, name: str) -> None:
        """Follow the statements of a block, unless it is entered too often, as it may be by blocks that call it."""
        if self._entries[name] < MOST_ENTRIES:
            self._entries[name] += 1
            self._active += 1
            if self._active <= MOST_CALLS:
                self._nodes(self._program.graph.blocks[name].nodes)
            self._active -= 1

    def _nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            match node.kind:
                case Branch(then_block, None):
                    self.block(then_block)
                case Branch(then_block, _, else_block):
                    self._branch(then_block, else_block)
                case Loop(body=body):
                    self._loop(body, self._iterations(node.kind))
                case Transfer(src, dst):
                    self._write((dst,), self._read([src.name]))
                case CacheRead(src, dst):
                    self._write((dst,), self._read([src.base]))
                case CacheWrite(src, dst):
                    self._write((dst.base,), self._read([src.name, dst.base]))
                case _:
                    if (op := self._program.ops.get(node.index)) is not None:
                        self._op(node.index, op)

    def _branch(self, then_block: str, else_block: str | None) -> None:
        """Follow both ways; errors are the greater of both."""
        with self._recorded() as before:
            self.block(then_block)
        after_then = {name: self.errors[name] for name in before}
        self.errors.update(before)
        with self._recorded() as before_else:
            if else_block is not None:
                self.block(else_block)
        for name in {**before, **before_else}:
            other = after_then.get(name, before_else.get(name, Error()))
            self._write((name,), self.errors[name].joined(other))

    def _loop(self, body: Sequence[Node], turns: int) -> None:
        """Follow some iterations; what still grows then does so in those that are left."""
        self._depth += 1
        followed = min(turns, PASSES[min(self._depth, len(PASSES)) - 1])
        growing = followed - followed // 2
        before: dict[str, Error] = {}
        for number in range(followed):
            if number == growing:
                before = {}
            with self._recorded() as changed:
                self._nodes(body)
            before = changed | before
        self._depth -= 1
        if turns > followed:
            measured = followed // 2 or followed
            for name, error in before.items():
                self._write((name,), self.errors[name].grown(error, (turns - followed) / measured))

    @contextmanager
    def _recorded(self) -> Generator[dict[str, Error]]:
        """Collect what variables had before the block wrote them."""
        before: dict[str, Error] = {}
        self._records.append(before)
        try:
            yield before
        finally:
            self._records.pop()
            if self._records:
                for name, error in before.items():
                    self._records[-1].setdefault(name, error)

    def _iterations(self, loop: Loop) -> int:
        """Return how often a loop runs; 1 where that is known at run time only."""
        try:
            ends = [symbolic.evaluate(bound, self._program.sizes.__getitem__) for bound in (loop.start, loop.end)]
        except KeyError:
            return 1
        return max(0, ends[1] - ends[0])

    def _op(self, number: int, op: ResolvedOp) -> None:
        before = self._read(ref.name for ref in op.inputs if ref is not None)
        schema = self._environment.op(op.op)
        if schema.category in CARRYING:
            self._write(op.outputs, before)
            return
        if number not in self._own:
            self._own[number] = self._rounding(op)
        own = self._own[number]
        for name, kind in zip(op.outputs, op.output_types, strict=False):
            self._write((name,), self._after(op, kind.dtype, before, own))

    def _after(self, op: ResolvedOp, made: DType, before: Error, own: Error) -> Error:
        """Return the error of a result of some type."""
        if made.is_float:
            rounding = before.rounding + own.rounding
            return Error(rounding, before.quantisations, before.step, max(before.floor, own.floor))
        schema = self._environment.op(op.op)
        if not made.is_integer or not (schema.category == "quantisation" or isinstance(schema.definition, Elementwise)):
            return Error()
        from_floats = any(kind is not None and kind.dtype.is_float for kind in op.input_types)
        if not from_floats or (before.is_exact and own.is_exact):
            return before
        if made.bits > 8:
            # Positions and counts that floats became: off by one, and by what the floats were off.
            return Error(before.rounding + own.rounding, before.quantisations + 1, before.step, before.floor)
        step = max(before.step, 1.0 / max(1, made.maximum or 1))
        return Error(0.0, before.quantisations + 1, step, before.floor)

    def _rounding(self, op: ResolvedOp) -> Error:
        """Return the error that an operator adds to exact inputs."""
        kinds = [kind.dtype for kind in (*op.input_types, *op.output_types) if kind is not None and kind.dtype.is_float]
        if not kinds:
            return Error()
        schema = self._environment.op(op.op)
        ulps = ulps_of(schema, call_of_node(op, schema), op.runtime_settings)
        share = ulps * max(FORMATS[compute_type(dtype).name].epsilon for dtype in kinds)
        # Another program may leave out roundings to a low float, or round once more.
        share += max((FORMATS[dtype.name].epsilon / 2 for dtype in kinds if dtype.is_low_float), default=0.0)
        floor = max((OF_OUTPUTS[dtype.name].absolute for dtype in kinds if dtype.name in OF_OUTPUTS), default=0.0)
        return Error(share**2, 0, 0.0, floor)

    def _read(self, names: Iterable[str]) -> Error:
        joined = Error()
        for name in names:
            joined = joined.joined(self.errors.get(name, Error()))
        return joined

    def _write(self, names: Iterable[str], error: Error) -> None:
        for name in names:
            if self._records:
                self._records[-1].setdefault(name, self.errors.get(name, Error()))
            self.errors[name] = error
