"""The conformance kit on operators of plugins: oracles, or definitions on cpu, and what inputs they get."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pytest

from openinfer.dtypes import BY_NAME, F32, I8, U4
from openinfer.errors import PluginError
from openinfer.expr import tree
from openinfer.ops import Composite, Elementwise, InputSpec, Operand, OpExample, OpSchema, Primitive
from openinfer.plugins.environment import Environment, Status
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.plugins.types import KernelSpec
from openinfer.testing.cases import Case, cases
from openinfer.testing.checks import Cell, check_operator
from openinfer.testing.conformance.test_operators import incomparable
from openinfer.testing.oracle import oracle_of
from openinfer.testing.places import Place, device_place
from openinfer.testing.values import generator, held_within

Array: TypeAlias = np.ndarray[Any, Any]
FLOATS = frozenset({"f16", "f32", "f64"})


def same(inputs: Any, *_: Any) -> Any:
    return (inputs[0],)


def power(inputs: Sequence[Any], _: Any, out: Any) -> Any:
    """e to the power of x, as a plugin may write it."""
    del out
    return tree.exp(inputs[0])


def halves(steps: Any, inputs: Sequence[int], _: Any) -> tuple[int, ...]:
    return (steps.op("mul", inputs[0], steps.op("fill", inputs[0], value=0.5)),)


def operator(name: str = "plugin_exp", definition: Any = None, **changes: Any) -> OpSchema:
    return OpSchema(
        **{
            "name": name,
            "summary": "x",
            "category": "example",
            "inputs": (InputSpec(name="x"),),
            "dtypes": FLOATS,
            "infer": same,
            "definition": definition or Elementwise(power),
            "examples": (OpExample(inputs=(Operand(shape=(2, 3)),)), OpExample(inputs=(Operand(shape=(7,)),))),
            "in_place": True,
            **changes,
        }
    )


def loaded(*schemas: OpSchema, kernels: Mapping[str, KernelSpec] | None = None) -> Environment:
    module = ModuleType("example_operators")

    @hookimpl
    def openinfer_ops() -> tuple[OpSchema, ...]:
        return schemas

    @hookimpl
    def openinfer_kernels(target: str) -> list[KernelSpec]:
        return [kernel for name, kernel in (kernels or {}).items() if name == target]

    module.__dict__.update(OPENINFER_API=1, openinfer_ops=openinfer_ops, openinfer_kernels=openinfer_kernels)
    return load_environment(extra=[("example", module)])


def changing(place: Place, change: Callable[[Array], Array]) -> Place:
    def run(given: Sequence[Case]) -> list[list[Array]]:
        return [[change(array) for array in outputs] for outputs in place.run(given)]

    return replace(place, run=run)


def checked(schema: OpSchema, change: Callable[[Array], Array] | None = None) -> Mapping[str, Cell]:
    environment = loaded(schema)
    place = device_place("cpu", environment)
    found = place if change is None else changing(place, change)
    return check_operator(environment.op(schema.name), oracle_of(schema), found, environment)


@pytest.fixture
def oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of oracles that schemas name."""
    parts = ModuleType("example_oracles")
    parts.__dict__["right"] = lambda inputs, _: (np.exp(inputs[0]),)
    parts.__dict__["wrong"] = lambda inputs, _: (np.exp2(inputs[0]),)
    monkeypatch.setitem(sys.modules, "example_oracles", parts)


@pytest.mark.usefixtures("oracles")
def test_the_oracle_of_a_schema_is_what_results_are_compared_with() -> None:
    right = checked(operator(oracle="example_oracles:right"))
    wrong = checked(operator(oracle="example_oracles:wrong"))

    assert set(right) == set(wrong) == FLOATS
    assert all(cell.ran and not cell.failures and not cell.missing for cell in right.values())
    assert all(cell.failures for cell in wrong.values())


def test_a_missing_oracle_is_reported() -> None:
    with pytest.raises(PluginError, match="cannot load 'no_such_oracles:any'"):
        oracle_of(operator(oracle="no_such_oracles:any"))


def test_core_keeps_its_oracles() -> None:
    exp = Environment.default().op("exp")

    assert oracle_of(replace(exp, oracle="no_such_oracles:any")) is oracle_of(exp)


