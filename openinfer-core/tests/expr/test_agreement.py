"""Random expressions of exact functions: NumPy and compiled C agree bit for bit."""

from __future__ import annotations

import inspect
import math
import random
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BOOL, F32, F64, I8, I32, I64, U8, U32, DType
from openinfer.expr import Expr, c_renderer, linearise, tree
from openinfer.expr.c_renderer import c_type, literal_text, literal_texts
from openinfer.expr.numpy_renderer import compile_program
from openinfer.testing.waiting import limit_s

COUNT, LENGTH = 60, 64
TYPES = (F32, F64, I8, I32, I64, U8, U32, BOOL)
FLOAT = ("add", "sub", "mul", "div", "neg", "absolute", "minimum", "maximum", "floor", "trunc", "round_even", "sqrt")
INTEGER = (
    *("add", "sub", "mul", "div", "rem", "neg", "absolute", "minimum", "maximum"),
    *("bit_xor", "bit_not", "shl", "shr"),
)
LOGICAL = ("logical_and", "logical_or", "logical_not", "logical_xor")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 127.0, -128.5, 1e10, -1e30, math.inf, -math.inf, math.nan, 2.0**-149)


def random_expression(source: random.Random, size: int) -> Expr:
    """Return an expression over one input of each type, built up from ``size`` random functions."""
    known: list[Expr] = [tree.Input(index, dtype) for index, dtype in enumerate(TYPES)]
    for _ in range(size):
        known.append(_random_step(source, known))
    return known[-1]


def _random_step(source: random.Random, known: list[Expr]) -> Expr:
    x = source.choice(known[-6:])
    alike = [expr for expr in known if expr.dtype is x.dtype]
    conditions = [expr for expr in known if expr.dtype is BOOL]
    kind = source.random()
    if kind < 0.2:
        return tree.cast(x, source.choice([d for d in TYPES if d is not x.dtype]))
    if kind < 0.3:
        return tree.select(source.choice(conditions), x, source.choice(alike))
    if kind < 0.4 and x.dtype is not BOOL:
        return getattr(tree, source.choice(COMPARISONS))(x, source.choice(alike))
    if x.dtype is I32 and kind < 0.5:
        dot = source.choice((tree.dot2, tree.dot4, tree.sdot4))
        if kind < 0.44:
            return tree.clip8(x) if kind < 0.42 else tree.widen(x, source.choice(alike))
        return dot(x, source.choice(alike), source.choice(alike))
    if x.dtype in (I8, U8) and kind < 0.5:
        return tree.word(x, *(source.choice(alike) for _ in range(3)))
    if x.dtype in (U8, U32) and kind < 0.6:
        return tree.power(x, source.choice(alike))
    names = FLOAT if x.dtype.is_float else LOGICAL if x.dtype is BOOL else INTEGER
    function = getattr(tree, source.choice(names))
    rest = len(inspect.signature(function).parameters) - 1
    return function(x, *(source.choice(alike) for _ in range(rest)))


def inputs() -> dict[int, np.ndarray[Any, Any]]:
    generator = np.random.default_rng(11)
    found: dict[int, np.ndarray[Any, Any]] = {}
    for index, dtype in enumerate(TYPES):
        found[index] = _random_elements(dtype, generator)
    return found


