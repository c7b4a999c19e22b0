"""Sizes that kernels count, such as how many elements are not zero: loop programs that compute with them.

A size is an index over counts, each of which is a word in memory. The numbers and workgroups of a shader that depend on
one are computed by a kernel of one invocation before it, for an indirect dispatch.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.dims import lets_in
from openinfer.dtypes import I32, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops import Buffer, Kernel, Let, Load, Lookup, Number, Store, Value
from openinfer.loops import Register as Scalar
from openinfer.plan.operands import alone, symbols
from openinfer.plan.steps import Register, ValueRef
from openinfer_backend_vulkan.glsl.loop_programs import ITERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.loops import Statement
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import PlaceStep
    from openinfer_backend_vulkan.glsl.loop_programs import Printed

_COUNT = re.compile(r"count\d+")

COUNTS, NUMBERS = "counts", "numbers"
"""Buffers of the kernels here: a word for each register, and the numbers and workgroups of a dispatch."""


def counted_value(plan: ExecutionPlan, step: PlaceStep) -> int | None:
    """Return the value of the plan that a register takes, clipped to fixed bounds; None: it takes something else."""
    bounds = step.range
    is_clipped = bounds.low.constant is not None and bounds.high.constant is not None
    if not is_clipped or (bounds.least, bounds.most, bounds.size) != (None, None, None):
        return None
    source = alone(step.value)
    return source.value if isinstance(source, ValueRef) and plan.values[source.value].type == TensorType(I64) else None


def registers_of(value: Index) -> set[int]:
    """Return the numbers of the registers that an expression reads."""
    return {symbol.operand.number for symbol in symbols(value) if isinstance(symbol.operand, Register)}


def is_polynomial(value: Index) -> bool:
    """Whether an expression has no division."""
    return not lets_in(value)


def count_var(register: int, most: int) -> Var:
    """Return the variable for what a register takes of a kernel."""
    return Var(f"count{register}", most + 1)


def counting(step: PlaceStep, registers: int) -> Kernel:
    """Return the loop program that clips a count, ``x``, to the bounds of a step; it is the lower word of 64 bits."""
    low, high = (tree.literal(bound.constant or 0, I32) for bound in (step.range.low, step.range.high))
    count = Load(Buffer("x", I32, Index.of(2)), Index())
    value = Value(tree.minimum(tree.maximum(tree.Input(0, I32), low), high), (count,))
    counts = Buffer(COUNTS, I32, Index.of(registers))
    return Kernel("count", (count.buffer, counts), (Store(counts, Index.of(step.register), value),))


def numbering(text: Printed, counted: Mapping[str, Index], registers: int, most_groups: int) -> Kernel:
    """Return the loop program that writes those numbers and workgroups of a shader that depend on counts.

    Args:
        counted: the parameters of the shader that do. Other variables are parameters here.
        registers: how many there are.
        most_groups: of a row of workgroups.
    """
    counts = Buffer(COUNTS, I32, Index.of(registers))
    size = len(text.numbers)
    numbers = Buffer(NUMBERS, I32, Index.of(size + 3))
    extents = [over_counts(Index.of(extent), counted) for extent in text.places]
    used = {var for index in (*counted.values(), *extents) for var in index.variables()}
    roots = sorted(filter(is_count, used), key=register_of)
    parameters = sorted(used.difference(roots), key=lambda var: var.name)
    body: list[Statement] = [
        Lookup(var, Value(tree.Input(0, I32), (Load(counts, Index.of(register_of(var))),))) for var in roots
    ]
    places, across = Var("places"), Var("across")
    groups = (Index.of(places) * text.local + (text.group_size - 1)) // text.group_size
    one, most = tree.literal(1, I32), tree.literal(most_groups, I32)
    row = tree.minimum(tree.Input(0, I32), most)
    body += [
        Let("iterations", Value(_product(len(extents)), tuple(Number(extent, I32) for extent in extents))),
        Lookup(places, Value(tree.Input(0, I32), (Scalar("iterations", I32),))),
        Let("row", Value(tree.maximum(row, one), (Number(groups, I32),))),
        Lookup(across, Value(tree.Input(0, I32), (Scalar("row", I32),))),
    ]
    values = {**counted, ITERATIONS: Index.of(places)}
    named = [(position, name) for position, name in enumerate(text.numbers) if isinstance(name, str)]
    words = [(position, _number(values[name])) for position, name in named if name in values]
    words += [
        (size, Value(row, (Number(groups, I32),))),
        (size + 1, _number((groups + across - 1) // across)),
        (size + 2, _number(Index.of(1))),
    ]
    body += [Store(numbers, Index.of(position), value) for position, value in words]
    return Kernel("numbers", (counts, numbers), tuple(body), tuple(parameters))


def _number(index: Index) -> Value:
    return Value(tree.Input(0, I32), (Number(index, I32),))


def _product(count: int) -> tree.Expr:
    """Return the product of inputs, of which those below 0 are 0."""
    zero = tree.literal(0, I32)
    factors = [tree.maximum(tree.Input(number, I32), zero) for number in range(count)]
    return reduce(tree.mul, factors, tree.literal(1, I32))


def is_count(var: Var) -> bool:
    """Whether `count_var` has made a variable."""
    return _COUNT.fullmatch(var.name) is not None


def register_of(var: Var) -> int:
    """Return the register of a variable that `count_var` has made."""
    return int(var.name.removeprefix("count"))


def over_counts(index: Index, counted: Mapping[str, Index]) -> Index:
    """Return an index over parameters as one over counts and the other parameters."""
    return index.substituted({var: counted[var.name] for var in index.variables() if var.name in counted})


def most_threads(text: Printed, counted: Mapping[str, Index], values: Mapping[str, int]) -> int | None:
    """Return a bound of the invocations of a shader; None: there is none.

    Args:
        values: of its parameters that do not depend on counts.
    """
    others = {name: Index.of(value) for name, value in values.items()}
    most = 1
    for extent in text.places:
        high = over_counts(over_counts(Index.of(extent), counted), others).interval.high
        if high is None:
            return None
        most *= max(high, 0)
    return most * text.local
