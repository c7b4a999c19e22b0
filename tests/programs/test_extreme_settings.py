"""Settings, loop bounds and sizes near and past 64 bits: the right result, or an error that names what is wrong."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import BY_NAME, F32
from openinfer.errors import OpenInferError, SynthesisError, ValidationError
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.examples import operand_type
from openinfer.ops.schema import OpTypeError, Required, SettingType
from openinfer.ops.windows import Window
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.simulate import Simulator
from openinfer.simulate.devices.binding import Binder
from openinfer.synth import Synthesizer
from openinfer.validate import resolve
from openinfer_backend_cpu.backend import CpuBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpExample, OpSchema, SettingSpec

ENVIRONMENT = Environment.default()
CPU = CpuBackend()
BINDER = Binder(ENVIRONMENT, kernel_table(ENVIRONMENT, ENVIRONMENT.devices["cpu"]), CPU)
NUMBERS = {
    SettingType.INT,
    SettingType.FLOAT,
    SettingType.NUMBER,
    SettingType.SCALAR,
    SettingType.INT_LIST,
    SettingType.INT_OR_LIST,
    SettingType.FLOAT_OR_LIST,
    SettingType.PADDING,
}
PAST_MEMORY = (2**62, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**64) - 1, 2**70)
"""Numbers of elements that no machine holds: what allocates so many ends at once."""

EXTREMES = (0, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 1 - 2**63, 2**64 - 1, *PAST_MEMORY)

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
DEVICES = ["cpu", pytest.param("c", marks=needs_compiler)]


def variants(example: OpExample, spec: SettingSpec, number: int) -> Iterator[Any]:
    """Yield what a setting may be with a number in it: alone, in one place of the list that it is, in all of them."""
    given = example.settings.get(spec.name, None if isinstance(spec.default, Required) else spec.default)
    yield number
    if isinstance(given, tuple):
        yield from ((*given[:place], number, *given[place + 1 :]) for place in range(len(given)))
    length = len(given) if isinstance(given, tuple) else 2
    yield (number,) * length


def calls(schema: OpSchema, numbers: tuple[int, ...]) -> Iterator[OpCall]:
    """Yield what an operator takes of its examples, each number in each setting in turn."""
    for example in schema.examples:
        name = next(n for n in ("f32", "i32", "u8", *schema.dtypes) if n in (example.dtypes or schema.dtypes))
        inputs = [None if each is None else operand_type(each, BY_NAME[name], BY_NAME) for each in example.inputs]
        declared = [operand_type(each, BY_NAME[name], BY_NAME) for each in example.outputs]
        for spec in schema.settings:
            for value in (v for number in numbers for v in variants(example, spec, number) if spec.type in NUMBERS):
                try:
                    yield call_of(schema, inputs, {**example.settings, spec.name: value}, declared)
                except OpTypeError:
                    continue


@pytest.mark.parametrize("op", sorted(ENVIRONMENT.ops))
def test_rules_for_shapes_end_with_types_that_exist_or_an_error(op: str) -> None:
    for call in calls(ENVIRONMENT.op(op), EXTREMES):
        assert all(extent >= 0 for made in call.outputs for extent in made.shape)
        assert all(made.fits for made in call.outputs)


@pytest.mark.parametrize("op", sorted(ENVIRONMENT.ops))
def test_kernels_compute_with_such_settings_or_find_no_memory(op: str) -> None:
    for call in calls(ENVIRONMENT.op(op), PAST_MEMORY):
        if sum(made.count for made in call.outputs) > 10_000:
            continue
        inputs = [None if given is None else CPU.allocate(given) for given in call.inputs]
        with np.errstate(all="ignore"):
            try:
                BINDER.bind(call, inputs, [CPU.allocate(made) for made in call.outputs])()
            except (OpenInferError, MemoryError):
                continue


@pytest.mark.parametrize("seed", range(4))
def test_windows_that_always_read_are_distinguished_from_others(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(2000):
        size, kernel, stride, dilation, before, positions = map(int, random.integers(0, 8, 6))
        window = Window(
            size=size,
            kernel=kernel,
            stride=stride + 1,
            dilation=dilation + 1,
            before=before,
            after=0,
            positions=positions,
        )
        reads = all(any(0 <= place < size for place in window.places(p)) for p in range(positions))
        assert window.always_reads is reads, window


def test_a_large_window_is_judged_at_once() -> None:
    many = 2**62
    window = Window(size=5, kernel=many, stride=1, dilation=1, before=many - 1, after=many - 1, positions=many + 4)

    assert window.always_reads
    assert not Window(size=5, kernel=2, stride=1, dilation=many, before=many, after=0, positions=many).always_reads


def test_a_padded_image_has_places_that_64_bits_count() -> None:
    inputs = [TensorType(F32, (1, 1, 7)), TensorType(F32, (1, 1, 3)), None]
    schema = ENVIRONMENT.op("conv1d")

    assert call_of(schema, inputs, {"dilation": 2**62 - 5, "padding": "same_upper"}).outputs[0].shape == (1, 1, 7)
    with pytest.raises(OpTypeError, match="places that a dim may have") as caught:
        call_of(schema, inputs, {"dilation": 2**62, "padding": "same_upper"})
    assert caught.value.code == "too-large"

    pictures = [TensorType(F32, (1, 1, 3, 3)), TensorType(F32, (1, 1, 3, 3)), None]
    with pytest.raises(OpTypeError, match="3 elements and 3 taps add to") as caught:
        call_of(ENVIRONMENT.op("conv_transpose2d"), pictures, {"dilation": 2**62, "padding": "same_upper"})
    assert caught.value.code == "too-large"


PADDED = {
    "conv1d(x, w, dilation={far}, padding=[{far}, 0])": [1, 2, 3, 4],
    "conv1d(x, w, dilation={far}, padding=[0, {far}])": [1, 2, 3, 4],
    "conv1d(x, w, stride={far}, padding=[{far}, {far}])": [0, 3, 0],
    "conv2d(x, v, dilation=[{far}, 1], padding=[{far}, 0, 0, 0])": [1, 2, 3, 4],
    "conv_transpose2d(x, v, dilation=[{far}, 1], padding=[{far}, 0, 0, 0])": [1, 2, 3, 4],
    "max_pool1d(x, kernel=2, dilation={far}, padding=[{far}, 0])": [1, 2, 3, 4],
}
"""Calls on the image [1, 2, 3, 4] and taps of 1 with far more padding than any memory holds, and their results."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("far", [2**31, 2**40, 2**60])
@pytest.mark.parametrize("call", PADDED)
def test_padding_that_no_memory_holds_is_zeros(device: str, far: int, call: str) -> None:
    found = PADDED[call]
    shape = "1, 1, 4, 1" if "2d" in call else f"1, 1, {len(found)}"
    text = f"""
        dynamic {{ x: f32[{"1, 1, 4, 1" if "2d" in call else "1, 1, 4"}]; w: f32[1, 1, 2]; v: f32[1, 1, 2, 1]; }}
        volatile {{ y: f32[{shape}]; }}
        block entry {{ op {call.format(far=far)} >> y; return y; }}
    """
    with Simulator(oi.Model.from_arrays({}), graph(text), device=device).make_executor() as executor:
        x = np.arange(1, 5, dtype=np.float32).reshape((1, 1, 4, 1) if "2d" in call else (1, 1, 4))
        executor.step(x=x, w=np.ones((1, 1, 2), np.float32), v=np.ones((1, 1, 2, 1), np.float32))
        assert executor.fetch("y").ravel().tolist() == found


