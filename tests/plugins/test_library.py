"""The device `library`: all operators on a library of arrays, with its own functions where they mean the same."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import openinfer as oi
from openinfer.ops.applying import call_of, scalar_expression
from openinfer.ops.computations import computation_of
from openinfer.ops.derived import expression_computation
from openinfer.plugin import BUILTIN, Computation, Environment, TensorType
from openinfer.plugins.coverage import coverage
from openinfer.plugins.probing import probe
from openinfer.testing.checks import check_operator
from openinfer.testing.oracle import oracle_of
from openinfer.testing.places import device_place
from openinfer.testing.stepping import wrong_on_device
from openinfer.testing.whole_programs import WholeProgram, whole_programs

try:
    distribution("openinfer-example-library")
except PackageNotFoundError:
    pytest.skip("openinfer-example-library is not installed here: tox run -e dist,plugins", allow_module_level=True)
pytest.importorskip("array_api_strict", reason="the library is not installed here: pip install array-api-strict")

from openinfer_example_library.kernels import kernel_of
from openinfer_example_library.memory import memory_of, to_host

DTYPES = {dtype.name: dtype for dtype in BUILTIN}
OPERATORS = {
    "expression": ("add", "where"),
    "fold": ("max_axis",),
    "stages": ("matmul", "einsum", "conv2d"),
    "loop program": ("argsort",),
    "other operators": ("softmax",),
}
"""Operators by kind of definition. `tox run -e kit` tries all of them, with more cases."""


@pytest.mark.parametrize("operator", [name for names in OPERATORS.values() for name in names])
def test_a_sample_of_the_conformance_kit_passes(operator: str) -> None:
    environment = Environment.default()
    schema, place = environment.op(operator), device_place("library", environment)

    cells = check_operator(schema, oracle_of(schema), place, environment, every=4096)

    assert set(cells) == set(schema.dtypes)
    for cell in cells.values():
        assert not cell.failures
        assert not cell.missing
        assert cell.ran


def test_no_operator_is_missing() -> None:
    environment = Environment.default()
    # Types that some call of each operator has; all types take seconds.
    dtypes = {name: DTYPES[name] for name in ("f32", "i8", "i16", "i32", "i64", "i2", "u8", "u32", "bool")}
    devices = {"library": environment.device("library")}

    rows = list(coverage(replace(environment, devices=devices, targets={}, dtypes=dtypes)))

    assert [row for row in rows if row.by == "missing"] == []
    assert {row.op for row in rows if row.by != "unknown"} == set(environment.ops)


@pytest.mark.parametrize("program", whole_programs(), ids=lambda program: program.name)
def test_whole_programs_compute_what_numpy_does(program: WholeProgram) -> None:
    assert wrong_on_device(program, "library", Environment.default()) == []


def computation(op: str, dtype: str, *shapes: tuple[int, ...], **settings: Any) -> Computation:
    """Return the computation that a device gets of a call of an operator."""
    schema = Environment.default().op(op)
    types = [TensorType(DTYPES[dtype], shape) for shape in shapes]
    call = call_of(schema, types, settings)
    if schema.definition.__class__.__name__ == "Elementwise":
        return expression_computation(op, scalar_expression(schema, call), types, call.outputs[0])
    return computation_of(schema, call)


@pytest.mark.parametrize(
    ("made", "reference"),
    [
        (computation("sub", "i32", (2, 3), (3,)), np.subtract),
        (computation("exp", "f64", (2, 3)), np.exp),
        (computation("matmul", "f32", (2, 3), (3, 4)), np.matmul),
        (computation("matmul", "f32", (2, 1, 2, 3), (5, 3, 4)), np.matmul),
        (computation("matmul", "i64", (3,), (3,)), np.matmul),
        (computation("matmul", "f32", (3, 2), (4, 3), trans_a=True, trans_b=True), lambda a, b: a.T @ b.T),
        (computation("einsum", "f32", (4, 3), (4, 3), equation="ij,ij->i"), lambda a, b: (a * b).sum(axis=1)),
        (computation("row_products", "f32", (4, 3), (2, 3)), lambda a, b: a @ b.T),
    ],
    ids=lambda value: value.name if isinstance(value, Computation) else "",
)
def test_a_kernel_of_the_library_computes_the_computation(made: Computation, reference: Any) -> None:
    random = np.random.default_rng(3)
    shapes = [tuple(extent.evaluate({}) for extent in tensor.shape) for tensor in made.inputs]
    arrays = [
        random.integers(-4, 5, shape).astype(t.dtype.storage) for t, shape in zip(made.inputs, shapes, strict=True)
    ]
    kernel = kernel_of(made)
    assert kernel is not None

    memories = [memory_of(TensorType(t.dtype, a.shape), a) for t, a in zip(made.inputs, arrays, strict=True)]
    result = kernel(*(memory.array for memory in memories))

    wanted = np.asarray(reference(*arrays))
    found = to_host(type(memories[0])(TensorType(made.outputs[0].dtype, wanted.shape), wanted.dtype, result))
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize(
    "made",
    [
        computation("add", "f16", (2,), (2,)),
        computation("div", "i32", (2,), (2,)),
        computation("max", "f32", (2,), (2,)),
        computation("matmul", "f16", (2, 3), (3, 4)),
        computation("matmul", "f32", (1, 2, 3), (1, 3, 4)),
        computation("einsum", "f32", (1, 2, 3), (1, 4, 3), equation="bij,bkj->bik"),
        computation("matmul", "bool", (2, 3), (3, 4)),
        computation("cumsum", "f32", (4,), axis=0),
        computation("slice", "f32", (4,), axes=(0,), starts=(0,), ends=(2,)),
        computation("conv2d", "f32", (1, 1, 4, 4), (1, 1, 2, 2)),
    ],
    ids=lambda made: made.name,
)
def test_what_the_library_does_otherwise_has_no_kernel(made: Computation) -> None:
    assert kernel_of(made) is None


def test_a_program_without_state_runs_whole_and_others_node_by_node() -> None:
    plain = (
        "dynamic { x: f32[3]; } volatile { y: f32[3]; } block entry { op mul(x, x) >> h; op neg(h) >> y; return y; }"
    )
    state = """dynamic { x: f32[3]; } persistent { s: f32[3]; } volatile { y: f32[3]; }
    block entry { cache.read s >> h; op add(h, x) >> y; cache.write y >> s; return y; }"""
    for program, is_whole in ((plain, True), (state, False)):
        simulator = oi.Simulator(oi.Model.from_arrays({}), program, device="library")
        with simulator.make_executor() as executor:
            executor.step(x=[1.0, 2.0, 3.0])

            assert executor.runs_whole is is_whole
            assert executor.fetch("y").tolist() == ([-1, -4, -9] if is_whole else [1, 2, 3])


def test_a_refused_element_of_a_whole_program_names_its_statement() -> None:
    program = """dynamic { x: f32[3]; i: i64; } volatile { y: f32; }
    block entry { op gather(x, i, axis=0) >> y; return y; }"""
    with oi.Simulator(oi.Model.from_arrays({}), program, device="library").make_executor() as executor:
        executor.step(x=[1.0, 2.0, 3.0], i=2)
        assert executor.runs_whole
        assert executor.fetch("y") == 3

        with pytest.raises(oi.ExecutionError, match="op gather") as raised:
            executor.step(x=[1.0, 2.0, 3.0], i=3)

    assert raised.value.code == "out-of-range"


def test_without_the_library_the_device_is_unavailable_and_says_what_to_install() -> None:
    with patch("openinfer_example_library.probe.version", side_effect=PackageNotFoundError):
        found = probe(Environment.default().device("library"))

    assert not found.available
    assert found.detail == "array_api_strict is missing: pip install array-api-strict"
