"""The verifier's text, its statistics and its report."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest

from openinfer_oinf import (
    Bitset,
    OinfError,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
    verify_oinf,
)
from openinfer_oinf.statistics import statistics_of

QUANT = QuantParams("asymmetric", QuantScale.per_tensor(0.5), QuantZeroPoint.per_tensor(-1))
MODEL = {
    "sizevars": {"B": 4},
    "mode": "fast",
    "scale": 0.1,
    "table": [1, 2, 300],
    "mask": Bitset((0x9249 >> bit) & 1 for bit in range(17)),
    "tensors": {
        "W.0": TensorSpec(np.arange(24, dtype=np.int8).reshape(2, 12), quant=QUANT),
        "bias": TensorSpec(np.float32(0.1)),
        "cache": UninitializedTensor("f16", (4, 4)),
    },
}
TEXT = """\
B := 4

mask: bitset[17] = 49 92 00
mode: str = "fast"
scale: f32 = 0.1
table: i16[3] = { 1, 2, 300 }

W.0: i8[2, 12] = {\x20
{ 0, 1, 2, 3, 4, ..., 7, 8, 9, 10, 11 } ,
{ 12, 13, 14, 15, 16, ..., 19, 20, 21, 22, 23 } ,
}
- [nbytes: 24, min: 0, max: 23, mean: 11.5, median: 11.5, std: 6.92219]
- hist: {([0, 2.3], 3), ([2.3, 4.6], 2), ([4.6, 6.9], 2), ([6.9, 9.2], 3), ([9.2, 11.5], 2), \
([11.5, 13.8], 2), ([13.8, 16.1], 3), ([16.1, 18.4], 2), ([18.4, 20.7], 2), ([20.7, 23], 3)}
- quant: scheme=asymmetric, scale=per_tensor(0.5), zero_point=per_tensor(-1)

bias: f32 = 0.1

cache: f16[4, 4] -- uninitialized

