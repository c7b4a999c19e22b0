"""Each of the 23 element types on its way through a program: from the host, from text, through operators, to files."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dsl.builder import GraphBuilder
from openinfer.dtypes import BY_NAME
from openinfer.errors import ExecutionError
from openinfer.serialize import GraphDeserialize, GraphSerialize, trace_to_json
from openinfer.simulate import Executor, Simulator, Snapshot

Array: TypeAlias = "np.ndarray[Any, Any]"

FLOATS = {
    "f8": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
GREATEST = {"f8": 57344.0, "bf16": (2 - 2.0**-7) * 2.0**127, "f16": 65504.0}
GREATEST |= {"f32": (2 - 2.0**-23) * 2.0**127, "f64": (2 - 2.0**-52) * 2.0**1023}
LIMITS = {"bool": (0, 1), "bitset": (0, 255), "t1": (-1, 1), "t2": (-1, 1)}
for bits in (1, 2, 4, 8, 16, 32, 64):
    LIMITS |= {f"i{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1), f"u{bits}": (0, (1 << bits) - 1)}
NAMES = sorted([*FLOATS, *LIMITS])
WIDTHS = {"f8": 8, "bf16": 16, "bool": 8, "bitset": 8} | {name: int(name[1:]) for name in NAMES if name[1:].isdigit()}

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
UNSATURATED = 'op cast(x, to=t1, rounding_mode="%s", saturate=false) >> y;'
EVERY = pytest.mark.parametrize("name", NAMES)


@pytest.mark.rule("dtypes.types.1")
def test_these_are_all_types() -> None:
    assert {dtype.name: dtype.bits for dtype in BY_NAME.values()} == WIDTHS
    assert len(NAMES) == 23


def storage(name: str) -> np.dtype[Any]:
    """Return the NumPy type in which the host passes elements; packed types: one byte an element."""
    if name in FLOATS:
        return np.dtype(FLOATS[name])
    if name == "bool":
        return np.dtype(np.bool_)
    low, _ = LIMITS[name]
    return np.dtype(f"{'int' if low < 0 else 'uint'}{max(WIDTHS[name], 8)}")


def values(name: str) -> Array:
    """Return every value of a type up to 8 bits wide, and of others those at which rules change."""
    if name == "f8":
        return np.arange(256, dtype=np.uint8).view(FLOATS[name])
    if name in FLOATS:
        some = [0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 7.5, 127.5, 255.5, 300.0, 2.0**31, 2.0**63, 2.0**70]
        all_ = [*some, *(-x for x in some), GREATEST[name], -GREATEST[name], math.inf, -math.inf, math.nan]
        with np.errstate(over="ignore"):
            return np.array(all_).astype(FLOATS[name])
    low, high = LIMITS[name]
    if name == "t1":
        return np.array([-1, 1, 1, -1, 1], np.int8)
    if high - low < 256:
        return np.arange(low, high + 1).astype(storage(name))
    near = (low, low + 1, -129, -128, -2, -1, 0, 1, 2, 127, 128, 255, 256, high // 2, high - 1, high)
    return np.array([v for v in near if low <= v <= high], storage(name))


def code(name: str, value: int) -> int:
    """Return the bits of an integer element."""
    return (value + 1) // 2 if name == "t1" else value & ((1 << WIDTHS[name]) - 1)


def packed(name: str, elements: list[int]) -> bytes:
    """Return the storage of elements: a little-endian stream of bits, unused ones zero."""
    width = WIDTHS[name]
    stream = sum(code(name, value) << (number * width) for number, value in enumerate(elements))
    return stream.to_bytes(-(-len(elements) * width // 8), "little")


def executor(text: str, **options: Any) -> Executor:
    return Simulator(oi.Model.from_arrays({}), graph(text), **options).make_executor()


def same(found: Any, expected: Array) -> bool:
    """Return whether two arrays have one type and shape, and the same bits, except for NaN."""
    a, b = np.asarray(found), np.asarray(expected)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    wide, other = a.astype(np.float64), b.astype(np.float64)
    equal = (wide == other) & (np.signbit(wide) == np.signbit(other))
    return bool((equal | (np.isnan(wide) & np.isnan(other))).all())


# From the host and back


@pytest.mark.rule("dtypes.types.3")
@EVERY
def test_inserted_values_are_fetched(name: str) -> None:
    given = values(name)
    ex = executor(
        f"dynamic {{ x: {name}[{len(given)}]; }} volatile {{ y: {name}[{len(given)}]; }}"
        " block entry { transfer x >> y; return; }"
    )
    ex.step(x=given)
    assert same(ex.fetch("y"), given)
    assert ex.fetch_raw("y").dtype is BY_NAME[name]


@pytest.mark.rule("dtypes.packing.1", "dtypes.packing.3")
@pytest.mark.parametrize("name", [n for n in NAMES if WIDTHS[n] < 8])
def test_packed_elements_lie_in_the_bits_that_the_specification_says(name: str) -> None:
    given = np.concatenate([values(name), values(name)[:3]])
    ex = executor(
        f"volatile {{ y: {name}[{len(given)}]; }} dynamic {{ x: {name}[{len(given)}]; }} block entry {{"
        " transfer x >> y; return; }"
    )
    ex.step(x=given)
    assert ex.fetch_raw("y").storage.tobytes() == packed(name, given.tolist())


@pytest.mark.rule("dtypes.packing.6", "dtypes.types.3")
@pytest.mark.parametrize("name", [n for n in NAMES if n in LIMITS and n != "bool"])
def test_values_beyond_the_limits_are_refused(name: str) -> None:
    ex = executor(f"dynamic {{ x: {name}; }} block entry {{ return; }}")
    low, high = LIMITS[name]
    for wrong in (low - 1, high + 1):
        with pytest.raises(oi.DTypeError, match="x"):
            ex.insert(x=wrong)
    if name == "t1":
        with pytest.raises(oi.DTypeError, match="x"):
            ex.insert(x=0)


# Initial values, graph files


def initial_values(name: str) -> dict[str, str]:
    """Return what may be written in `@init`: the text by the variable's name."""
    if name in FLOATS:
        return {"low": repr(-GREATEST[name]), "high": repr(GREATEST[name]), "inf_": "inf", "nan_": "nan", "half": "0.5"}
    if name == "bool":
        return {"low": "false", "high": "true"}
    low, high = LIMITS[name]
    return {"low": str(low), "high": str(high)}


