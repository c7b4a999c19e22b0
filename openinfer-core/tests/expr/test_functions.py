"""Every function of expressions on special values: NumPy and C against an oracle of exact integers and `math`."""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import itertools
import math
import operator
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BOOL, F32, F64, I32, SINT, U32, UINT, DType, Kind, dtype_named
from openinfer.expr import c_renderer, linearise, tree
from openinfer.expr.numpy_renderer import compile_program
from openinfer.testing.waiting import limit_s

FLOATS = (F32, F64)
INTEGERS = (*SINT, *UINT)
NUMBERS = (*FLOATS, *INTEGERS)
COMPUTED = (*NUMBERS, BOOL)

C_FLAGS = [
    *("-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-ffp-contract=off"),
    *("-fsanitize=undefined,address", "-fno-sanitize-recover=all"),
]

# --- Values -------------------------------------------------------------------------------------------------------

FLOAT_VALUES = [
    *(0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, math.pi, 1e-3, 100.25, 88.75, 127.0, 127.5, 128.0, 129.0, 255.5, 256.0),
    *(32768.0, 65536.0, 2.0**31, 2.0**31 - 128, 2.0**32, 2.0**53, 2.0**63, 2.0**64, 1e30, math.inf),
    *(2.0**-149, 2.0**-126, 2.0**-130, (2 - 2.0**-23) * 2.0**127),
]
F64_ONLY = [2.0**-1074, 2.0**-1022, 1.7976931348623157e308, 1e-300, 2.0**31 - 0.5, 2.0**63 - 1024, 709.5, 0.1]
INTEGER_VALUES = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200]


