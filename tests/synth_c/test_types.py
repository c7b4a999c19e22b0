"""Every element type in generated C gives what the simulator gives, bit for bit."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
from generated_c import SANITISED, needs_gcc, run_sanitised, synthesised

from openinfer.array_types import storage_dtype
from openinfer.dsl import graph
from openinfer.dtypes import BITSET, BUILTIN, FLOAT, PACKED_SINT, PACKED_UINT, Kind
from openinfer.expr import linearise
from openinfer.ir.types import TensorType
from openinfer.model import Model
from openinfer.ops.applying import call_of, scalar_expression
from openinfer.ops.schema import Elementwise, OpTypeError
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.testing.waiting import limit_s
from openinfer_synth_c.compiler_flags import FLAGS as BUNDLE_FLAGS

LIBRARY = frozenset(("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "erf", "power"))
"""Functions of expressions that a library computes, and need not round correctly."""

pytestmark = needs_gcc


def elements(dtype, count, seed=0):
    """Return all values of a small type, else random and special ones, as an array of ``count``."""
    generator = np.random.default_rng(seed)
    storage = storage_dtype(dtype)
    if dtype.kind is Kind.BOOL:
        values = np.array([False, True])
    elif dtype.name == "t1":
        values = np.array([-1, 1], np.int8)
    elif dtype.is_float and dtype.bits <= 16:
        values = np.arange(1 << dtype.bits, dtype=f"u{dtype.bits // 8}").view(storage)
    elif dtype.is_float:
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-42, 3.4e38, 0.5, 1.5, 2.5, -0.5]
        values = np.concatenate([special, generator.normal(0, 100, 500)]).astype(storage)
    elif dtype.bits <= 8:
        values = np.arange(dtype.minimum, dtype.maximum + 1).astype(storage)
    else:
        limits = np.array([0, 1, dtype.minimum, dtype.maximum, dtype.maximum - 1], storage)
        drawn = generator.integers(dtype.minimum, dtype.maximum, 300, storage, endpoint=True)
        values = np.concatenate([limits, drawn])
    return values if count is None else generator.choice(values, count)


def both(text, arrays=None, flags=SANITISED, **inputs):
    """Return the outputs of the simulator and of the compiled program, in storage form."""
    model, program = Model.from_arrays(arrays or {}), graph(text)
    synthesis = Synthesizer("c").synthesize(model, program)
    found = run_sanitised(synthesis, inputs, flags=flags)
    executor = Simulator(model, program, device="cpu").make_executor()
    executor.step(**inputs)
    return {name: np.asarray(executor.result(name).array) for name in found}, found


def assert_same(expected, found):
    """Assert that bits are equal, but for those of NaNs."""
    assert found
    for name, array in found.items():
        wanted = expected[name]
        assert array.dtype == wanted.dtype, name
        assert array.shape == wanted.shape, name
        numbers = np.ones(array.shape, bool)
        if array.dtype.kind not in "biu":
            with np.errstate(invalid="ignore"):
                numbers = ~np.isnan(wanted.astype(np.float64))
                np.testing.assert_array_equal(numbers, ~np.isnan(array.astype(np.float64)), err_msg=name)
        bits = f"u{array.itemsize}"
        np.testing.assert_array_equal(array[numbers].view(bits), wanted[numbers].view(bits), err_msg=name)


def elementwise_calls(dtype, left, right):
    """Yield (operator, its text, output type) of every elementwise operator that takes the type without settings."""
    for name, schema in sorted(Environment.default().ops.items()):
        wanted = [spec for spec in schema.inputs if not spec.optional]
        if not isinstance(schema.definition, Elementwise) or dtype.name not in schema.dtypes or len(wanted) > 2:
            continue
        if any(spec.dtypes is not None for spec in wanted):
            continue
        if name == "pow" and dtype.kind is Kind.SIGNED:
            # Negative exponents of integers are errors of the step.
            continue
        try:
            call = call_of(schema, [left, right][: len(wanted)], {})
        except OpTypeError:
            continue
        functions = {step.function for step in linearise(scalar_expression(schema, call)).instructions}
        if functions & LIBRARY and dtype.bits >= 32:
            continue
        yield name, f"{name}({', '.join('ab'[: len(wanted)])})", call.outputs[0]


def squared(dtype):
    """Return a column and a row of values that meet in every pair, as few as can be."""
    if dtype.bits <= 8:
        values = elements(dtype, None)
        return values.reshape(-1, 1), values.reshape(1, -1)
    return elements(dtype, 61).reshape(-1, 1), elements(dtype, 59, seed=1).reshape(1, -1)


@pytest.mark.parametrize("dtype", [dtype for dtype in BUILTIN if dtype.kind is not Kind.TERNARY], ids=str)
def test_elementwise_operators(dtype):
    a, b = squared(dtype)
    left, right = TensorType(dtype, a.shape), TensorType(dtype, b.shape)
    calls = list(elementwise_calls(dtype, left, right))
    assert calls
    volatile = " ".join(f"y_{name}: {out};" for name, _, out in calls)
    steps = " ".join(f"op {text} >> y_{name};" for name, text, _ in calls)
    returned = ", ".join(f"y_{name}" for name, _, _ in calls)
    text = (
        f"dynamic {{ a: {left}; b: {right}; }} volatile {{ {volatile} }} block entry {{ {steps} return {returned}; }}"
    )

    assert_same(*both(text, a=a, b=b))


NARROW = (*FLOAT[:3], *PACKED_SINT, *PACKED_UINT)


def program(inputs, results):
    """Return a program from the types of inputs and, by result, (type, statement or None)."""
    dynamic = " ".join(f"{name}: {kind};" for name, kind in inputs.items())
    volatile = " ".join(f"{name}: {kind};" for name, (kind, _) in results.items())
    steps = " ".join(f"{statement} >> {name};" for name, (_, statement) in results.items() if statement)
    names = ", ".join(name for name in results)
    return f"dynamic {{ {dynamic} }} volatile {{ {volatile} }} block entry {{ {steps} return {names}; }}"


def small(dtype, shape, seed=0):
    """Return values whose sums and products are exact in every float type."""
    if not dtype.is_float:
        return elements(dtype, int(np.prod(shape)), seed).reshape(shape)
    return (np.random.default_rng(seed).integers(-2, 3, shape) / 2).astype(storage_dtype(dtype))


def test_casts_from_every_type_to_every_type():
    targets = [target for target in BUILTIN if target.kind not in (Kind.TERNARY, Kind.BITSET)]
    sources = [source for source in BUILTIN if source.kind is not Kind.BITSET]
    values = {f"x_{source}": elements(source, None if source.bits == 8 else 301) for source in sources}
    inputs = {name: f"{name[2:]}[{array.size}]" for name, array in values.items()}
    results = {
        f"y{name[1:]}_{target}": (f"{target}[{array.size}]", f"op cast({name}, to={target})")
        for name, array in values.items()
        for target in targets
    }

    assert_same(*both(program(inputs, results), **values))


def test_folds():
    values = {f"x_{dtype}": small(dtype, (7, 13)) for dtype in NARROW}
    results = {}
    for name in values:
        dtype = name[2:]
        results[f"total_{dtype}"] = (f"{dtype}[7]", f"op sum_axis({name}, axes=1)")
        results[f"all_{dtype}"] = (dtype, f"op sum_axis({name}, axes=[0, 1])")
        results[f"most_{dtype}"] = (f"{dtype}[13]", f"op max_axis({name}, axes=0)")
        results[f"least_{dtype}"] = (f"{dtype}[7, 1]", f"op min_axis({name}, axes=1, keepdims=true)")
        results[f"at_{dtype}"] = ("i64[7]", f"op argmax_axis({name}, axis=1, keepdims=false)")

    assert_same(*both(program({name: f"{name[2:]}[7, 13]" for name in values}, results), **values))


def test_products():
    values, kinds, results = {}, {}, {}
    for dtype in (*NARROW, BITSET):
        for name, shape in (("a", (5, 9)), ("b", (9, 21))):
            values[f"{name}_{dtype}"] = small(dtype, shape, seed=len(values))
            kinds[f"{name}_{dtype}"] = TensorType(dtype, shape)
        results[f"y_{dtype}"] = (f"{dtype}[5, 21]", f"op matmul(a_{dtype}, b_{dtype})")
        if dtype.is_packed:
            wide = "u32" if dtype.kind is Kind.UNSIGNED else "i32"
            results[f"wide_{dtype}"] = (f"{wide}[5, 21]", f"op matmul(a_{dtype}, b_{dtype}, acc={wide})")
            once = f"op matmul(a_{dtype}, b_{dtype}, acc=[{wide}, {dtype}])"
            results[f"once_{dtype}"] = (f"{dtype}[5, 21]", once)

    assert_same(*both(program(kinds, results), **values))


def test_windows():
    values, kinds, results = {}, {}, {}
    for dtype in FLOAT[:3]:
        for name, shape in (("x", (2, 3, 7, 5)), ("w", (4, 3, 3, 3)), ("c", (4,))):
            values[f"{name}_{dtype}"] = small(dtype, shape, seed=len(values))
            kinds[f"{name}_{dtype}"] = TensorType(dtype, shape)
        x = f"x_{dtype}"
        results[f"y_{dtype}"] = (f"{dtype}[2, 4, 7, 5]", f"op conv2d({x}, w_{dtype}, bias=c_{dtype}, padding=1)")
        results[f"r_{dtype}"] = (f"{dtype}[2, 4, 7, 5]", f"op relu(y_{dtype})")
        results[f"m_{dtype}"] = (f"{dtype}[2, 3, 6, 4]", f"op max_pool2d({x}, kernel=2, stride=1)")
        results[f"p_{dtype}"] = (f"{dtype}[2, 3, 6, 4]", f"op avg_pool2d({x}, kernel=2, stride=1)")

    assert_same(*both(program(kinds, results), **values))


def test_elements_are_moved_as_they_are():
    values = {f"x_{dtype}": elements(dtype, 33).reshape(11, 3) for dtype in BUILTIN}
    results = {}
    for dtype in BUILTIN:
        one = "true" if dtype.kind is Kind.BOOL else "1.5" if dtype.is_float else "-1" if dtype.minimum == -1 else "1"
        results[f"flat_{dtype}"] = (f"{dtype}[33]", f"op reshape(x_{dtype}, shape=[33])")
        results[f"turned_{dtype}"] = (f"{dtype}[3, 11]", f"op transpose(x_{dtype})")
        results[f"copied_{dtype}"] = (f"{dtype}[11, 3]", f"transfer x_{dtype}")
        results[f"zero_{dtype}"] = (f"{dtype}[5]", None)
        results[f"ones_{dtype}"] = (f"{dtype}[5] @init({one})", None)

    expected, found = both(program({f"x_{d}": f"{d}[11, 3]" for d in BUILTIN}, results), **values)

    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert array.tobytes() == expected[name].tobytes(), name


def test_weights_of_every_type_that_models_hold_in_memory():
    weights = {f"w_{d}": elements(d, 33) for d in BUILTIN if not d.is_packed and d.kind is not Kind.BITSET}
    declared = " ".join(f"{name}: {name[2:]}[33]; y_{name[2:]}: {name[2:]}[33];" for name in weights)
    steps = " ".join(f"transfer {name} >> y_{name[2:]};" for name in weights)
    names = ", ".join(f"y_{name[2:]}" for name in weights)

    _, found = both(f"volatile {{ {declared} }} block entry {{ {steps} return {names}; }}", weights)

    for name, array in weights.items():
        assert found[f"y_{name[2:]}"].tobytes() == array.tobytes(), name


def test_conditions_and_indices_of_narrow_types():
    text = """dynamic { n: u4; yes: f16; no: bf16; }
    volatile { y: i32[3]; counted: i32; one: i32 @init(1); ten: i32 @init(10); }
    block entry {
      loop turns (i in 0..n) { op add(counted, one) >> counted; }
      branch yes first second;
      branch no first second;
      return y, counted;
    }
    block first { op add(y, ten) >> y; return; }
    block second { op add(y, one) >> y; return; }"""

    expected, found = both(text, n=np.uint8(13), yes=np.float16("nan"), no=ml_dtypes.bfloat16(-0.0))

    assert found["y"].tolist() == expected["y"].tolist() == [11, 11, 11]
    assert found["counted"] == expected["counted"] == 13


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "f64"])
def test_signs_of_many_elements_with_the_flags_of_a_bundle(dtype):
    """Optimised loops over ``signbit`` end GCC 12 itself."""
    element = next(each for each in BUILTIN if each.name == dtype)
    x = np.resize(elements(element, None), 32)
    x[:4] = [0.0, -0.0, np.nan, -np.inf]
    text = f"dynamic {{ x: {dtype}[32]; }} volatile {{ y: bool[32]; }} block entry {{ op is_neg(x) >> y; return y; }}"

    expected, found = both(text, flags=BUNDLE_FLAGS, x=x)

    assert_same(expected, found)
    assert found["y"][:4].tolist()[:2] == [False, True]
    assert found["y"][3]


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is that of Linux")
def test_powers_of_a_loop_index_compile_in_little_memory(tmp_path):
    """Of a chain of 63 signed squares, each with a branch, GCC 12 makes expressions that double with each."""
    _, _, synthesis = synthesised("""
    volatile { e: i64[2]; y: i64[2]; }
    block entry { loop powers (i in 0..4) { op pow(i, e) >> y; } return y; }""")
    for name, data in synthesis.bundle.files.items():
        (tmp_path / name).write_bytes(data)

    run_tool(["sh", "-c", "ulimit -v 1000000; gcc -O1 -c model.c"], tmp_path, limit_s(60), "gcc")