def program_of_initial_values(name: str) -> str:
    declared = " ".join(f"{v}: {name}[3] @init({text});" for v, text in initial_values(name).items())
    return f"volatile {{ {declared} none: {name}[3]; }} block entry {{ return; }}"


def check_initial_values(ex: Executor, name: str) -> None:
    ex.step()
    for variable, text in initial_values(name).items():
        value = {"true": True, "false": False}.get(text)
        expected = np.full(3, float(text) if name in FLOATS else int(text) if value is None else value)
        assert same(ex.fetch(variable), expected.astype(storage(name))), variable
    assert same(ex.fetch("none"), np.full(3, -1 if name == "t1" else 0).astype(storage(name)))


@pytest.mark.rule("dtypes.types.3")
@EVERY
def test_initial_values_reach_the_limits(name: str) -> None:
    check_initial_values(executor(program_of_initial_values(name)), name)


@pytest.mark.rule("dtypes.packing.6")
@pytest.mark.parametrize("name", [n for n in NAMES if n in LIMITS and n != "bool"])
def test_initial_values_beyond_the_limits_are_refused(name: str) -> None:
    for wrong in (LIMITS[name][0] - 1, LIMITS[name][1] + 1):
        with pytest.raises(oi.OpenInferError) as found:
            executor(f"volatile {{ x: {name} @init({wrong}); }} block entry {{ return; }}")
        assert str(wrong) in str(found.value)


@EVERY
def test_graph_files_keep_initial_values(name: str) -> None:
    written = graph(program_of_initial_values(name))
    document = json.loads(json.dumps(GraphSerialize.json(written)))
    read = GraphDeserialize.from_json(document)
    assert GraphSerialize.json(read) == GraphSerialize.json(written)
    check_initial_values(Simulator(oi.Model.from_arrays({}), read).make_executor(), name)


# Conversion

MODES = (
    "trunc",
    "floor",
    "down",
    "ceil",
    "up",
    "nearest",
    "half_away",
    "half_even",
    "half_odd",
    "half_up",
    "half_down",
)


