"""Containers with quant payloads, run by programs that say nothing of scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import BY_NAME, I8, DType
from openinfer.errors import ModelError, OpenInferError, ValidationError
from openinfer.model import Model, ModelLoader, Quantisation, VarInfo
from openinfer.simulate import Simulator
from openinfer_oinf import OinfWriter, QuantParams, QuantScale, QuantZeroPoint

RANDOM = np.random.default_rng(3)
SCALES, ZEROS = RANDOM.random(6).astype(np.float32) + np.float32(0.1), RANDOM.integers(-8, 8, 6).astype(np.int32)
CODES = {
    "perchannel": RANDOM.integers(-8, 8, (10, 6)).astype(np.int8),
    "pertensor": RANDOM.integers(-128, 128, (10, 6)).astype(np.int8),
    "rows": RANDOM.integers(0, 256, (10, 6)).astype(np.uint8),
    "L.0": RANDOM.integers(-128, 128, (6, 6)).astype(np.int8),
    "L.1": RANDOM.integers(-128, 128, (6, 6)).astype(np.int8),
}
TYPES = {"perchannel": "i4", "pertensor": "i8", "rows": "u8", "L.0": "i8", "L.1": "i8"}
QUANT = {
    "perchannel": QuantParams("asymmetric", QuantScale.per_channel(1, SCALES), QuantZeroPoint.per_channel(1, ZEROS)),
    "pertensor": QuantParams("symmetric", QuantScale.per_tensor(0.25)),
    "rows": QuantParams("symmetric", QuantScale.per_channel(0, np.arange(1, 11) / 8)),
    "L.0": QuantParams("symmetric", QuantScale.per_channel(1, SCALES)),
    "L.1": QuantParams("symmetric", QuantScale.per_channel(1, SCALES * 2)),
}
X = RANDOM.standard_normal((3, 10)).astype(np.float32)


def reals(name: str) -> np.ndarray:
    """Return what the integers of a tensor stand for, in f64."""
    quant = QUANT[name]
    axis, values = quant.scale.axis, quant.scale.values.astype(np.float64)
    zeros = np.zeros_like(values) if quant.zero_point is None else quant.zero_point.values
    spread = (-1, 1) if axis == 0 else (1, -1)
    return (CODES[name].astype(np.float64) - zeros.reshape(spread)) * values.reshape(spread)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    with OinfWriter(tmp_path / "m.oinf") as writer:
        for name, codes in CODES.items():
            writer.declare(name, TYPES[name], codes.shape, quant=QUANT[name])
        for name, codes in CODES.items():
            writer.write(name, codes)
    return ModelLoader.open(tmp_path / "m.oinf")


def run(model: Model, text: str, **inputs: np.ndarray) -> np.ndarray:
    executor = Simulator(model, graph(text)).make_executor()
    executor.step(**inputs)
    return np.asarray(executor.fetch("y"))


def product(declared: str, statement: str) -> str:
    return f"""
        dynamic {{ x: f32[3,10]; }} volatile {{ y: f32[3,6]; }} constant {{ {declared} }}
        block entry {{ op {statement} >> y; return; }}
    """


@pytest.mark.parametrize("name", ["perchannel", "pertensor", "rows"])
def test_a_float_variable_holds_the_reals(model: Model, name: str) -> None:
    found = run(model, product(f"{name}: f32[10,6];", f"matmul(x, {name})"), x=X)
    np.testing.assert_allclose(found, X @ reals(name), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f8", "bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["perchannel", "pertensor", "rows"])
def test_reals_are_those_of_dequantize_linear(model: Model, name: str, dtype: str) -> None:
    text = f"""
        volatile {{ y: {dtype}[10,6]; z: {dtype}[10,6]; }}
        constant {{ w: {dtype}[10,6] @ref("{name}"); {name}: {TYPES[name]}[10,6]; }}
        block entry {{ transfer w >> y; op dequantize_linear({name}) >> z; return; }}
    """
    executor = Simulator(model, graph(text)).make_executor()
    executor.step()
    np.testing.assert_array_equal(executor.fetch("y"), executor.fetch("z"))
    np.testing.assert_allclose(np.asarray(executor.fetch("y"), np.float64), reals(name), rtol=0.2, atol=1e-4)


@pytest.mark.parametrize(("name", "dtype"), [("perchannel", "i4"), ("pertensor", "i8")])
def test_qmatmul_takes_scales_and_zero_points_from_the_model(model: Model, name: str, dtype: str) -> None:
    found = run(model, product(f"{name}: {dtype}[10,6];", f"qmatmul(x, {name})"), x=X)
    np.testing.assert_allclose(found, X @ reals(name), rtol=1e-4, atol=1e-4)


def test_scales_that_are_given_take_precedence(model: Model) -> None:
    text = product("perchannel: i4[10,6]; s: f32 @init(2.0);", "qmatmul(x, perchannel, s)")
    np.testing.assert_allclose(run(model, text, x=X), X @ CODES["perchannel"].astype(np.float64) * 2, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["i8", "f32"])
def test_families_of_quantised_tensors(model: Model, dtype: str) -> None:
    op = "qmatmul" if dtype == "i8" else "matmul"
    text = f"""
        dynamic {{ y0: f32[3,6]; }} volatile {{ y: f32[3,6]; }}
        constant {{ W(l): {dtype}[6,6] @pattern("L.{{l}}"); }}
        block entry {{ transfer y0 >> y; loop layers (l in 0..2) {{ op {op}(y, W[l]) >> y; }} return; }}
    """
    given = RANDOM.standard_normal((3, 6)).astype(np.float32)
    expected = given @ reals("L.0") @ reals("L.1")
    np.testing.assert_allclose(run(model, text, y0=given), expected, rtol=1e-3, atol=1e-3 * abs(expected).max())


def test_the_parts_of_a_quantised_tensor_are_tensors(model: Model) -> None:
    np.testing.assert_array_equal(model.load_tensor("perchannel@scale"), SCALES)
    np.testing.assert_array_equal(model.load_tensor("perchannel@zero_point"), ZEROS)
    low, high = ZEROS[0::2] & 15, ZEROS[1::2] & 15
    assert model.load_raw("perchannel@zero_point").tolist() == (low | high << 4).tolist()
    assert model.var_info("pertensor@zero_point") is None
    assert model.load_tensor("pertensor@f32") is model.load_tensor("pertensor@f32")
    with pytest.raises(ModelError, match="no tensor 'pertensor@zero_point'"):
        model.load_tensor("pertensor@zero_point")


def test_a_program_may_name_the_parts(model: Model) -> None:
    text = product('w: i8[10,6] @ref("pertensor"); s: f32 @ref("pertensor@scale");', "qmatmul(x, w, s)")
    np.testing.assert_allclose(run(model, text, x=X), X @ reals("pertensor"), rtol=1e-4, atol=1e-3)


def test_scales_along_the_summed_dim_are_refused_with_a_way_out(model: Model) -> None:
    with pytest.raises(ValidationError, match=r"scales of `rows` along its dim 0, qmatmul takes them along dim 1 here"):
        run(model, product("rows: u8[10,6];", "qmatmul(x, rows)"), x=X)


def test_the_error_about_another_integer_type_says_what_to_declare(model: Model) -> None:
    with pytest.raises(ValidationError, match=r"it is quantised: declare its own type .* or a float for its reals"):
        run(model, product("pertensor: i4[10,6];", "qmatmul(x, pertensor)"), x=X)


def test_the_error_about_the_right_integer_type_in_another_shape_is_about_the_shape_alone(model: Model) -> None:
    with pytest.raises(ValidationError, match=r"declared i8\[6,10\], the model's `pertensor` is i8\[10,6\] \("):
        run(model, product("pertensor: i8[6,10];", "qmatmul(x, pertensor)"), x=X)


def test_weights_without_a_payload_need_a_scale() -> None:
    model = oi.Model.from_arrays({"w": np.zeros((10, 6), np.int8)})
    with pytest.raises(OpenInferError, match=r"i8\[10,6\]\) needs `scale`: w is not a constant with a quant payload"):
        run(model, product("w: i8[10,6];", "qmatmul(x, w)"), x=X)


def test_a_plain_integer_tensor_is_still_no_float() -> None:
    model = oi.Model.from_arrays({"w": np.zeros((10, 6), np.int8)})
    with pytest.raises(ValidationError, match=r"`w` is declared f32\[10,6\], the model's `w` is i8\[10,6\]$"):
        run(model, product("w: f32[10,6];", "matmul(x, w)"), x=X)


class Store:
    """A model format of a plugin: one tensor with a zero point of its own."""

    def __init__(self, dtype: DType, zero_point: int | list[int]) -> None:
        self.sizevars: dict[str, int] = {}
        self.metadata: dict[str, Any] = {}
        self.zero_point = np.array(zero_point, np.int32)
        info = VarInfo(name="w", dtype=dtype, shape=(2,), has_data=True, offset=None, nbytes=2, quantised=True)
        self.tensors = {info.name: info}

    def values(self, name: str) -> np.ndarray:
        return {"w": np.array([-128, 127], np.int8)}[name]

    def stored(self, name: str) -> np.ndarray:
        return self.values(name).view(np.uint8)

    def quantisation(self, name: str) -> Quantisation:
        scale = {"w": np.full(self.zero_point.shape, 0.5, np.float32)}[name]
        return Quantisation(axis=0 if scale.ndim else None, scale=scale, zero_point=self.zero_point)

    def close(self) -> None: ...


def test_a_zero_point_outside_its_type_shows_in_the_reals_only() -> None:
    model = Model(Store(I8, 300), "odd")
    assert model.load_tensor("w@f32").tolist() == [-214.0, -86.5]
    with pytest.raises(ModelError, match="zero points of 'w' of odd do not fit i8: use its reals, as a float"):
        model.load_tensor("w@zero_point")


@pytest.mark.parametrize(
    ("dtype", "zero_points", "stored"),
    [("t1", [-1, 1], 0b10), ("t2", [-1, 1], 0b0111), ("i4", [-8, 7], 0x78), ("u2", [1, 3], 0b1101)],
)
def test_packed_zero_points_are_stored_as_tensors_of_their_type_are(
    dtype: str, zero_points: list[int], stored: int
) -> None:
    model = Model(Store(BY_NAME[dtype], zero_points))
    assert model.load_raw("w@zero_point").tolist() == [stored]
    assert model.load_tensor("w@zero_point").tolist() == zero_points