def values(dtype: DType) -> list[Any]:
    """Return the special values of a type: limits, zeros of both signs, ties, subnormals, shift counts."""
    if dtype is BOOL:
        return [False, True]
    if dtype.is_float:
        positive = FLOAT_VALUES + (F64_ONLY if dtype is F64 else [])
        return [*positive, *(-value for value in positive), math.nan]
    assert dtype.minimum is not None
    assert dtype.maximum is not None
    both = {*INTEGER_VALUES, *(-value for value in INTEGER_VALUES)}
    limits = {dtype.minimum, dtype.minimum + 1, dtype.maximum, dtype.maximum - 1, dtype.maximum // 2 + 1}
    return sorted(value for value in both | limits if dtype.minimum <= value <= dtype.maximum)


# --- Oracle: what each function means ------------------------------------------------------------------------------


def rounded(dtype: DType, value: float) -> float:
    return value if dtype is F64 else ctypes.c_float(value).value


def wrapped(dtype: DType, value: int) -> int:
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.kind is Kind.SIGNED and value >> (dtype.bits - 1) else value


def ieee_div(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def fmod(a: float, b: float) -> float:
    return math.nan if math.isinf(a) or b == 0.0 else math.fmod(a, b)


def power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and math.fmod(b, 2.0) else math.inf
    except ValueError:
        if a != 0.0:
            return math.nan
        return math.copysign(math.inf, a) if math.fmod(abs(b), 2.0) == 1.0 else math.inf


def guarded(function: Callable[[float], float], pole: float = math.nan) -> Callable[[float], float]:
    """Return a function of `math` that yields IEEE results where `math` raises; ``pole`` is where it is -inf."""

    def evaluate(x: float) -> float:
        if x == pole:
            return -math.inf
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return evaluate


def whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


def greater(a: Any, b: Any) -> Any:
    return b if a != a or b > a else a


def lesser(a: Any, b: Any) -> Any:
    return b if a != a or b < a else a


EXACT_FLOAT: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": ieee_div,
    "rem": fmod,
    "neg": operator.neg,
    "absolute": abs,
    "minimum": lesser,
    "maximum": greater,
    "sqrt": guarded(math.sqrt),
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "trunc": whole(math.trunc),
    "round_even": whole(round),
    "is_nan": math.isnan,
    "is_inf": math.isinf,
    "sign_bit": lambda x: math.copysign(1.0, x) < 0,
}
LIBRARY_FLOAT: dict[str, Callable[..., float]] = {
    "exp": guarded(math.exp),
    "expm1": guarded(math.expm1),
    "log": guarded(math.log, pole=0.0),
    "log1p": guarded(math.log1p, pole=-1.0),
    "sin": guarded(math.sin),
    "cos": guarded(math.cos),
    "tan": guarded(math.tan),
    "tanh": math.tanh,
    "erf": math.erf,
    "power": power,
}
INTEGER: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: int(Fraction(a, b)) if b else 0,
    "rem": lambda a, b: a - b * int(Fraction(a, b)) if b else 0,
    "neg": operator.neg,
    "absolute": abs,
    "minimum": min,
    "maximum": max,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "bit_not": operator.invert,
    "shl": lambda x, count: x << max(count, 0) if count < 64 else 0,
    "shr": lambda x, count: x >> min(max(count, 0), 64),
}
LOGICAL: dict[str, Callable[..., bool]] = {
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "logical_xor": operator.xor,
    "logical_not": operator.not_,
}
COMPARISONS: dict[str, Callable[..., bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def cast(source: DType, target: DType) -> Callable[[Any], Any]:
    def evaluate(x: Any) -> Any:
        if target is BOOL:
            return x != 0
        if target.is_float:
            return rounded(target, float(x)) if source.is_float else nearest(target, int(x))
        if not source.is_float:
            return wrapped(target, int(x))
        if math.isnan(x):
            return 0
        assert target.minimum is not None
        assert target.maximum is not None
        return min(max(target.minimum, int(x) if math.isfinite(x) else int(math.copysign(2**70, x))), target.maximum)

    return evaluate


def nearest(target: DType, x: int) -> float:
    """Return the integer rounded once, half to even, by exact arithmetic."""
    digits = 24 if target is F32 else 53
    surplus = max(abs(x).bit_length() - digits, 0)
    return float(round(Fraction(x, 1 << surplus)) << surplus)


# --- Cases ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    function: str
    operands: tuple[DType, ...]
    result: DType
    oracle: Callable[..., Any]
    ulps: int = 0

    def __str__(self) -> str:
        to = f"-{self.result}" if self.function == "cast" else ""
        return f"{self.function}-{self.operands[-1]}{to}"

    @property
    def program(self) -> Any:
        inputs = [tree.Input(index, dtype) for index, dtype in enumerate(self.operands)]
        if self.function == "cast":
            return linearise(tree.cast(inputs[0], self.result))
        return linearise(getattr(tree, self.function)(*inputs))

    def expected(self) -> list[Any]:
        rows = itertools.product(*(values(dtype) for dtype in self.operands))
        return [self._expected(*row) for row in rows]

    def _expected(self, *row: Any) -> Any:
        value = self.oracle(*(rounded(d, x) if d.is_float else x for d, x in zip(self.operands, row, strict=True)))
        if self.result.is_float:
            return rounded(self.result, value)
        return bool(value) if self.result is BOOL else wrapped(self.result, value)


def arity(function: str) -> int:
    return len(inspect.signature(getattr(tree, function)).parameters)


def cases() -> list[Case]:
    found: list[Case] = []
    for dtype in FLOATS:
        found += [
            Case(f, (dtype,) * arity(f), BOOL if f in ("is_nan", "is_inf", "sign_bit") else dtype, oracle)
            for f, oracle in EXACT_FLOAT.items()
        ]
        limits = {"erf": 8} if dtype is F64 else {}
        found += [Case(f, (dtype,) * arity(f), dtype, o, limits.get(f, 4)) for f, o in LIBRARY_FLOAT.items()]
    found += [
        Case("to_bits", (F32,), U32, lambda x: struct.unpack("<I", struct.pack("<f", x))[0]),
        Case("clip8", (I32,), I32, lambda x: max(-128, min(127, x))),
        Case("from_bits", (U32,), F32, lambda x: struct.unpack("<f", struct.pack("<I", x))[0]),
    ]
    found += [Case(f, (d,) * arity(f), d, oracle) for d in INTEGERS for f, oracle in INTEGER.items()]
    found += [Case(f, (BOOL,) * arity(f), BOOL, oracle) for f, oracle in LOGICAL.items()]
    found += [Case(f, (d, d), BOOL, oracle) for d in NUMBERS for f, oracle in COMPARISONS.items()]
    found += [Case(f, (BOOL, BOOL), BOOL, COMPARISONS[f]) for f in ("eq", "ne")]
    found += [Case("select", (BOOL, d, d), d, lambda c, a, b: a if c else b) for d in COMPUTED]
    return found + [Case("cast", (s,), t, cast(s, t)) for s in COMPUTED for t in COMPUTED if s is not t]


CASES = cases()


def assert_equal(case: Case, found: np.ndarray[Any, Any]) -> None:
    expected = case.expected()
    assert found.size == len(expected)
    rows = itertools.product(*(values(dtype) for dtype in case.operands))
    wrong = [
        (row, got, want)
        for row, got, want in zip(rows, found.ravel().tolist(), expected, strict=True)
        if not equal(case, got, want)
    ]
    assert wrong == []


def equal(case: Case, got: Any, want: Any) -> bool:
    if not isinstance(want, float):
        return got == want
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if got == want:
        return math.copysign(1.0, got) == math.copysign(1.0, want)
    if math.isinf(want) or math.isinf(got):
        return False
    unit = float(np.spacing(storage_dtype(case.result).type(abs(want))))
    return abs(got - want) <= case.ulps * unit


def test_every_function_of_the_tree_has_a_case() -> None:
    functions = {name for name, value in vars(tree).items() if inspect.isfunction(value) and not name.startswith("_")}
    builders = functions - {"literal", "substitute", "dataclass"}
    # Those of more operands have tests of their own, such as `test_fma.py`, `test_dot4.py` and `test_scale.py`.
    elsewhere = {"fma", "dot4", "sdot4", "dot2", "widen", "word", "scale", "requantise"}
    assert builders == {case.function for case in CASES} | elsewhere


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numpy_gives_the_meaning_of(case: Case) -> None:
    count = len(case.operands)
    inputs = [
        np.array(values(dtype), dtype=storage_dtype(dtype)).reshape([-1 if axis == i else 1 for axis in range(count)])
        for i, dtype in enumerate(case.operands)
    ]
    out = np.empty([array.size for array in inputs], dtype=storage_dtype(case.result))

    compile_program(case.program)(inputs, out)

    assert_equal(case, out)


# --- C -------------------------------------------------------------------------------------------------------------


def c_array(dtype: DType) -> str:
    texts = ", ".join(c_renderer.literal_text(dtype, value) for value in values(dtype))
    return f"static const {c_renderer.c_type(dtype)} v_{dtype}[] = {{{texts}}};\n"


def c_source() -> str:
    helpers: set[str] = set()
    bodies: list[str] = []
    for number, case in enumerate(CASES):
        letters = "ijk"[: len(case.operands)]
        texts = {
            n: f"v_{dtype}[{letter}]" for n, (dtype, letter) in enumerate(zip(case.operands, letters, strict=True))
        }
        fragment = c_renderer.render(case.program, texts)
        helpers.update(fragment.helpers)
        loops = "".join(
            f"for (size_t {letter} = 0; {letter} < sizeof v_{dtype} / sizeof v_{dtype}[0]; {letter}++) {{\n"
            for dtype, letter in zip(case.operands, letters, strict=True)
        )
        statements = "\n".join(fragment.statements)
        bodies.append(
            f"static void case_{number}(void) {{ {loops}{statements}\n"
            f"const {c_renderer.c_type(case.result)} r = {fragment.result};\n"
            f"fwrite(&r, sizeof r, 1, stdout);\n{'}' * len(letters)} }}\n"
        )
    arrays = "".join(map(c_array, COMPUTED))
    calls = "".join(f"case_{number}();\n" for number in range(len(CASES)))
    includes = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint", "stdio"))
    functions = c_renderer.helper_source(helpers)
    return f"{includes}{functions}\n{arrays}\n{''.join(bodies)}\nint main(void) {{ {calls} return 0; }}\n"


@pytest.fixture(scope="module")
def c_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray[Any, Any]]:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on this machine: generated C cannot be compiled")
    folder = tmp_path_factory.mktemp("c")
    (folder / "functions.c").write_text(c_source())
    command = [compiler, *C_FLAGS, "-o", "functions", "functions.c", "-lm"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s(300))
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run([str(folder / "functions")], capture_output=True, timeout=limit_s(120))
    assert ran.returncode == 0, ran.stderr[:4000]
    return split(ran.stdout)


def split(output: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """Return the results of each case from the bytes that the program wrote, in order of the cases."""
    results: dict[str, np.ndarray[Any, Any]] = {}
    place = 0
    for case in CASES:
        dtype = storage_dtype(case.result)
        count = math.prod(len(values(operand)) for operand in case.operands)
        results[str(case)] = np.frombuffer(output, dtype, count, place)
        place += count * dtype.itemsize
    assert place == len(output)
    return results


@pytest.mark.parametrize("case", CASES, ids=str)
def test_c_gives_the_meaning_of(case: Case, c_results: dict[str, np.ndarray[Any, Any]]) -> None:
    assert_equal(case, c_results[str(case)])


def test_types_that_generated_c_does_not_support_are_named() -> None:
    foreign = dataclasses.replace(dtype_named("i4"), name="i3", bits=3)

    with pytest.raises(tree.ExprError, match="no element type i3"):
        c_renderer.c_type(foreign)


@pytest.mark.parametrize("name", ["f16", "i4", "bitset", "t2"])
def test_c_computes_in_no_type_that_has_to_be_widened(name: str) -> None:
    x = tree.Input(0, dtype_named(name))
    narrow = linearise(tree.Apply("add", (x, x), x.dtype))

    with pytest.raises(tree.ExprError, match=f"add cannot be computed in {name}"):
        c_renderer.render(narrow, {0: "x"})
