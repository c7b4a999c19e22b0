"""Sizes that kernels count, such as how many elements are not zero, without a wait of the host.

A register that takes such a count stays on the device: the host knows it as an index over counts until it needs the
number. Kernels with such a size are dispatched indirectly: a kernel of one invocation before them writes their numbers
and workgroups into the parameter block.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.dtypes import I32, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops import Buffer, Kernel, Let, Load, Lookup, Number, Store, Value
from openinfer.loops import Register as Scalar
from openinfer.plan.operands import alone, symbols
from openinfer.plan.steps import ClearStep, LoadStep, PlaceStep, Register, SetStep, ValueRef
from openinfer_backend_vulkan.glsl.loop_programs import ITERATIONS
from openinfer_backend_vulkan.programs.integers import is_polynomial
from openinfer_backend_vulkan.programs.scalars import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.loops import Statement
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step
    from openinfer_backend_vulkan.glsl.loop_programs import Printed

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


def deferrable(plan: ExecutionPlan, polled: frozenset[int]) -> frozenset[int]:
    """Return the registers that are always counts of kernels, or polynomials that have such a register in them."""
    writers: dict[int, list[Step]] = {}
    for step in steps_of(plan):
        for register in _written(step):
            if register is not None and not plan.registers[register].is_kept:
                writers.setdefault(register, []).append(step)
    found = {
        register
        for register, written_by in writers.items()
        if all(isinstance(step, PlaceStep) and counted_value(plan, step) in polled for step in written_by)
    }
    while True:
        others = {
            register
            for register, written_by in writers.items()
            if register not in found and all(_derives(step, register, found) for step in written_by)
        }
        if not others:
            return frozenset(found)
        found |= others


def _derives(step: Step, register: int, counted: set[int]) -> bool:
    if not isinstance(step, SetStep):
        return False
    values = [value for number, value in step.values if number == register]
    return all(is_polynomial(value) and registers_of(value) & counted for value in values)


def registers_of(value: Index) -> set[int]:
    """Return the numbers of the registers that an expression reads."""
    return {symbol.operand.number for symbol in symbols(value) if isinstance(symbol.operand, Register)}


def _written(step: Step) -> tuple[int | None, ...]:
    match step:
        case PlaceStep():
            return (step.register,)
        case SetStep():
            return tuple(register for register, _ in step.values)
        case LoadStep():
            return (*step.lengths, step.view)
        case ClearStep():
            return step.left
        case _:
            return ()


def count_var(register: int, most: int) -> Var:
    """Return the variable for what a register takes of a kernel."""
    return Var(f"count{register}", most + 1)


def counting(step: PlaceStep, registers: int) -> Kernel:
    """Return the loop program that clips a count to the bounds of a step; it is the lower word of its 64 bits."""
    low, high = (tree.literal(bound.constant or 0, I32) for bound in (step.range.low, step.range.high))
    count = Load(Buffer("x", I32, Index.of(2)), Index())
    value = Value(tree.minimum(tree.maximum(tree.Input(0, I32), low), high), (count,))
    counts = Buffer(COUNTS, I32, Index.of(registers))
    return Kernel("count", (count.buffer, counts), (Store(counts, Index.of(step.register), value),))


def numbering(text: Printed, counted: Mapping[str, Index], registers: int) -> Kernel:
    """Return the loop program that writes those numbers and workgroups of a shader that depend on counts.

    Args:
        counted: the parameters of the shader that do; the others are parameters here.
        registers: how many there are.
    """
    counts = Buffer(COUNTS, I32, Index.of(registers))
    size = len(text.numbers)
    numbers = Buffer(NUMBERS, I32, Index.of(size + 3))
    extents = [over_counts(Index.of(extent), counted) for extent in text.places]
    roots = sorted({var for index in counted.values() for var in index.variables()}, key=lambda var: register_of(var))
    given = sorted({var for extent in extents for var in extent.variables()} - set(roots), key=lambda var: var.name)
    body: list[Statement] = [
        Lookup(var, Value(tree.Input(0, I32), (Load(counts, Index.of(register_of(var))),))) for var in roots
    ]
    places = Var("places")
    body += [
        Let("iterations", Value(_product(len(extents)), tuple(Number(extent, I32) for extent in extents))),
        Lookup(places, Value(tree.Input(0, I32), (Scalar("iterations", I32),))),
    ]
    values = {**counted, ITERATIONS: Index.of(places)}
    groups = (Index.of(places) * text.local + (text.group_size - 1)) // text.group_size
    words = [
        (place, values[name]) for place, name in enumerate(text.numbers) if isinstance(name, str) and name in values
    ]
    body += [Store(numbers, Index.of(place), _number(index)) for place, index in [*words, (size, groups)]]
    return Kernel("numbers", (counts, numbers), tuple(body), tuple(given))


def _number(index: Index) -> Value:
    return Value(tree.Input(0, I32), (Number(index, I32),))


def _product(count: int) -> tree.Expr:
    """Return the product of inputs, of which those below 0 are 0."""
    zero = tree.literal(0, I32)
    factors = [tree.maximum(tree.Input(number, I32), zero) for number in range(count)]
    return reduce(tree.mul, factors, tree.literal(1, I32))


def register_of(var: Var) -> int:
    """Return the register of a variable that `count_var` has made."""
    return int(var.name.removeprefix("count"))


def over_counts(index: Index, counted: Mapping[str, Index]) -> Index:
    """Return an index over parameters as one over counts and the other parameters."""
    return index.substituted({var: counted[var.name] for var in index.variables() if var.name in counted})


def most_iterations(text: Printed, counted: Mapping[str, Index], values: Mapping[str, int]) -> int | None:
    """Return a bound of how often the loops over groups of a shader run; None: there is none."""
    found: list[int] = []
    for extent in text.places:
        index = over_counts(Index.of(extent), counted)
        known = {var: Index.of(values[var.name]) for var in index.variables() if var.name in values}
        high = index.substituted(known).interval.high
        if high is None:
            return None
        found.append(max(high, 0))
    return prod(found)