def whole(value: float, mode: str) -> int:
    """Return a finite number as a whole one."""
    below = math.floor(value)
    rest = Fraction(value) - below
    if mode in ("floor", "down"):
        return below
    if mode in ("ceil", "up"):
        return math.ceil(value)
    if mode == "trunc":
        return math.trunc(value)
    if rest != Fraction(1, 2):
        return below + (rest > Fraction(1, 2))
    if mode in ("half_even", "half_odd"):
        return below + ((below % 2 == 1) == (mode == "half_even"))
    return below + {"half_up": True, "half_down": False}.get(mode, value > 0)


def converted(given: Array, source: str, target: str, mode: str, *, saturate: bool) -> Array:
    """Return what `cast` is to make of values (``specification: dtypes.conversion``)."""
    exact = [float(v) if source in FLOATS else int(v) for v in given.astype(object)]
    with np.errstate(all="ignore"):
        if target in FLOATS:
            rounded = np.array(exact, np.float64)
            return (rounded.astype(np.float32) if WIDTHS[target] < 32 else rounded).astype(FLOATS[target])
    if target == "bool":
        return np.array([v != 0 for v in exact])
    return np.array([integer(v, target, mode, saturate=saturate) for v in exact], storage(target))


def integer(value: float, target: str, mode: str, *, saturate: bool) -> int:
    low, high = LIMITS[target]
    if isinstance(value, float) and not math.isfinite(value):
        clips = saturate or target == "t2"
        number = 0 if math.isnan(value) or not clips else high if value > 0 else low
    else:
        number = whole(value, mode) if isinstance(value, float) else value
    if target == "t1":
        return 1 if number >= 0 else -1
    if saturate or target == "t2":
        return min(max(number, low), high)
    return (number - low) % (1 << WIDTHS[target]) + low


def conversions(source: str) -> list[tuple[str, str, bool]]:
    found: list[tuple[str, str, bool]] = []
    for target, mode, saturate in itertools.product(NAMES, MODES, (True, False)):
        matters = source in FLOATS and target in LIMITS and target != "bool"
        if (matters or mode == "trunc") and (saturate or target != "t1"):
            found.append((target, mode, saturate))
    return found


@pytest.mark.rule("dtypes.conversion.1", "dtypes.conversion.2", "dtypes.conversion.3")
@EVERY
def test_every_conversion_follows_its_rounding_and_saturation(name: str) -> None:
    given, wanted, builder = values(name), conversions(name), GraphBuilder()
    builder.dynamic("x", name, [len(given)])
    for number, (target, _, _) in enumerate(wanted):
        builder.volatile(f"y{number}", target, [len(given)])
    with builder.block("entry"):
        for number, (target, mode, saturate) in enumerate(wanted):
            settings: dict[str, Any] = {"to": BY_NAME[target], "rounding_mode": mode, "saturate": saturate}
            builder.op("cast", "x", outputs=[f"y{number}"], settings=settings)
        builder.return_()
    ex = Simulator(oi.Model.from_arrays({}), builder.build()).make_executor()
    ex.step(x=given)
    for number, (target, mode, saturate) in enumerate(wanted):
        expected = converted(given, name, target, mode, saturate=saturate)
        assert same(ex.fetch(f"y{number}"), expected), f"{name} to {target}, {mode}, saturate={saturate}"


@pytest.mark.rule("dtypes.conversion.4")
@EVERY
@pytest.mark.parametrize("device", ["cpu", pytest.param("c", marks=needs_compiler)])
def test_t1_takes_what_has_a_sign_and_nothing_else_unless_it_saturates(name: str, device: str) -> None:
    given = values(name)
    exact = [float(v) if name in FLOATS else int(v) for v in given.astype(object)]
    every = MODES if device == "cpu" else ["half_even"]  # each is a program to compile
    for mode in every if name in FLOATS else ["trunc"]:
        text = f"dynamic {{ x: {name}[2]; }} volatile {{ y: t1[2]; }} block entry {{ {UNSATURATED % mode} return y; }}"
        with executor(text, device=device) as ex:
            signs = [0 if math.isnan(v) else whole(v, mode) if math.isfinite(v) else v for v in exact]
            signed = [n for n, sign in enumerate(signs) if sign]
            for n, sign in enumerate(signs):
                step = partial(ex.step, x=given[[signed[0] if signed else n, n]])
                if sign:
                    step()
                    assert ex.fetch("y").tolist()[1] == (1 if sign > 0 else -1)
                    continue
                with pytest.raises(ExecutionError) as caught:
                    step()
                assert caught.value.code == "out-of-range"
                assert "cast" in str(caught.value)


