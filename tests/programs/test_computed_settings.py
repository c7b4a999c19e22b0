"""Settings that a step computes from integers of 64 bits: the result of exact arithmetic, or an error, on devices."""

from __future__ import annotations

import shutil
from fractions import Fraction

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import OpenInferError

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
DEVICES = ["cpu", pytest.param("c", marks=needs_compiler), "vulkan"]
PLANNED = DEVICES[1:]
MODEL = oi.Model.from_arrays({}, sizevars={"T": 4})
X = np.arange(10, dtype=np.int64)


def places(a: int, b: int, c: int) -> dict[str, int]:
    """Return what expressions of settings are, by their text."""
    return {
        "(a+b)%c": (a + b) % c,
        "floor((a+b)/c)": (a + b) // c,
        "(6*a)/2": int(Fraction(6 * a, 2)),
        "a%c": a % c,
        "floor(a/b)%c": a // b % c,
        "(a+b)*(b+c)%5": (a + b) * (b + c) % 5,
        "floor(a*b/(b+c))": a * b // (b + c),
    }


def executor(device: str, statements: str, results: str, declared: str = "", x: str = "i64[10]") -> oi.Executor:
    inputs = f"dynamic {{ a: i64; b: i64; c: i64; x: {x}; }}"
    text = f"{inputs} {declared} block entry {{ {statements} return {results}; }}"
    return oi.Simulator(MODEL, text, device=device).make_executor()


@pytest.mark.parametrize("device", PLANNED)
def test_places_are_computed_as_exactly_as_with_numbers_in_python(device: str) -> None:
    texts = list(places(1, 1, 1))
    statements = [f"op slice(x, axes=[0], starts=[{text}], ends=[9]) >> y{n};" for n, text in enumerate(texts)]
    run = executor(device, " ".join(statements), ", ".join(f"y{n}" for n in range(len(texts))))

    for a, b, c in ((10, 3, 5), (4, 5, 7), (3, 1, 2), (0, 2, 1), (2**40, 3, 11), (2**61, 1, 3)):
        run.step(a=a, b=b, c=c, x=X)
        rows = dict(zip(texts, run.outputs().values(), strict=True))
        expected = {text: X[place:9].tolist() for text, place in places(a, b, c).items()}
        assert {text: row.tolist() for text, row in rows.items()} == expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("text", "values"),
    [("a%c", (-1, 0, 3)), ("a%c", (3, 0, 0)), ("floor(a/c)", (-4, 0, 2)), ("a/c", (7, 0, 2)), ("a*b", (2**62, 2, 0))],
)
def test_a_division_or_a_product_without_a_value_ends_the_step(device: str, text: str, values: tuple[int, ...]) -> None:
    run = executor(device, f"op slice(x, axes=[0], starts=[{text}], ends=[9]) >> y;", "y")
    run.step(a=4, b=1, c=2, x=X)

    with pytest.raises(OpenInferError):
        run.step(a=values[0], b=values[1], c=values[2], x=X)


@needs_compiler
def test_a_sum_of_settings_whose_range_has_more_than_64_bits_is_a_place_all_the_same() -> None:
    run = executor("c", "op range(start=2*a+b-c, limit=a*0+3) >> y;", "y", "volatile { y: i64[4]; }")

    run.step(a=0, b=0, c=1, x=X)

    assert run.outputs()["y"].tolist() == [-1, 0, 1, 2]


SHAPES = ["[a, -1]", "[a, b]", "[a, 2, -1]", "[floor(a/b), -1]"]


@pytest.mark.parametrize("device", PLANNED)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_from_memory_have_the_elements_in_order(device: str, shape: str) -> None:
    run, truth = (
        executor(place, f"op reshape(x, shape={shape}) >> y;", "y", x="i64[T, 3]") for place in (device, "cpu")
    )

    for a, b, rows in ((4, 3, 4), (2, 6, 4), (2, 1, 4), (6, 2, 4), (-1, 3, 4), (5, 2, 4), (0, 1, 4), (4, 1, 8)):
        given = {"a": a, "b": b, "c": 0, "x": np.arange(3 * rows, dtype=np.int64).reshape(rows, 3)}
        try:
            truth.step(**given)
        except OpenInferError:
            with pytest.raises(OpenInferError):
                run.step(**given)
            continue
        run.step(**given)
        np.testing.assert_array_equal(run.outputs()["y"], truth.outputs()["y"], strict=True)


@needs_compiler
def test_a_shape_from_memory_is_written_out_for_any_size() -> None:
    inputs = "dynamic { x: f32[T, 3]; a: i64; b: i64; }"
    shapes = ["[a, -1, b]", "[4, -1]", "[a*b, -1]"]
    statements = " ".join(f"op reshape(x, shape={shape}) >> y{n};" for n, shape in enumerate(shapes))
    text = f"{inputs} block entry {{ {statements} return y0; }}"

    for target in ("c", "vulkan"):
        assert oi.Synthesizer(target, limits={"T": 8}).synthesize(MODEL, text).bundle.files


@pytest.mark.parametrize("device", PLANNED)
def test_backwards_slices_of_one_place_are_those_of_python(device: str) -> None:
    run = executor(
        device,
        "op slice(x, axes=[0], starts=[a], ends=[b], steps=[-1]) >> y; "
        "op slice(x, axes=[0], starts=[a], ends=[a-1], steps=[-1]) >> z;",
        "y, z",
        x="i64[1]",
    )
    x = np.ones(1, np.int64)

    for a in (-2, -1, 0, 1, 9):
        for b in (-3, -1, 0, 1):
            run.step(a=a, b=b, c=0, x=x)
            rows = run.outputs()
            assert rows["y"].tolist() == x[a:b:-1].tolist()
            assert rows["z"].tolist() == x[a : a - 1 : -1].tolist()