def a_little_more(array: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.nextafter(array, np.asarray(np.inf, array.dtype))


@pytest.mark.usefixtures("oracles")
@pytest.mark.parametrize(("tolerance", "fails"), [(None, False), (6.0, False), (0.0, True)])
def test_the_tolerance_of_a_schema_says_how_far_results_may_be_off(tolerance: float | None, *, fails: bool) -> None:
    schema = operator(oracle="example_oracles:right", tolerance=tolerance, domain={"x": (0.0, 4.0)})

    cells = checked(schema, lambda array: a_little_more(array) if array.dtype == np.float32 else array)

    assert bool(cells["f32"].failures) is fails


def test_inputs_stay_within_their_domain_and_keep_what_is_special_in_it() -> None:
    schema = operator(domain={"x": (0.0, 100.0)}, inputs=(InputSpec(name="x"), InputSpec(name="y")), broadcast=True)
    schema = replace(schema, examples=())

    for name in FLOATS:
        found = cases(schema, BY_NAME[name], BY_NAME)
        drawn = [case.inputs() for case in found]
        first = np.concatenate([np.ravel(x).astype(np.float64) for x, _ in drawn if x is not None])
        second = np.concatenate([np.ravel(y).astype(np.float64) for _, y in drawn if y is not None])

        assert ((first >= 0.0) & (first <= 100.0)).all()
        assert {0.0, 0.5, 1.0, 100.0} <= set(first.tolist())
        assert np.isnan(second).any()
        assert (second < 0.0).any()


def test_bounds_of_values_are_clamped_to_their_type() -> None:
    random = generator("held")
    for dtype, low, high in ((I8, -3.5, 1000.0), (U4, -1.0, 2.5), (F32, 0.1, 0.1000001), (BY_NAME["f8"], 0.9, 1.1)):
        array = np.linspace(-9, 9, 40).astype(np.float32 if dtype.is_float else np.int8)
        held = held_within(array, dtype, low, high, random)

        assert held.dtype == array.dtype
        assert (held >= low).all()
        assert (held <= high).all()


def bind_wrong(call: Any, inputs: Any, outputs: Any, workspace: Any) -> Any:
    del call, workspace
    return lambda: np.multiply(inputs[0], 0.75, out=outputs[0])


@pytest.mark.parametrize("definition", [None, Composite(halves)], ids=["expression", "decomposition"])
def test_without_an_oracle_the_definition_on_cpu_is_what_results_are_compared_with(definition: Any) -> None:
    schema = operator(definition=definition)

    right, wrong = checked(schema), checked(schema, lambda array: (array * 1.01).astype(array.dtype))

    assert all(cell.ran and not cell.failures for cell in right.values())
    assert all(cell.failures for cell in wrong.values())


def test_a_kernel_of_cpu_itself_is_compared_with_the_definition() -> None:
    schema = operator("plugin_halves", Composite(halves))
    kernel = KernelSpec(op="plugin_halves", kernel=bind_wrong, dtypes=frozenset({"f32"}))
    environment = loaded(schema, kernels={"cpu": kernel})

    cells = check_operator(schema, None, device_place("cpu", environment), environment)

    assert {name for name, cell in cells.items() if cell.failures} == {"f32"}


def test_a_definition_that_fails_on_cpu_is_reported() -> None:
    schema = operator("plugin_needy", Composite(lambda steps, inputs, _: (steps.op("gather", inputs[0], inputs[0]),)))
    kernel = KernelSpec(op="plugin_needy", kernel=bind_wrong)
    environment = loaded(schema, kernels={"cpu": kernel})

    cells = check_operator(schema, None, device_place("cpu", environment), environment)

    assert all("nothing to compare with, the definition fails on cpu" in cell.failures[0] for cell in cells.values())


def test_what_nothing_is_known_of_is_said() -> None:
    environment = Environment.default()
    kernels_only = operator(definition=Primitive())

    assert incomparable(environment.op("matmul"), environment) == ""
    assert incomparable(operator(), environment) == ""
    assert "has kernels only: give its schema one" in incomparable(kernels_only, environment)
    assert incomparable(replace(kernels_only, oracle="os.path:join"), replace(environment, devices={})) == ""
    assert "there is no device cpu" in incomparable(operator(), replace(environment, devices={}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"oracle": "example"}, "oracle is 'example', expected 'module:attribute'"),
        ({"oracle": np.exp}, "expected str | None"),
        ({"tolerance": "4"}, "tolerance is '4', expected float | None"),
        ({"domain": {"x": (1.0, 0.0)}}, "expected a mapping from names of inputs to (least, greatest)"),
        ({"domain": {"x": 1.0}}, "expected Mapping[str, tuple[float, float]]"),
        ({"domain": {"z": (0.0, 1.0)}}, "domain names 'z', which is not an input"),
    ],
)
def test_a_schema_that_says_it_wrongly_does_not_load(changes: Mapping[str, Any], reason: str) -> None:
    (info,) = (each for each in loaded(operator(**changes)).plugins if each.name == "example")

    assert info.status is Status.FAILED
    assert reason in info.reason
