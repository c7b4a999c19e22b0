"""Passes of a plan keep what a program computes: random programs run before and after, the latter in one small arena.

The oracle runs the program as written, with a place of its own for every value, and reads all inputs of a step before
it writes. The subject is the program after dead steps are removed and steps are fused, where every value is the bytes
that it was given in the arena and computations run element by element, as generated code does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.affine import Index
from openinfer.compute import Builder, Tensor
from openinfer.compute.elementwise import elementwise as elementwise_computation
from openinfer.compute.evaluate import evaluate
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops.interpret import interpret
from openinfer.lower import lowered
from openinfer.ops.calls import OpCall
from openinfer.plan.accesses import Accesses, mask, members
from openinfer.plan.arena import interference, placed
from openinfer.plan.dead_steps import without_dead_steps
from openinfer.plan.fusion import Fusion, fuse
from openinfer.plan.liveness import Liveness
from openinfer.plan.places import ALIGNMENT, place
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ComputeStep,
    CopyStep,
    FillStep,
    KernelStep,
    LoopStep,
    Origin,
    Procedure,
    ReturnStep,
    ValueRef,
)
from openinfer.plan.values import ArenaMemory, NoMemory, PlanValue, Role
from openinfer.plugins.types import KernelSpec

VALUES = 7
ELEMENT = I64.bits // 8
NOWHERE = Origin("entry", ())
SMALL = 5
TYPES = tuple(TensorType(I64, (extent,)) for extent in (*(4 for _ in range(SMALL)), 12, 20))


def tensors(names, values):
    return [Tensor(f"{names}{n}", I64, (Index.of(TYPES[v].shape[0]),)) for n, v in enumerate(values)]


def computed(computation, inputs, output):
    operands = tuple(ValueRef(value) for value in inputs)
    return ComputeStep(origin=NOWHERE, op=computation.name, computation=computation, inputs=operands, outputs=(output,))


def elementwise(inputs, output):
    terms = [tree.Input(number, I64) for number in range(len(inputs))]
    expr = terms[0]
    for term in terms[1:]:
        expr = tree.add(tree.mul(expr, tree.literal(3, I64)), term)
    expr = tree.add(expr, tree.literal(1, I64))
    (made,) = tensors("y", [output])
    return computed(elementwise_computation("mix", expr, tensors("x", inputs), made), inputs, output)


def reversal(source, output):
    """Return the step that stores the elements of a value in reverse."""
    k = Builder("reverse", tensors("x", [source]), tensors("y", [output]))
    (extent,) = TYPES[source].shape
    i = k.axis(extent)
    k.outputs[0][i] = k.inputs[0][extent - 1 - i]
    return computed(k.computation(), [source], output)


def running_total(source, output):
    """Return the step whose elements are the sums of the elements up to their place."""
    k = Builder("scan", tensors("x", [source]), tensors("y", [output]))
    i = k.axis(TYPES[source].shape[0])
    k.outputs[0][i] = k.fold(k.inputs[0][i], (i,), tree.add, start=7, running=True)
    return computed(k.computation(), [source], output)


def weighted_total(source, output):
    """Return the step that stores the sum of all elements, plus the place, everywhere."""
    k = Builder("fold", tensors("x", [source]), tensors("y", [output]))
    i, r = k.axes(TYPES[output].shape[0], TYPES[source].shape[0])
    k.outputs[0][i] = k.fold(k.inputs[0][r], (r,), tree.add, start=0) * 3 + k.position(i)
    return computed(k.computation(), [source], output)


def kernel(inputs, output):
    call = OpCall(op="mix", inputs=tuple(TYPES[v] for v in inputs), outputs=(TYPES[output],), settings={})
    operands = tuple(ValueRef(value) for value in inputs)
    return KernelStep(
        origin=NOWHERE, call=call, kernel=KernelSpec(op="mix", kernel=None), inputs=operands, outputs=(output,)
    )


values = st.integers(0, VALUES - 1)
small = st.integers(0, SMALL - 1)
inputs = st.lists(values, min_size=1, max_size=3)
MOVES = [reversal, running_total, weighted_total]


@st.composite
def plain_steps(draw):
    kinds = [*["elementwise"] * 4, "kernel", "copy", "fill", "barrier", *MOVES, *MOVES]
    kind, output = draw(st.sampled_from(kinds)), draw(values)
    alike = [value for value in range(VALUES) if TYPES[value] == TYPES[output]]
    same = st.sampled_from(alike)
    if kind == "elementwise":
        return elementwise(draw(st.lists(same, min_size=1, max_size=3)), output)
    if kind in MOVES:
        output = draw(small)
        return kind(draw(small.filter(lambda value: value != output)), output)
    if kind == "kernel":
        return kernel([value for value in draw(inputs) if value != output] or [(output + 1) % VALUES], output)
    if kind == "copy":
        return CopyStep(origin=NOWHERE, source=ValueRef(draw(same)), output=output)
    return FillStep(origin=NOWHERE, output=output, value=draw(st.integers(0, 99))) if kind == "fill" else barrier()


def barrier():
    return BarrierStep(origin=NOWHERE)


@st.composite
def step_lists(draw, callees, counter, depth=2):
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["plain"] * 6 + ["loop", "call", "return"]))
        if kind == "loop" and depth:
            counter[0] += 1
            number = counter[0]
            body = draw(step_lists(callees, counter, depth - 1))
            bounds = Index.of(0), Index.of(2)
            runs = draw(st.booleans())
            steps.append(
                LoopStep(
                    origin=NOWHERE,
                    loop=number,
                    name="n",
                    index="i",
                    start=bounds[0],
                    end=bounds[1],
                    runs=runs,
                    body=tuple(body),
                )
            )
        elif kind == "call" and callees:
            condition = draw(st.none() | values)
            otherwise = draw(st.none() | st.sampled_from(callees)) if condition is not None else None
            target = draw(st.sampled_from(callees))
            steps.append(CallStep(origin=NOWHERE, procedure=target, condition=condition, otherwise=otherwise))
        elif kind == "return":
            steps.append(ReturnStep(origin=NOWHERE))
            break
        else:
            steps.append(draw(plain_steps()))
    return steps


@st.composite
def programs(draw):
    """Return procedures, callees first, and the values that are wanted at the end."""
    counter = [0]
    procedures, names = [], []
    for name in ("c", "b", "entry")[draw(st.integers(0, 2)) :]:
        procedures.append(Procedure(name, tuple(draw(step_lists(tuple(names), counter)))))
        names.append(name)
    return procedures, sorted(draw(st.sets(values, min_size=1, max_size=3)))


class ReturnedError(Exception):
    """The procedure that runs is left."""


@dataclass
class Machine:
    """Runs steps over some memory; how often loops run depends on the seed, the loop and its how-manieth start."""

    procedures: dict
    memory: object
    seed: int
    starts: dict = field(default_factory=dict)

    def call(self, name):
        try:
            self.run(self.procedures[name] if name is not None else ())
        except ReturnedError:
            return

    def run(self, steps):
        for step in steps:
            self.step(step)

    def step(self, step):
        match step:
            case ComputeStep():
                self.compute(step)
            case KernelStep():
                self.kernel(step)
            case CopyStep():
                self.memory[step.output][:] = self.read(step.source)
            case FillStep():
                self.memory[step.output][:] = step.value
            case LoopStep():
                for _ in range(self.turns(step)):
                    self.run(step.body)
            case CallStep():
                taken = step.condition is None or self.memory[step.condition][0] % 2
                self.call(step.procedure if taken else step.otherwise)
            case ReturnStep():
                raise ReturnedError
            case BarrierStep():
                pass

    def compute(self, step):
        arrays = [self.read(operand) for operand in step.inputs]
        (output,) = step.outputs
        if not self.memory.in_arena:
            self.memory[output][:] = evaluate(step.computation, arrays)[0]
            return
        names = [tensor.name for tensor in step.computation.inputs]
        (result,) = step.computation.outputs
        arrays = dict(zip(names, arrays, strict=True)) | {result.name: self.memory[output]}
        interpret(loops(step.computation), arrays)

    def kernel(self, step):
        sources = {operand.value for operand in step.inputs}
        assert not any(np.shares_memory(self.memory[step.outputs[0]], self.memory[source]) for source in sources)
        sums = sum((n + 2) * self.read(operand).sum() for n, operand in enumerate(step.inputs))
        result = np.arange(1, TYPES[step.outputs[0]].shape[0] + 1) * sums % 1000003
        if step.epilogue is not None:
            elements = [result, *(self.read(operand) for operand in step.epilogue.inputs)]
            result = self.evaluate(step.epilogue.expr, elements)
        self.memory[step.outputs[0]][:] = result

    def turns(self, loop):
        start = self.starts[loop.loop] = self.starts.get(loop.loop, 0) + 1
        return random.Random(f"{self.seed} {loop.loop} {start}").randint(1 if loop.runs else 0, 2)

    def read(self, operand):
        return self.memory[operand.value]

    def evaluate(self, expr, elements):
        if isinstance(expr, tree.Input):
            return elements[expr.index]
        if isinstance(expr, tree.Literal):
            return expr.value
        left, right = (self.evaluate(arg, elements) for arg in expr.args)
        return left + right if expr.function == "add" else left * right


@cache
def loops(computation):
    return lowered(computation)


class Apart:
    """Values with memory of their own."""

    in_arena = False

    def __init__(self, first=0, step=0):
        self._arrays = [np.full(type_.shape, first + step * value, np.int64) for value, type_ in enumerate(TYPES)]

    def __getitem__(self, value):
        return self._arrays[value]


class Arena:
    """Values that are bytes of one array."""

    in_arena = True

    def __init__(self, offsets, size):
        self._offsets = offsets
        self._cells = np.zeros(size // ELEMENT, np.int64)

    def __getitem__(self, value):
        start = self._offsets[value] // ELEMENT
        return self._cells[start : start + TYPES[value].count]


def started(procedures, live):
    """Return the procedures with fills of the values that are read before they are written."""
    fills = tuple(FillStep(origin=NOWHERE, output=value, value=value + 11) for value in members(live))
    entry = procedures[-1]
    return (*procedures[:-1], Procedure(entry.name, (*fills, *entry.steps)))


@settings(max_examples=400, deadline=None)
@given(programs(), st.integers(0, 2**32))
def test_an_optimised_program_in_its_arena_computes_what_the_program_does(program, seed):
    written, results = program
    wanted = mask(results)
    procedures = started(written, Liveness(written, wanted).at_start)

    optimised, _ = without_dead_steps(procedures, wanted, 0)
    optimised = fuse(optimised, Fusion(TYPES, Liveness(optimised, wanted), Accesses(optimised), epilogues=True))
    optimised, liveness = without_dead_steps(optimised, wanted, 0)
    drafts = [
        PlanValue(number=number, name=f"v{number}", type=type_, role=Role.TEMPORARY, memory=NoMemory())
        for number, type_ in enumerate(TYPES)
    ]
    homes, (total,) = placed(drafts, optimised, liveness)
    offsets = {value.number: value.memory.offset for value in homes if isinstance(value.memory, ArenaMemory)}
    for value in results:
        if value not in offsets:
            offsets[value], total = total, total + 256

    plain = Machine({p.name: p.steps for p in procedures}, Apart(), seed)
    subject = Machine({p.name: p.steps for p in optimised}, Arena(offsets, total), seed)
    plain.call("entry")
    subject.call("entry")
    for value in results:
        np.testing.assert_array_equal(subject.memory[value], plain.memory[value])
    assert all(offset % ALIGNMENT == 0 for offset in offsets.values())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=8),
    st.data(),
)
def test_conflicting_values_get_disjoint_aligned_places(extents, data):
    count = len(extents)
    conflicts = dict.fromkeys(range(count), 0)
    for first in range(count):
        for second in range(first):
            if data.draw(st.booleans()):
                one, other = data.draw(st.permutations([first, second]))
                conflicts[one] |= 1 << other
    classes = {value: data.draw(st.sampled_from(["f32", "i64"])) for value in range(count)}

    offsets, total = place(dict(enumerate(extents)), classes, conflicts)

    for first in range(count):
        assert offsets[first] % ALIGNMENT == 0
        assert offsets[first] + extents[first] <= total
        for second in range(first):
            if (conflicts[first] >> second | conflicts[second] >> first) & 1 or classes[first] != classes[second]:
                one, other = (range(offsets[v], offsets[v] + extents[v]) for v in (first, second))
                assert not set(one) & set(other)
    assert total <= sum(-(-extent // ALIGNMENT) * ALIGNMENT for extent in extents)


def test_a_result_lies_exactly_where_what_it_overwrites_does_or_elsewhere():
    sizes = {0: 1536, 1: 1024, 2: 1024, 3: 1024}
    larger, operand, read, result = range(4)
    conflicts = {larger: 0, operand: 1 << read, read: 0, result: 1 << larger}
    classes = dict.fromkeys(sizes, "f32")
    anywhere, _ = place(sizes, classes, conflicts)
    assert 0 < anywhere[result] - anywhere[read] < 1024

    offsets, _ = place(sizes, classes, conflicts, {result: 1 << read})

    assert offsets[result] >= offsets[read] + sizes[read]


def test_only_computations_overwrite_what_they_read():
    procedures = (Procedure("entry", (elementwise([0], 1), kernel([1], 2))),)

    assert interference(procedures, Liveness(procedures, 1 << 2), TYPES, mask(range(3))).level == {1: 1 << 0}


def test_values_that_are_never_alive_together_share_memory():
    steps = (
        FillStep(origin=NOWHERE, output=0, value=1),
        kernel([0], 1),
        kernel([1], 2),
        kernel([2], 3),
    )
    procedures = (Procedure("entry", steps),)
    liveness = Liveness(procedures, mask([3]))

    offsets, total = place(
        {v: TYPES[v].nbytes for v in range(4)},
        dict.fromkeys(range(4), "i64"),
        interference(procedures, liveness, TYPES, mask(range(4))).conflicts,
    )

    assert total == 2 * ALIGNMENT
    assert offsets[0] == offsets[2] != offsets[1] == offsets[3]


def conflict(step, source, output):
    """Whether a step that reads a value for the last time must not write its result there."""
    procedures = (Procedure("entry", (FillStep(origin=NOWHERE, output=source, value=1), step)),)
    liveness = Liveness(procedures, mask([output]))
    conflicts = interference(procedures, liveness, TYPES, mask([source, output])).conflicts
    return bool((conflicts[source] >> output | conflicts[output] >> source) & 1)


@pytest.mark.parametrize(
    ("step", "conflicts"),
    [
        (elementwise([0], 1), False),
        (elementwise([0, 0], 1), False),
        (running_total(0, 1), True),
        (reversal(0, 1), True),
        (weighted_total(0, 1), True),
        (kernel([0], 1), True),
    ],
)
def test_a_step_may_write_where_it_reads_the_very_element_that_it_writes(step, conflicts):
    assert conflict(step, 0, 1) is conflicts


def test_a_value_that_a_branch_may_leave_unwritten_is_live_at_the_start():
    procedures = (
        Procedure("yes", (FillStep(origin=NOWHERE, output=1, value=0),)),
        Procedure("no", (ReturnStep(origin=NOWHERE),)),
        Procedure("entry", (CallStep(origin=NOWHERE, procedure="yes", condition=0, otherwise="no"),)),
    )

    assert set(members(Liveness(procedures, mask([1])).at_start)) == {0, 1}


def fused(*steps, results):
    """Return the steps of a straight-line program after fusion."""
    procedures = (Procedure("entry", steps),)
    around = Fusion(TYPES, Liveness(procedures, mask(results)), Accesses(procedures), epilogues=True)
    return fuse(procedures, around)[0].steps


def outcome(steps, results):
    machine = Machine({"entry": steps}, Apart(first=5, step=1), seed=0)
    machine.call("entry")
    return [machine.memory[value].tolist() for value in results]


def test_a_kernel_does_not_store_over_its_own_input():
    steps = (kernel([0], 1), elementwise([1], 0))

    assert fused(*steps, results=[0]) == steps


def test_a_step_does_not_sink_past_a_write_of_what_it_reads():
    steps = (elementwise([0], 1), FillStep(origin=NOWHERE, output=0, value=3), elementwise([1, 0], 2))

    assert fused(*steps, results=[2]) == steps


def test_a_result_that_is_read_again_is_stored():
    steps = (elementwise([0], 1), elementwise([1], 2), elementwise([1, 2], 3))

    assert len(fused(*steps, results=[1, 3])) == 2


def test_nothing_fuses_across_a_barrier():
    steps = (elementwise([0], 1), barrier(), elementwise([1], 2))

    assert fused(*steps, results=[2]) == steps


def test_a_step_does_not_sink_past_a_loop_that_may_return():
    zero, two = Index.of(0), Index.of(2)
    search = LoopStep(
        origin=NOWHERE,
        loop=1,
        name="n",
        index="i",
        start=zero,
        end=two,
        runs=False,
        body=(FillStep(origin=NOWHERE, output=1, value=0), ReturnStep(origin=NOWHERE)),
    )
    steps = (elementwise([0], 0), search, elementwise([0], 0))

    assert fused(*steps, results=[0]) == steps


def test_an_epilogue_distinguishes_the_old_value_from_the_result():
    steps = (kernel([0], 1), elementwise([1, 2], 2), elementwise([2, 3], 2))

    (only,) = fused(*steps, results=[2])

    assert outcome((only,), [2]) == outcome(steps, [2])
