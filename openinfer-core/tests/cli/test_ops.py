"""`openinfer ops`: listing, one operator in full, and coverage by operator, place and element type."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer.dtypes import F32, F64, I32
from openinfer.expr import tree
from openinfer.ops.schema import (
    Composite,
    Elementwise,
    Fold,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    Primitive,
    Reduction,
    SettingSpec,
    SettingType,
)
from openinfer.plugins.coverage import coverage
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import DeviceSpec, KernelSpec, SynthTargetSpec


def square_only(inputs: Any, *_: object) -> Any:
    """Type rule: a square matrix."""
    shape = inputs[0].shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise OpTypeError("needs a square matrix")
    return (inputs[0],)


def schema(name: str, definition: Any, **changes: Any) -> OpSchema:
    fields = {
        "summary": f"{name} of x",
        "category": "test",
        "inputs": (InputSpec(name="x", doc="a tensor"),),
        "dtypes": frozenset({"f32", "i32"}),
        "infer": lambda inputs, *_: (inputs[0],),
    }
    return OpSchema(**{"name": name, "definition": definition, **fields, **changes})


def sum_all(element: Any, _: object, out: Any) -> Fold:
    add = tree.add(tree.Input(0, element), tree.Input(1, element))
    return Fold(tree.literal(0, element), tree.Input(0, element), add, tree.cast(tree.Input(0, element), out))


SETTINGS = (
    SettingSpec(name="axis", type=SettingType.INT, aliases=("dim",), doc="where"),
    SettingSpec(name="mode", type=SettingType.STR, default="fast", choices=("fast", "slow")),
    SettingSpec(name="pads", type=SettingType.INT_LIST, default=(1, 2)),
    SettingSpec(name="limit", type=SettingType.FLOAT, default=float("inf")),
    SettingSpec(name="keep", type=SettingType.BOOL, default=False),
    SettingSpec(name="kind", type=SettingType.DTYPE, default=F32),
    SettingSpec(name="bound", type=SettingType.SCALAR, default=None),
)
OPS = (
    schema("double", Elementwise(lambda inputs, *_: tree.add(inputs[0], inputs[0])), aliases=("twice",), in_place=True),
    schema("four", Composite(lambda steps, inputs, _: (steps.op("double", steps.op("double", inputs[0])),))),
    schema("inverse_sum", Composite(lambda steps, inputs, _: (steps.op("double", steps.op("inverse", inputs[0])),))),
    schema("inverse", Primitive(), infer=square_only),
    schema("total", Reduction(lambda rank, _: tuple(range(rank)), sum_all)),
    schema(
        "tuned",
        Primitive(),
        inputs=(InputSpec(name="x"), InputSpec(name="b", dtypes=frozenset({"f32"}), optional=True)),
        settings=SETTINGS,
        examples=(
            OpExample(inputs=(Operand(shape=(2, 3)),)),
            OpExample(inputs=(Operand(shape=(2,)),), settings={"keep": True}, dtypes=frozenset({"i32"})),
        ),
    ),
    schema("picky", Primitive(), infer=lambda *_: (_ for _ in ()).throw(OpTypeError("never"))),
)
ENVIRONMENT = Environment(
    dtypes={dtype.name: dtype for dtype in (F32, F64, I32)},
    ops={op.name: op for op in OPS},
    op_aliases={"twice": "double"},
    providers={("op", op.name): "test" for op in OPS},
    devices={"d": DeviceSpec(name="d", summary="", probe="a:b", backend="a:b", expression_dtypes=frozenset({"f32"}))},
    targets={"t": SynthTargetSpec(name="t", summary="", target="a:b", expression_dtypes=frozenset({"f32", "i32"}))},
    kernel_source=lambda target: (
        (KernelSpec(op="inverse", kernel="a:b", dtypes=frozenset({"f32"})),) if target == "d" else ()
    ),
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: ENVIRONMENT)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["ops", *arguments])


@pytest.mark.parametrize(
    ("op", "place", "f32", "i32"),
    [
        ("double", "d", "expression", "missing"),
        ("double", "t", "expression", "expression"),
        ("four", "d", "decomposition", "missing"),
        ("four", "t", "decomposition", "decomposition"),
        ("inverse", "d", "kernel", "missing"),
        ("inverse", "t", "missing", "missing"),
        ("inverse_sum", "d", "decomposition", "missing"),
        ("inverse_sum", "t", "missing", "missing"),
        ("total", "d", "fold", "missing"),
        ("picky", "d", "unknown", "unknown"),
    ],
)
def test_coverage_says_what_carries_an_operator_out(op: str, place: str, f32: str, i32: str) -> None:
    rows = [row for row in coverage(ENVIRONMENT, [op]) if row.target == place]

    assert [(row.dtype, row.by) for row in rows] == [("f32", f32), ("i32", i32)]
    assert all(bool(row.reason) == (row.by in ("missing", "unknown")) for row in rows)


def test_an_operator_that_misses_a_part_of_its_decomposition_names_that_part() -> None:
    (reason,) = {row.reason for row in coverage(ENVIRONMENT, ["inverse_sum"]) if row.target == "t"}

    assert reason == "t has no kernel for inverse, which has no expression or decomposition"


def test_kernels_that_cannot_be_listed_leave_the_rest_readable() -> None:
    from dataclasses import replace

    from openinfer.errors import PluginError

    def broken(target: str) -> tuple[KernelSpec, ...]:
        if target == "d":
            raise PluginError("hook openinfer_kernels raised OSError", plugin="bad")
        return ()

    rows = list(coverage(replace(ENVIRONMENT, kernel_source=broken), ["double"]))

    assert {row.target: row.by for row in rows if row.dtype == "f32"} == {"d": "unknown", "t": "expression"}
    assert "hook openinfer_kernels raised OSError" in {row.reason for row in rows}


def test_coverage_as_a_table_and_as_json() -> None:
    lines = [line.split() for line in run("--coverage", "double").output.splitlines()]
    rows = json.loads(run("--coverage", "double", "--json").output)

    assert lines == [
        ["name", "where", "by", "types"],
        ["double", "device", "d", "expression", "f32"],
        ["double", "device", "d", "missing", "i32"],
        ["double", "synth", "target", "t", "expression", "f32", "i32"],
    ]
    assert [tuple(row) for row in rows] == [("op", "dtype", "place", "target", "by", "reason")] * 4
    assert [row["by"] for row in rows] == ["expression", "missing", "expression", "expression"]


def test_operators_are_listed_by_name() -> None:
    lines = run().output.splitlines()

    assert lines[0].split() == ["name", "category", "summary"]
    assert [line.split()[0] for line in lines[1:]] == sorted(op.name for op in OPS)


def test_one_operator_in_full() -> None:
    output = run("tuned").output

    assert output.splitlines()[0] == (
        "op tuned(x, b?, axis=…, mode=fast, pads=[1, 2], limit=inf, keep=false, kind=f32, bound=none) >> y;"
    )
    assert "tuned of x" in output
    assert "setting  axis (also dim): int, required  where" in output
    assert 'setting  mode: "fast" | "slow", default fast' in output
    assert "input    x: T\ninput    b?: f32\n" in output
    assert "types T  f32 i32" in output
    assert "example  tuned(T[2,3])\nexample  tuned(T[2], keep=true)  T: i32\n" in f"{output}\n"
    assert "defined  by kernels only" in output


def test_an_alias_finds_its_operator() -> None:
    assert run("twice").output.splitlines()[0] == "op double(x) >> y;"


def test_an_unknown_operator_is_an_error_with_a_hint() -> None:
    result = run("doubel")

    assert result.exit_code == 1
    assert "error[unknown-op]: unknown operator 'doubel': did you mean `double`?" in result.stderr


def test_operators_as_json_keep_to_the_grammar_of_json() -> None:
    found = {row["name"]: row for row in json.loads(run("--json").output, parse_constant=pytest.fail)}

    assert sorted(found) == sorted(op.name for op in OPS)
    assert found["double"]["aliases"] == ["twice"]
    assert found["tuned"]["settings"][0] == {
        "name": "axis",
        "type": "int",
        "required": True,
        "default": None,
        "aliases": ["dim"],
        "choices": [],
        "doc": "where",
    }
    defaults = [setting["default"] for setting in found["tuned"]["settings"]]
    assert defaults == [None, "fast", [1, 2], "inf", False, "f32", None]
