"""Definitions of operators that build something else than they have to: found when built and when a plugin loads."""

from types import ModuleType
from typing import Any

import pytest

from openinfer.dtypes import BOOL, F32, I32, I64, DType
from openinfer.expr import tree
from openinfer.expr.tree import ExprError
from openinfer.ir.types import TensorType
from openinfer.ops import Elementwise, Fold, InputSpec, OpSchema, Reduction, Refusal, SettingSpec, SettingType
from openinfer.ops.applying import call_of, fold_expression, refused_expression, scalar_expression
from openinfer.ops.calls import OpCall
from openinfer.plugins.crossing import UNKNOWN, Owner
from openinfer.plugins.definitions import definition_misfit
from openinfer.plugins.environment import Environment, Status
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment

ZERO, ONE = tree.literal(0.0, F32), tree.literal(1.0, F32)


def operator(definition: object, **changes: Any) -> OpSchema:
    return OpSchema(
        **{
            "name": "odd_one",
            "summary": "x",
            "category": "test",
            "inputs": (InputSpec(name="x"),),
            "dtypes": frozenset({"f32", "f16", "i32"}),
            "infer": lambda inputs, *_: (inputs[0],),
            "definition": definition,
            **changes,
        }
    )


def call(schema: OpSchema, dtype: DType = F32) -> OpCall:
    return call_of(schema, [TensorType(dtype, (2,))], {})


def build(schema: OpSchema) -> object:
    if isinstance(schema.definition, Reduction):
        return fold_expression(schema, call(schema))
    return scalar_expression(schema, call(schema)), refused_expression(schema, call(schema))


def elementwise(result: object) -> Elementwise:
    return Elementwise(lambda *_: result)


def fold(**changes: Any) -> Reduction:
    total = tree.add(tree.Input(0, F32), tree.Input(1, F32))
    parts: dict[str, Any] = {
        "start": ZERO,
        "element": tree.Input(0, F32),
        "combine": total,
        "finish": tree.Input(0, F32),
    }
    return Reduction(lambda rank, _: tuple(range(rank)), lambda *_: Fold(**parts | changes))


WRONG: dict[str, tuple[object, str]] = {
    "bool for f32": (
        Elementwise(lambda inputs, *_: tree.ge(inputs[0], inputs[0])),
        "the expression of odd_one yields bool, expected f32",
    ),
    "an integer for f32": (elementwise(tree.literal(1, I32)), "the expression of odd_one yields i32, expected f32"),
    "no expression": (elementwise(None), "the expression of odd_one is NoneType, expected an expression"),
    "a number": (elementwise(1.0), "the expression of odd_one is float, expected an expression"),
    "an input that is not there": (
        elementwise(tree.Input(1, F32)),
        "the expression of odd_one reads input 1 as f32, expected one of its inputs: 0 (f32)",
    ),
    "an input as another type": (
        elementwise(tree.cast(tree.Input(0, I64), F32)),
        "the expression of odd_one reads input 0 as i64, expected one of its inputs: 0 (f32)",
    ),
    "a refusal that is a number": (
        Elementwise(lambda inputs, *_: inputs[0], Refusal(lambda inputs, *_: inputs[0], "x is not 0")),
        "the refusal of odd_one yields f32, expected bool",
    ),
    "a result of a fold": (
        fold(finish=tree.gt(tree.Input(0, F32), ZERO)),
        "`finish` of the fold of odd_one yields bool, expected f32",
    ),
    "an accumulator": (
        fold(combine=tree.gt(tree.Input(0, F32), tree.Input(1, F32))),
        "`combine` of the fold of odd_one yields bool, expected f32",
    ),
    "a start of another type": (
        fold(start=tree.literal(0, I64)),
        "`combine` of the fold of odd_one yields f32, expected i64",
    ),
    "a start that reads": (
        fold(start=tree.Input(0, F32)),
        "`start` of the fold of odd_one reads input 0 as f32, expected one of its inputs: none",
    ),
    "a count of another type": (
        fold(finish=tree.div(tree.Input(0, F32), tree.Input(1, F32))),
        "`finish` of the fold of odd_one reads input 1 as f32, expected one of its inputs: 0 (f32), 1 (i64)",
    ),
}


@pytest.mark.rule("operators.definitions.5")
@pytest.mark.parametrize(("definition", "message"), WRONG.values(), ids=list(WRONG))
def test_what_yields_another_type_is_an_error_when_it_is_built(definition: object, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        build(operator(definition))

    assert message in str(caught.value)


def offered(*schemas: OpSchema) -> Environment:
    @hookimpl
    def openinfer_ops() -> tuple[OpSchema, ...]:
        return schemas

    module = ModuleType("odd_plugin")
    module.OPENINFER_API = 1
    module.openinfer_ops = openinfer_ops
    return load_environment(autoload=False, extra=[("odd", module)])


@pytest.mark.rule("operators.definitions.5")
@pytest.mark.parametrize(("definition", "message"), WRONG.values(), ids=list(WRONG))
def test_a_plugin_with_such_an_operator_does_not_load(definition: object, message: str) -> None:
    environment = offered(operator(definition))

    info = next(each for each in environment.plugins if each.name == "odd")
    assert info.status is Status.FAILED
    assert "OpSchema 'odd_one' for " in info.reason
    assert message.split(" yields ")[0].split(" reads ")[0] in info.reason
    assert "odd_one" not in environment.ops


def test_one_wrong_type_among_many_is_found() -> None:
    def comparison_for_integers(inputs: Any, _: object, out: DType) -> tree.Expr:
        return inputs[0] if out.is_float else tree.ge(inputs[0], inputs[0])

    environment = offered(operator(Elementwise(comparison_for_integers)))

    (info,) = (each for each in environment.plugins if each.name == "odd")
    assert "OpSchema 'odd_one' for i32: the expression of odd_one yields bool, expected i32" in info.reason


def test_what_rules_raise_otherwise_is_left_to_the_statement() -> None:
    def raises(*_: object) -> Any:
        raise KeyError("oops")

    def ends(*_: object) -> Any:
        raise SystemExit(0)

    settings = (SettingSpec(name="slope", type=SettingType.SCALAR),)
    needs_a_bool = Elementwise(lambda _, settings, *__: tree.literal(settings["slope"], BOOL))

    for schema in (
        operator(Elementwise(raises)),
        operator(Elementwise(ends)),
        operator(elementwise(ZERO), infer=raises),
        operator(needs_a_bool, settings=settings),
    ):
        environment = offered(schema)
        assert "odd_one" in environment.ops


def test_an_interrupt_while_rules_are_checked_passes_and_names_the_plugin() -> None:
    def interrupts(*_: object) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        definition_misfit(Owner("odd", "odd-dist"), operator(Elementwise(interrupts)))
    (note,) = caught.value.__notes__
    assert "definition of operator odd_one, plugin 'odd' of distribution odd-dist" in note


def test_core_itself_yields_what_it_has_to() -> None:
    schemas = load_environment(autoload=False).ops.values()

    assert len(schemas) > 100
    assert [wrong for schema in schemas if (wrong := definition_misfit(UNKNOWN, schema)) is not None] == []