def program(statements: str, declared: str = "") -> str:
    return (
        f"dynamic {{ x: f32[4]; n: i64; }} {declared} volatile {{ y: f32[1]; turns: i64; }} "
        f"block entry {{ {statements} return y, turns; }}"
    )


def stepped(text: str, device: str, n: int = 0) -> tuple[list[float], int]:
    model = oi.Model.from_arrays({}, sizevars={"N": 2**40})
    with Simulator(model, graph(text), device=device).make_executor() as executor:
        executor.step(x=np.arange(4, dtype=np.float32), n=n)
        return executor.fetch("y").tolist(), int(executor.fetch("turns"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("start", "end", "step", "found"),
    [
        (0, 4, 2**63 - 1, 0.0),
        (3, -(2**63), -(2**63), 3.0),
        (-1, -(2**63), -(2**63) + 1, 3.0),
        (-(2**63), 2**63 - 1, 2**63 - 1, 0.0),
        (2, 3, 2**40, 2.0),
    ],
)
def test_a_slice_takes_steps_of_any_size(device: str, start: int, end: int, step: int, found: float) -> None:
    statement = f"op slice(x, starts=[{start}], ends=[{end}], steps=[{step}]) >> y;"

    assert stepped(program(statement), device) == ([found], 0)


LOOP = "loop l (i in {0}) {{ op add(turns, i) >> turns; }}"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("bounds", "n", "turns"),
    [("n..n+1", 2**63 - 2, 2**63 - 2), ("n..n+1", -(2**63), -(2**63)), ("n*n..0", 2**31, 0)],
)
def test_loops_reach_the_ends_of_64_bits(device: str, bounds: str, n: int, turns: int) -> None:
    assert stepped(program(LOOP.format(bounds)), device, n) == ([0.0], turns)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("bounds", "n"), [("n*n..n*n+2", 2**62), ("n..n+1", 2**63 - 1), ("n-1..n", -(2**63)), ("N*N..N*N+1", 0)]
)
def test_bounds_of_loops_past_64_bits_are_an_error_with_the_loop(device: str, bounds: str, n: int) -> None:
    with pytest.raises(OpenInferError, match="64 bits") as caught:
        stepped(program(LOOP.format(bounds)), device, n)

    assert caught.value.code in ("integer-range", "unsupported")