def _random_elements(dtype: DType, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    storage = storage_dtype(dtype)
    if dtype.is_float:
        return np.concatenate([SPECIAL, generator.normal(0, 100, LENGTH - len(SPECIAL))]).astype(storage)
    if dtype is BOOL:
        return generator.integers(0, 2, LENGTH).astype(storage)
    limits = np.iinfo(storage)
    wide = generator.integers(limits.min, limits.max, LENGTH, dtype=storage, endpoint=True)
    small = np.array([0, 1, 2, 3, limits.max, limits.min], storage)
    return np.concatenate([small, wide])[:LENGTH]


def expressions_of_one_input() -> list[Expr]:
    """Return functions of an input and itself, of which compilers know the result and may warn."""
    inputs = [tree.Input(index, dtype) for index, dtype in enumerate(TYPES)]
    numbers = [x for x in inputs if x.dtype is not BOOL]
    both = [getattr(tree, name)(x, x) for name in (*COMPARISONS, "minimum", "maximum", "sub") for x in numbers]
    whole = [getattr(tree, name)(x, x) for name in ("rem", "bit_xor") for x in numbers if x.dtype.is_integer]
    return [*both, *whole, *(getattr(tree, name)(inputs[-1], inputs[-1]) for name in LOGICAL if name != "logical_not")]


EXPRESSIONS = [*(random_expression(random.Random(seed), 12) for seed in range(COUNT)), *expressions_of_one_input()]


def c_source() -> str:
    values = inputs()
    arrays = "".join(
        f"static const {c_type(d)} x{i}[] = {{{', '.join(literal_text(d, v) for v in values[i].tolist())}}};\n"
        for i, d in enumerate(TYPES)
    )
    bodies: list[str] = []
    helpers: set[str] = set()
    for expr in EXPRESSIONS:
        fragment = c_renderer.render(linearise(expr), {index: f"x{index}[i]" for index in range(len(TYPES))})
        helpers.update(fragment.helpers)
        statements = "\n".join(fragment.statements)
        bodies.append(
            f"for (int i = 0; i < {LENGTH}; i++) {{\n{statements}\nconst {c_type(expr.dtype)} r = {fragment.result};\n"
            "fwrite(&r, sizeof r, 1, stdout);\n}\n"
        )
    includes = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stdint", "stdio"))
    unused = "".join(f"(void)x{index};\n" for index in range(len(TYPES)))
    main = f"int main(void) {{\n{unused}{''.join(bodies)}return 0;\n}}\n"
    return f"{includes}{c_renderer.helper_source(helpers)}{arrays}{main}"


@pytest.fixture(scope="module", params=["gcc", "clang"])
def c_output(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    compiler = shutil.which(request.param)
    if compiler is None:
        pytest.skip(f"no {request.param} on this machine: generated C cannot be compiled")
    folder = tmp_path_factory.mktemp("c")
    (folder / "agreement.c").write_text(c_source())
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-ffp-contract=off"]
    sanitise = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
    built = subprocess.run(
        [compiler, *flags, *sanitise, "-o", "agreement", "agreement.c", "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit_s(300),
    )
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run([str(folder / "agreement")], capture_output=True, timeout=limit_s(60))
    assert ran.returncode == 0, ran.stderr[:4000]
    return ran.stdout


@pytest.mark.rule("operators.definitions.2")
def test_numpy_and_c_agree_bit_for_bit(c_output: bytes) -> None:
    place = 0
    values = inputs()
    for number, expr in enumerate(EXPRESSIONS):
        out = np.empty(LENGTH, storage_dtype(expr.dtype))
        compile_program(linearise(expr))([values[index] for index in range(len(TYPES))], out)
        from_c = np.frombuffer(c_output, out.dtype, LENGTH, place)
        place += out.nbytes
        np.testing.assert_array_equal(out, from_c, err_msg=f"expression {number}")
        if expr.dtype.is_float:
            numbers = ~np.isnan(out)
            np.testing.assert_array_equal(np.signbit(out)[numbers], np.signbit(from_c)[numbers], f"signs of {number}")
    assert place == len(c_output)


def test_the_expressions_reach_every_type_and_most_functions() -> None:
    functions = {step.function for expr in EXPRESSIONS for step in linearise(expr).instructions}

    assert {expr.dtype for expr in EXPRESSIONS} == set(TYPES)
    assert len(functions & {*FLOAT, *INTEGER, *LOGICAL, *COMPARISONS, "select", "cast"}) > 20


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (F32, 1.0, "0x1p+0f"),
        (F32, 0.1, "0x1.99999ap-4f"),
        (F32, -0.0, "-0x0p+0f"),
        (F32, math.nan, "NAN"),
        (F32, -math.nan, "-NAN"),
        (F64, -math.nan, "-(double)NAN"),
        (F32, -math.inf, "-INFINITY"),
        (F64, 0.1, "0x1.999999999999ap-4"),
        (F64, math.inf, "(double)INFINITY"),
        (I8, -128, "-128"),
        (I32, -(2**31), "INT32_MIN"),
        (U32, 7, "7u"),
        (I64, -5, "-INT64_C(5)"),
        (I64, -(2**63), "INT64_MIN"),
        (BOOL, True, "true"),
    ],
)
def test_constants_in_c_are_exact(dtype: DType, value: float, text: str) -> None:
    assert literal_text(dtype, value) == text


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0, -0.0, 1.0, -256.0, 0.5, 2.0**-149, -(2.0**-1074), 1.0 + 2.0**-20, 3e38],
        [1.5, math.nan, -math.inf],
    ],
)
def test_constants_of_a_whole_array_are_those_of_its_elements(values: list[float]) -> None:
    assert literal_texts(F64, values) == [literal_text(F64, value) for value in values]


def test_statements_are_in_order_and_helpers_are_named() -> None:
    x, y = tree.Input(0, I32), tree.Input(1, I32)
    program = linearise(tree.maximum(tree.mul(x, y), tree.literal(-3, I32)))

    fragment = c_renderer.render(program, {0: "a[i]", 1: "b[i]"}, prefix="v")

    assert fragment.statements == (
        "const int32_t v0 = a[i];",
        "const int32_t v1 = b[i];",
        "const int32_t v2 = oi_mul_i32(v0, v1);",
        "const int32_t v4 = (-3) > v2 ? (-3) : v2;",
    )
    assert (fragment.result, fragment.helpers, fragment.requires) == ("v4", ("oi_mul_i32",), ())
    source = c_renderer.helper_source(fragment.helpers)
    assert source.index("oi_wrap_i32(uint32_t x)") < source.index("oi_mul_i32(int32_t a, int32_t b)")
    assert c_renderer.helper_source([]) == ""


def test_an_input_without_text_is_refused() -> None:
    with pytest.raises(tree.ExprError, match="reads input 1, for which no text was given"):
        c_renderer.render(linearise(tree.add(tree.Input(0, F32), tree.Input(1, F32))), {0: "a"})
