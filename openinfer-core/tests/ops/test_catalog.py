"""The built-in operators as a whole: names, documentation, definitions, and what importing them costs."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openinfer.builtin import openinfer_ops
from openinfer.dtypes import BY_NAME
from openinfer.expr import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, fold_expression, scalar_expression
from openinfer.ops.calls import OpCall
from openinfer.ops.examples import example_call
from openinfer.ops.schema import Elementwise, OpSchema, OpTypeError, Reduction, Required, SettingType
from openinfer.testing.waiting import limit_s

FACTS = Path(__file__).parents[4] / "shared" / "spec" / "ops_catalog.json"
VALUES = {SettingType.INT: 1, SettingType.SCALAR: 0, SettingType.DTYPE: BY_NAME["i32"]}
OFFERED = {schema.name: schema for schema in openinfer_ops()}
BY_EXPRESSION = [s.name for s in OFFERED.values() if isinstance(s.definition, Elementwise)]
BY_FOLD = [s.name for s in OFFERED.values() if isinstance(s.definition, Reduction)]


@pytest.mark.rule("operators.definitions.4")
def test_names_and_aliases_are_unique(catalog: Mapping[str, OpSchema]) -> None:
    names = Counter(name for schema in catalog.values() for name in (schema.name, *schema.aliases))

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.rule("operators.definitions.1")
@pytest.mark.parametrize("name", OFFERED)
def test_an_operator_is_described(name: str) -> None:
    schema = OFFERED[name]

    assert schema.summary
    assert len(schema.summary) < 160
    assert schema.dtypes <= set(BY_NAME)
    assert all(setting.doc for setting in schema.settings)
    spellings = [n for s in schema.settings for n in (s.name, *s.aliases)] + [i.name for i in schema.inputs]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("name", [schema.name for schema in OFFERED.values() if schema.examples])
def test_examples_are_legal_for_every_type_that_they_are_for(name: str) -> None:
    schema = OFFERED[name]

    for example in schema.examples:
        assert example.dtypes is None or example.dtypes <= schema.dtypes
        for dtype in sorted(schema.dtypes if example.dtypes is None else example.dtypes):
            assert example_call(schema, example, BY_NAME[dtype], BY_NAME).op == name


def calls(name: str) -> list[OpCall]:
    """Return one call of the operator for each element type."""
    schema = OFFERED[name]
    settings = {s.name: VALUES[s.type] for s in schema.settings if isinstance(s.default, Required)}
    found: list[OpCall] = []
    for dtype in sorted(schema.dtypes):
        own = [dtype if spec.dtypes is None or dtype in spec.dtypes else min(spec.dtypes) for spec in schema.inputs]
        found.append(
            call_of(schema, [TensorType(BY_NAME[d], (2,)) for d in own], {**settings, **ternary(schema, dtype)})
        )
    return found


def ternary(schema: OpSchema, dtype: str) -> dict[str, Any]:
    """Return the settings that ternary types need otherwise: t1 holds no 0, and neither has arithmetic of its own."""
    needed = {"acc": BY_NAME["i32"]} if dtype in ("t1", "t2") else {}
    return {name: value for name, value in {**needed, "value": 1}.items() if schema.setting(name)} if needed else {}


@pytest.mark.rule("operators.definitions.2", "operators.types.2")
@pytest.mark.parametrize("name", BY_EXPRESSION)
def test_expressions_are_defined_on_every_type_and_yield_the_output_type(name: str) -> None:
    for call in calls(name):
        expr = scalar_expression(OFFERED[name], call)

        assert expr.dtype is call.outputs[0].dtype
        compile_program(linearise(expr))


@pytest.mark.rule("operators.definitions.2")
@pytest.mark.parametrize("name", BY_FOLD)
def test_folds_are_defined_on_every_type_and_yield_the_output_type(name: str) -> None:
    for call in calls(name):
        _, fold = fold_expression(OFFERED[name], call)

        assert fold.finish.dtype is call.outputs[0].dtype
        for expr in (fold.element, fold.combine, fold.finish, *([] if fold.start is None else [fold.start])):
            compile_program(linearise(expr))


def reference_facts() -> list[dict[str, Any]]:
    if not FACTS.exists():
        pytest.skip(f"the reference's catalogue is not at {FACTS}")
    return json.loads(FACTS.read_text())["ops"]


def default_of(schema: OpSchema, name: str) -> Any:
    """Return the default of a setting, None for a required one."""
    spec = schema.setting(name)
    return "no such setting" if spec is None else None if isinstance(spec.default, Required) else spec.default


BY_TYPE = {"dtype_min", "dtype_max", "inf", "-inf", "nan|0"}  # defaults that depend on the type: None here
OPTIONAL_HERE = {"axes"}  # on reductions: all dims


def test_the_operators_of_the_reference_take_its_inputs_settings_and_types(catalog: Mapping[str, OpSchema]) -> None:
    missing: list[str] = []
    for fact in reference_facts():
        schema = catalog.get(fact["name"])
        if schema is None:
            missing.append(fact["name"])
            continue
        if [i["name"] for i in fact["inputs"]] != [spec.name for spec in schema.inputs]:
            missing.append(f"{fact['name']}: inputs {fact['inputs']}")
        missing += [f"{fact['name']} on {d}" for d in fact["dtypes"] if d not in schema.dtypes]
        for attr in fact["attrs"]:
            spec = schema.setting(attr["name"])
            if spec is None:
                missing.append(f"{fact['name']}.{attr['name']}")
            elif attr["name"] not in OPTIONAL_HERE and isinstance(spec.default, Required) != attr["required"]:
                missing.append(f"{fact['name']}.{attr['name']}: required")
    assert missing == []


def test_settings_have_the_defaults_of_the_specification(catalog: Mapping[str, OpSchema]) -> None:
    found: list[tuple[str, str, Any]] = []
    wanted: list[tuple[str, str, Any]] = []
    for fact in reference_facts():
        for attr in [*fact["attrs"], *fact.get("recommended", {}).get("extra_attrs", [])]:
            default = attr["default"]
            wanted.append((fact["name"], attr["name"], None if default in BY_TYPE else default))
            found.append((fact["name"], attr["name"], default_of(catalog[fact["name"]], attr["name"])))
    assert found == wanted


def test_onnx_operators_are_those_of_the_specification(catalog: Mapping[str, OpSchema]) -> None:
    for fact in reference_facts():
        wanted = set(re.findall(r"[A-Z][a-z]\w*", fact["onnx"] or ""))
        assert wanted <= set((catalog[fact["name"]].onnx or "").split(", ")), fact["name"]


@pytest.mark.parametrize("name", ["floor_div", "fma", "popcount"])
def test_an_operator_that_onnx_does_not_have_names_none(name: str) -> None:
    assert OFFERED[name].onnx is None


@pytest.mark.rule("dtypes.accumulators.3")
def test_accumulators_are_those_of_the_specification(catalog: Mapping[str, OpSchema]) -> None:
    for fact in reference_facts():
        schema, legal = catalog[fact["name"]], {tuple(pair) for pair in fact["acc_pairs"]}
        assert (schema.setting("acc") is not None) == bool(legal)
        integers = [d for d in fact["dtypes"] if BY_NAME[d].is_integer] if legal else []
        for dtype, wider in itertools.product(integers, BY_NAME):
            types = [TensorType(BY_NAME[dtype], (1, 1)) for _ in schema.inputs]
            try:
                call = call_of(schema, types, {"acc": BY_NAME[wider]})
            except OpTypeError:
                assert (dtype, wider) not in legal
            else:
                assert (dtype, wider) in legal
                assert call.outputs[0].dtype.name == wider


OTHER_NAMES = {
    "argmax_axis": "argmax",
    "argmin_axis": "argmin",
    "sum_axis": "sum reduce_sum",
    "mean_axis": "mean reduce_mean",
    "prod_axis": "prod reduce_prod",
    "max_axis": "reduce_max",
    "min_axis": "reduce_min",
    "clamp": "clip",
    "recip": "reciprocal",
    "fill": "full_like",
    "shl": "shift_left",
    "shr": "shift_right",
    "fma": "mul_add",
    "rem": "fmod",
    "silu": "swish",
    "transpose": "permute",
    "gather": "take",
    "expand": "broadcast_to",
    "range": "arange",
    "identity": "copy",
}
OTHER_SETTINGS = [
    {"axis", "axes"},
    {"perm", "dims"},
    {"eps", "epsilon"},
    {"groups", "group"},
    {"stride", "strides"},
    {"padding", "pads"},
    {"dilation", "dilations"},
    {"rounding_mode", "rounding"},
]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_an_operator_has_the_other_names_that_the_specification_gives_it(name: str) -> None:
    assert set(OTHER_NAMES[name].split()) <= set(OFFERED[name].aliases)


def test_settings_of_one_name_have_its_other_names_on_every_operator() -> None:
    # Only on reductions do `axis` and `axes` mean one setting everywhere.
    specs = [
        (schema.name, {spec.name, *spec.aliases})
        for schema in OFFERED.values()
        for spec in schema.settings
        if schema.category == "reduction" or spec.name not in ("axis", "axes")
    ]
    missing = [(op, both - found) for op, found in specs for both in OTHER_SETTINGS if found & both and both - found]

    assert missing == []


def test_listing_operators_needs_no_array_library() -> None:
    code = (
        "import sys; from openinfer.builtin import openinfer_ops; assert list(openinfer_ops());"
        "print([m for m in ('numpy', 'ml_dtypes', 'marshmallow', 'parsimonious') if m in sys.modules])"
    )

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=limit_s(60)
    )

    assert found.stdout.strip() == "[]"