def test_an_element_without_a_sign_is_named() -> None:
    memory = "dynamic { x: f32[2, 2]; } volatile { y: t1[2, 2]; }"
    ex = executor(f"{memory} block entry {{ {UNSATURATED % 'trunc'} return; }}")

    with pytest.raises(
        ExecutionError, match=r"cast of f32\[2,2\] to t1: -0\.5 at \[1, 0\] has no sign: .* rounds to 0"
    ):
        ex.step(x=np.array([[1, -2], [-0.5, np.nan]], np.float32))


@pytest.mark.rule("dtypes.rounding.1")
@EVERY
def test_wider_types_lose_nothing(name: str) -> None:
    wide = "f64" if name in FLOATS else "i64" if LIMITS[name][0] < 0 else "u64"
    given = values(name)
    ex = executor(
        f"dynamic {{ x: {name}[{len(given)}]; }} volatile {{ w: {wide}[{len(given)}]; y: {name}[{len(given)}]; }}"
        f" block entry {{ op cast(x, to={wide}) >> w; op cast(w, to={name}) >> y; return; }}"
    )
    ex.step(x=given)
    assert same(ex.fetch("y"), given)


# Traces


@EVERY
def test_traces_show_operators_on_every_type(name: str) -> None:
    ex = executor(
        f"dynamic {{ x: {name}[3]; }} volatile {{ y: {name}[3]; z: bool[3]; }}"
        " block entry { op identity(x) >> y; op eq(x, y) >> z; return; }",
        trace=True,
    )
    ex.step(x=rows(name)[0])
    document = json.loads(json.dumps(trace_to_json(ex.trace())))
    reported = [(e["params"], e["output"]) for e in document if e["kind"] == "OpExecute"]
    assert reported == [(["x"], ["y"]), (["x", "y"], ["z"])]
    assert np.asarray(ex.fetch("z")).all()


# Persistent memory


def cache_program(name: str) -> str:
    return (
        f"dynamic {{ x: {name}[3]; i: i32 @init(0); }} volatile {{ y: {name}[2, 3]; }}"
        f" persistent {{ K(i): {name}[3] @table; kept: {name}[3]; }}"
        " block entry { cache.write x >> K[i]; cache.write x >> kept; cache.read K[1..3] >> y; return; }"
    )


def rows(name: str) -> Array:
    finite = values(name)[np.isfinite(values(name).astype(np.float64))]
    return np.resize(finite, (4, 3))


@pytest.mark.rule("dtypes.packing.4")
@EVERY
def test_ranges_of_a_cache_hold_what_was_written(name: str) -> None:
    ex, written = executor(cache_program(name)), rows(name)
    for i, row in enumerate(written):
        ex.step(x=row, i=i)
    assert same(ex.fetch("y"), written[1:3])
    assert same(ex.fetch("K"), written)
    assert same(ex.fetch("kept"), written[3])


@EVERY
def test_persistent_memory_goes_to_a_file_and_back(name: str, tmp_path: Path) -> None:
    ex, written = executor(cache_program(name)), rows(name)
    for i, row in enumerate(written):
        ex.step(x=row, i=i)
    ex.snapshot().save(tmp_path / "state.oinf")
    other = executor(cache_program(name))
    other.restore(Snapshot.load(tmp_path / "state.oinf"))
    assert same(other.fetch("K"), written)
    assert same(other.fetch("kept"), written[3])
    other.step(x=written[0], i=4)
    assert same(other.fetch("K"), np.concatenate([written, written[:1]]))


@EVERY
def test_model_files_hold_the_values(name: str, tmp_path: Path) -> None:
    given = values(name)
    ex = executor(
        f"dynamic {{ x: {name}[{len(given)}]; }} persistent {{ k: {name}[{len(given)}]; }}"
        " block entry { cache.write x >> k; return; }"
    )
    ex.step(x=given)
    ex.snapshot().save(tmp_path / "state.oinf")
    with oi.ModelLoader.open(tmp_path / "state.oinf") as model:
        info = model.var_info("k")
        assert info is not None
        assert info.dtype is BY_NAME["u8" if name == "bitset" else name]
        assert same(model.load_tensor("k"), given)
