"""Numbers in place of inputs give the bits that declared constants of the same type give."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer import Model, Simulator, graph
from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME, DType
from openinfer.scalars import check_fits, converted

MODEL = Model.from_arrays({})
DTYPES = [BY_NAME[name] for name in ("bf16", "f16", "f32", "f64", "i8", "u8", "i16", "i32", "i64", "u64")]
COUNT = 5


def literal(dtype: DType, number: float) -> str:
    """Return a number as a program writes it for a type."""
    return str(number) if not dtype.is_float else "nan" if math.isnan(number) else repr(float(number))


@st.composite
def operands(draw: st.DrawFn) -> tuple[DType, npt.NDArray[np.generic], list[str]]:
    """Draw a type, elements of it, and two literals that fit it."""
    dtype = draw(st.sampled_from(DTYPES))
    numbers = st.floats() if dtype.is_float else st.integers(dtype.minimum or 0, dtype.maximum or 0)
    fitting = numbers.filter(lambda number: check_fits(dtype, number) is None)
    elements = [converted(dtype, element) for element in draw(st.lists(fitting, min_size=COUNT, max_size=COUNT))]
    written = [literal(dtype, number) for number in draw(st.lists(fitting, min_size=2, max_size=2))]
    return dtype, np.array(elements).astype(storage_dtype(dtype)), written


def program(dtype: DType, declared: str, first: str, second: str) -> str:
    return f"""
dynamic {{ x: {dtype}[{COUNT}]; mask: bool[{COUNT}]; }}
volatile {{ {" ".join(f"{name}: {'bool' if name == 'd' else dtype}[{COUNT}];" for name in "abcde")} }}
{declared}
block entry {{
  op mul(x, {first}) >> a;
  op add({second}, a) >> b;
  op where(mask, {first}, x) >> c;
  op le(c, {second}) >> d;
  op max(b, {first}) >> e;
  loop twice (i in 0..2) {{ op sub(e, {second}) >> e; }}
  return a, b, c, d, e;
}}
"""


def step_bits(text: str, elements: npt.NDArray[np.generic], device: str) -> list[bytes]:
    mask = np.arange(COUNT) % 2 == 0
    with Simulator(MODEL, graph(text), device=device).make_executor() as executor, np.errstate(all="ignore"):
        executor.insert({"x": elements, "mask": mask})
        executor.step()
        return [np.asarray(executor.fetch(name)).tobytes() for name in "abcde"]


def both(dtype: DType, elements: npt.NDArray[np.generic], written: list[str], device: str) -> list[list[bytes]]:
    constants = f"constant {{ p: {dtype} @init({written[0]}); q: {dtype} @init({written[1]}); }}"
    texts = (program(dtype, "", *written), program(dtype, constants, "p", "q"))
    return [step_bits(text, elements, device) for text in texts]


@pytest.mark.rule("language.operators.7")
@settings(max_examples=15, deadline=None)
@given(operands())
def test_numbers_compute_what_declared_constants_compute(
    drawn: tuple[DType, npt.NDArray[np.generic], list[str]],
) -> None:
    numbers, constants = both(*drawn, "cpu")
    assert numbers == constants


@pytest.mark.parametrize(("dtype", "written"), [("f16", ["inf", "-0.1"]), ("u64", ["18446744073709551615", "3"])])
def test_so_does_generated_code(dtype: str, written: list[str]) -> None:
    elements = np.array([0, 1, 2, 3, 100]).astype(storage_dtype(BY_NAME[dtype]))
    numbers, constants = both(BY_NAME[dtype], elements, written, "c")
    assert numbers == constants