@pytest.mark.parametrize(
    ("outer", "inner", "at"),
    [("0..9", "0..i*N*N", "at i = 8"), ("0..N", "i*N..5", "at i = 1099511627775"), ("0..9", "0-i*N*N..0", "at i = 8")],
)
def test_bounds_that_outer_indices_take_past_64_bits_are_found_before_the_program_runs(
    outer: str, inner: str, at: str
) -> None:
    text = program(f"loop k (i in {outer}) {{ loop l (j in {inner}) {{ barrier; }} }}")
    with pytest.raises(ValidationError, match=f"{at}, which does not fit 64 bits") as caught:
        resolve(graph(text), oi.Model.from_arrays({}, sizevars={"N": 2**40}), environment=ENVIRONMENT)
    assert caught.value.code == "integer-range"


def test_an_index_of_a_loop_that_never_runs_takes_no_bound_anywhere() -> None:
    text = program("loop k (i in 5..5) { loop l (j in 0..i*N*N) { barrier; } }")
    assert resolve(graph(text), oi.Model.from_arrays({}, sizevars={"N": 2**40}), environment=ENVIRONMENT)


TYPES = {"f32[N]": "too-large", "u8[N,1000]": "too-large", "t1[N,9]": "too-large", "f64[N,1048576]": "bad-dim"}
WHERE = {
    "volatile": ("op identity(big) >> other;", "volatile { big: T; other: T; }"),
    "initial": ("op identity(big) >> other;", "volatile { big: T @init(1); other: T; }"),
    "constant": ("op identity(big) >> other;", "constant { big: T @init(1); } volatile { other: T; }"),
    "dynamic": ("op identity(big) >> other;", "dynamic { big: T @init(1); } volatile { other: T; }"),
    "temporary": ("assign big: T; op identity(big) >> big;", ""),
    "output": ("op expand(one, shape=S) >> other;", "volatile { one: E; other: T; }"),
    "table": ("cache.read C[0] >> other;", "persistent { C(t): T @table; } volatile { other: T; }"),
    "cache": ("cache.write big >> c; cache.read c >> big;", "persistent { c: T; } volatile { big: T; }"),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", TYPES)
def test_what_no_memory_holds_is_too_large_wherever_it_is(where: str, kind: str, device: str) -> None:
    statements, declared = WHERE[where]
    element, shape = kind[: kind.index("[")], kind[kind.index("[") :]
    number = "1.0" if element.startswith("f") else "1"
    text = program(statements, declared).replace("T", kind).replace("E;", f"{element}[1];").replace("=S)", f"={shape})")

    with pytest.raises(OpenInferError) as caught:
        stepped(text.replace("@init(1)", f"@init({number})"), device)

    assert caught.value.code == TYPES[kind]


@pytest.mark.parametrize("n", [2**42, 2**62, 2**63 - 1])
def test_a_cache_that_grows_past_memory_is_too_large(n: int) -> None:
    declared = "persistent { A(i): f32[2] @auto_dim(i); }"

    with pytest.raises(OpenInferError, match=r"cache.read A\[n\]") as caught:
        stepped(program("assign t: f32[2]; cache.read A[n] >> t;", declared), "cpu", n)

    assert caught.value.code == "too-large"


def test_data_that_no_memory_holds_is_too_large_for_a_synth_target_too() -> None:
    declared = "constant { big: u8[N,1000] @init(1); } volatile { y: u8[N,1000]; }"
    text = f"{declared} block entry {{ op identity(big) >> y; return y; }}"
    model = oi.Model.from_arrays({}, sizevars={"N": 2**40})

    with pytest.raises(SynthesisError, match="the data of `big`, u8") as caught:
        Synthesizer("c").synthesize(model, graph(text))

    assert caught.value.code == "too-large"


@needs_compiler
def test_a_convolution_with_a_huge_dilation_reads_what_lies_in_the_image() -> None:
    text = """
    dynamic { x: f32[1, 1, 5, 5]; w: f32[1, 1, 3, 3]; }
    block entry { op conv2d(x, w, dilation=1099511627776, padding=1099511627776) >> y; return y; }
    """
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    w = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    with Simulator(oi.Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=x, w=w)
        np.testing.assert_array_equal(executor.outputs()["y"], x * w[0, 0, 1, 1])


@needs_compiler
@pytest.mark.parametrize("device", ["cpu", "c"])
@pytest.mark.parametrize(("pool", "reduce"), [("max_pool2d", np.max), ("avg_pool2d", np.mean)])
def test_the_taps_of_a_huge_pool_that_never_reach_the_image_take_no_time(pool: str, reduce: Any, device: str) -> None:
    text = f"""
    dynamic {{ x: f32[1, 1, 4, 4]; }}
    block entry {{ op {pool}(x, kernel=2147483648, padding=1073741824) >> y; return y; }}
    """
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    with Simulator(oi.Model.from_arrays({}), graph(text), device=device).make_executor() as executor:
        executor.step(x=x)
        # One window lies around the whole image, wherever it is.
        np.testing.assert_array_equal(executor.outputs()["y"], np.full((1, 1, 5, 5), reduce(x)))


def test_the_taps_of_a_window_that_reach_the_image() -> None:
    choices = itertools.product(range(1, 5), range(1, 5), range(1, 4), range(1, 4), range(5), range(1, 4))
    for size, kernel, stride, dilation, before, positions in choices:
        window = Window(
            size=size, kernel=kernel, stride=stride, dilation=dilation, before=before, after=0, positions=positions
        )
        starts = [position * stride - before for position in range(positions)]
        reached = {tap for tap in range(kernel) if any(0 <= start + tap * dilation < size for start in starts)}

        assert reached <= {*window.reading}
        if stride == dilation == 1:
            assert len(window.reading) == len(reached)