"""


def text_of(contents: dict[str, object], **options) -> str:
    out = io.StringIO()
    report = verify_oinf(dataclass_to_oinf(contents), file=out, **options)
    assert report.text == out.getvalue()
    return out.getvalue()


def test_the_whole_text():
    assert text_of(MODEL) == TEXT


def test_standard_output_is_the_default(capsys):
    verify_oinf(dataclass_to_oinf(MODEL))
    assert capsys.readouterr().out == TEXT
    verify_oinf(dataclass_to_oinf(MODEL), file=False)
    assert capsys.readouterr().out == ""


def test_statistics_and_values_can_be_left_out():
    text = text_of(MODEL, stats=False, values=False)
    assert "W.0: i8[2, 12]\n- quant:" in text
    assert "nbytes" not in text


@pytest.mark.parametrize(
    ("array", "dtype", "values", "numbers", "bins"),
    [
        ([1, 2, 2], "i32", "[3] = { 1, 2, 2 }", (12, 1, 2, 1.66667, 2, 0.471405), "([1, 1], 1), ([2, 2], 2)"),
        ([7, 7], "u8", "[2] = { 7, 7 }", (2, 7, 7, 7, 7, 0), "([7, 7], 2)"),
        ([[True, True]], "bool", "[1, 2] = { \n{ true, true } ,\n}", (2, 1, 1, 1, 1, 0), "([0, 0], 0), ([1, 1], 2)"),
        ([-8, 7], "i4", "[2] = { -8, 7 }", (1, -8, 7, -0.5, -0.5, 7.5), "([-8, -8], 1), ([7, 7], 1)"),
        ([0.5, 0.5], "f8", "[2] = { 0.5, 0.5 }", (2, 0.5, 0.5, 0.5, 0.5, 0), "([0.5, 0.5], 2)"),
    ],
)
def test_values_with_statistics(array, dtype, values, numbers, bins):
    nbytes, low, high, mean, median, std = numbers
    statistics = f"nbytes: {nbytes}, min: {low}, max: {high}, mean: {mean}, median: {median}, std: {std}"
    expected = f"t: {dtype}{values}\n- [{statistics}]\n- hist: {{{bins}}}\n\n"
    assert text_of({"t": TensorSpec(np.array(array), dtype=dtype)}) == expected


@pytest.mark.parametrize(
    ("array", "statistics", "bins"),
    [
        ([math.nan, math.inf, 3, 3], "min: 3, max: 3, mean: 3, median: 3, std: 0, nan: 1, inf: 1", "([3, 3], 2)"),
        ([math.nan, -math.inf], "min: nan, max: nan, mean: nan, median: nan, std: nan, nan: 1, inf: 1", ""),
    ],
)
def test_statistics_are_those_of_the_finite_values(array, statistics, bins):
    text = text_of({"t": np.array(array, "f4")})
    assert f"{statistics}]\n- hist: {{{bins}}}\n" in text


@pytest.mark.parametrize(
    ("array", "dtype", "line"),
    [
        ([[[1]]], "f32", "t: f32[1, 1, 1] = { \n{ 1 } ,\n}"),
        ([1], "f32", "t: f32[1] = { 1 }"),
        (-0.0, "f64", "t: f64 = -0"),
        (True, "bool", "t: bool = true"),
        ([], "f32", "t: f32[0] -- empty"),
    ],
)
def test_single_elements_and_none_have_no_statistics(array, dtype, line):
    assert text_of({"t": TensorSpec(np.array(array), dtype=dtype)}) == line + "\n\n"


def test_long_rows_and_many_rows_are_shortened():
    text = text_of({"a": TensorSpec(np.arange(11)), "b": TensorSpec(np.zeros((7, 2, 6), "u1"))}, stats=False)
    row = "{ 0, 0, 0, 0, 0, ..., 0, 0, 0, 0, 0 } ,\n"
    assert (
        text == "a: i64[11] = { 0, 1, 2, 3, 4, ..., 6, 7, 8, 9, 10 }\n\nb: u8[7, 2, 6] = { \n" + row * 3 + "...\n}\n\n"
    )


def test_reference_style():
    contents = {
        "a": TensorSpec(np.ones((1, 1), "f4")),
        "b": TensorSpec(np.array([1, 2]), dtype="bf16"),
        "e": np.zeros(0),
        "s": UninitializedTensor("i16", ()),
    }
    assert text_of(contents, style="reference") == (
        "a: f32 = 1\n\n"
        "b: bf16[2] = { 1, 2 }\n- [nbytes: 8, min: 1, max: 2, mean: 1.5, median: 1.5, std: 0.5]\n"
        "- hist: {([1, 1.1], 1), ([1.9, 2], 1)}\n\n"
        "e: f64[0] -- uninitialized\n\n"
        "s: i16[] -- uninitialized\n\n"
    )


def test_per_channel_quantisation_is_counted():
    quant = QuantParams("symmetric", QuantScale.per_channel(0, [1, 2]))
    text = text_of({"w": TensorSpec(np.array([1, 2], "i1"), quant=quant)}, stats=False)
    assert "- quant: scheme=symmetric, scale=per_channel(axis=0, count=2), zero_point=none\n" in text


def test_invalid_values_are_all_reported_before_anything_is_printed(raw, capsys):
    bad = [raw.Tensor(name, 12, (1,), b"\2") for name in (b"a", b"b")]
    with pytest.raises(OinfError) as caught:
        verify_oinf(raw.File(tensors=bad).build())
    assert [finding.entry for finding in caught.value.findings] == ["a", "b"]
    assert capsys.readouterr().out == ""


def test_the_report_is_plain_data():
    report = verify_oinf(dataclass_to_oinf(MODEL | {"bad": TensorSpec(np.array([math.nan]))}), file=False)
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (data["valid"], data["version"], data["sizevars"]) == (True, 2, {"B": 4})
    assert data["metadata"]["table"] == {"dtype": "i16", "shape": [3], "value": [1, 2, 300]}
    assert data["tensors"][0]["quant"] == {"scheme": "asymmetric", "scale": 0.5, "zero_point": -1}
    assert data["tensors"][0]["statistics"]["maximum"] == 23


@pytest.mark.parametrize("style", ["old", ""])
def test_unknown_styles(style):
    with pytest.raises(ValueError, match="style"):
        verify_oinf(dataclass_to_oinf({}), style=style)


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_statistics_do_not_depend_on_blocks(size, block):
    values = np.random.default_rng(3).normal(5, 2, size).astype("f4")
    computed = statistics_of(
        lambda: (values[start : start + block] for start in range(0, size, block)), whole_numbers=False
    )
    wide = values.astype("f8")
    assert computed.mean == pytest.approx(wide.mean())
    assert computed.std == pytest.approx(wide.std(), abs=1e-12)
    assert computed.median == np.median(wide)
    assert (computed.minimum, computed.maximum) == (wide.min(), wide.max())
    assert sum(each.count for each in computed.histogram) == size


@pytest.mark.parametrize(
    "values", [[-1.7e308, 1.7e308], [0.0, 5e-324], [1.0, 1.0 + 2**-52]], ids=["overflow", "subnormal", "neighbours"]
)
def test_extreme_ranges_have_a_histogram(values):
    computed = statistics_of(lambda: iter([np.array(values)]), whole_numbers=False)
    assert [each.count for each in computed.histogram] == [1, 1]


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [("f16", "007d"), ("f32", "0000a07f"), ("f64", "010000000000f07f"), ("bf16", "a07f"), ("f8", "7d")],
)
def test_signalling_nans_are_counted_without_a_warning(dtype, stored, raw):
    tags = {"f16": 9, "f32": 10, "f64": 11, "bf16": 16, "f8": 17}
    data = bytes.fromhex(stored) * 2
    blob = raw.File(tensors=[raw.Tensor(b"x", tags[dtype], (2,), data)]).build()
    (tensor,) = verify_oinf(blob, file=False).tensors
    assert tensor.statistics is not None
    assert tensor.statistics.nan == 2
    with open_oinf(blob) as file:
        assert np.isnan(file.tensor("x").dequantize("f64")).all()


def test_real_values_beyond_f32_are_infinite():
    quant = QuantParams("symmetric", QuantScale.per_tensor(3e38))
    with open_oinf(dataclass_to_oinf({"tensors": {"x": TensorSpec(np.array([-2, 0, 2], "i1"), quant=quant)}})) as file:
        assert file.tensor("x").dequantize().tolist() == [-math.inf, 0.0, math.inf]
