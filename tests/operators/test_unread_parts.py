"""Operators of plugins whose definitions compute what no result needs, compiled with the flags of a bundle."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from offered_operators import environment_offering

import openinfer.plan.programs
from openinfer.compute.stage import Order
from openinfer.expr import tree
from openinfer.loops.reading import parse_kernel
from openinfer.ops import Compute, Elementwise, InputSpec, Loops, Operand, OpExample, OpSchema
from openinfer.testing.checks import check_operator
from openinfer.testing.places import device_place, target_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute import Builder
    from openinfer.expr.tree import Expr
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("gcc", "clang")
]


def sums(order: Order, *, running: bool, own: bool) -> Any:
    """Return a definition with two totals, one of which is stored; ``own``: the other needs its own last value."""

    def define(k: Builder, _: OpCall) -> None:
        (a, b), (y,) = k.given, k.outputs
        i, j = k.axes(*a.shape)

        def combine(totals: Sequence[Expr], terms: Sequence[Expr]) -> tuple[Expr, Expr]:
            unread = tree.mul(totals[0], terms[0]) if own else terms[0]
            return unread, tree.add(tree.mul(totals[1], terms[0]), terms[1])

        _, total = k.folds((a[i, j], b[i, j]), (i,), combine, (1.0, 0.0), order=order, running=running)
        if running:
            y[i, j] = total
        else:
            for row in range(5):
                y[row, j] = total

    return define


def unread_input(k: Builder, _: OpCall) -> None:
    (_, b), (y,) = k.given, k.outputs
    i, j = k.axes(*b.shape)
    y[i, j] = b[i, j]


def unread_inputs(k: Builder, _: OpCall) -> None:
    (a, _), (y,) = k.given, k.outputs
    i, j = k.axes(*a.shape)
    y[i, j] = k.constant(1.0, a.dtype)


def unread_temporary(k: Builder, _: OpCall) -> None:
    (a, b), (y,) = k.given, k.outputs
    i, j = k.axes(*a.shape)
    product = k.temporary(a.dtype, *a.shape)
    product[i, j] = a[i, j] * b[i, j]
    y[i, j] = b[i, j]


def unread_array(_: OpCall) -> Kernel:
    return parse_kernel("""
def unread_array(a: GLOBAL[f32, 80], b: GLOBAL[f32, 80], y: GLOBAL[f32, 80]):
    scratch: PRIVATE[f32, 4]
    last: f32 = a[0]
    for i in SERIAL(80):
        scratch[0] = a[i]
        last = a[i]
        y[i] = b[i]
""")


DEFINITIONS = {
    **{
        f"total_{order.value}{'_running' * running}{'_own' * own}": Compute(sums(order, running=running, own=own))
        for order in Order
        for running in (False, True)
        for own in (False, True)
    },
    "input": Compute(unread_input),
    "inputs": Compute(unread_inputs),
    "temporary": Compute(unread_temporary),
    "operand": Elementwise(lambda inputs, _settings, _out: inputs[1]),
    "operands": Elementwise(lambda _inputs, _settings, out: tree.literal(1.0, out)),
    "array": Loops(unread_array),
}


def operator(name: str) -> OpSchema:
    return OpSchema(
        name="unread",
        summary="x",
        category="example",
        inputs=(InputSpec(name="a"), InputSpec(name="b")),
        dtypes=frozenset({"f32"}),
        infer=lambda inputs, _settings, _declared: (inputs[0],),
        definition=DEFINITIONS[name],
        examples=(OpExample(inputs=(Operand(shape=(5, 16)), Operand(shape=(5, 16)))),),
    )


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_what_no_result_needs_compiles_as_users_compile_it(
    name: str, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", f"{compiler} -O1")
    environment = environment_offering(operator(name))

    cells = check_operator(environment.op("unread"), None, target_place("c", environment), environment)

    assert cells["f32"].ran
    assert cells["f32"].failures == ()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_the_kit_shows_what_compilers_warn_of_on_a_target_and_not_on_its_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openinfer.plan.programs, "without_unread", lambda kernel: kernel)
    environment = environment_offering(operator("array"))

    def failures(place: Any) -> tuple[str, ...]:
        return check_operator(environment.op("unread"), None, place, environment)["f32"].failures

    assert failures(device_place("c", environment)) == ()
    assert all("-Werror" in line for line in failures(target_place("c", environment)))
    assert failures(target_place("c", environment))
