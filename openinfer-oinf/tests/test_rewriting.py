"""Quantising arrays and files, and writing files again in other versions and layouts."""

from __future__ import annotations

import json
import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openinfer_oinf import (
    OinfError,
    OinfWriter,
    QuantizeOptions,
    TensorSpec,
    dataclass_to_oinf,
    open_oinf,
    quantization_error,
    quantize,
    quantize_array,
    quantize_oinf,
    rewrite_oinf,
    save_file,
    write_oinf,
)
from openinfer_oinf.cli import main
from openinfer_oinf.quantizefile import channel_blocks

REALS = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), elements=st.floats(-100, 100, width=32)
)
RANGES = {
    "i2": (-2, 1),
    "i4": (-8, 7),
    "i8": (-128, 127),
    "i16": (-32768, 32767),
    "u1": (0, 1),
    "u4": (0, 15),
    "u8": (0, 255),
}


@settings(max_examples=60, deadline=None)
@given(REALS, st.sampled_from(["i2", "i4", "i8", "i16"]), st.booleans())
def test_symmetric_values_are_within_half_a_step(array, dtype, per_channel):
    axis = -1 if per_channel else None
    quantized = quantize_array(array, dtype, axis=axis)
    high = RANGES[dtype][1]
    assert np.abs(quantized.values).max() <= high
    extent = np.abs(array.astype(float))
    extent = extent.reshape(-1, array.shape[-1]).max(axis=0) if per_channel else extent.max()
    step = np.where(extent > 0, extent / high, 1)
    apart = np.abs(quantized.real_values() - array.astype(float))
    assert (apart <= step / 2 * (1 + 1e-4) + 1e-30).all()


@settings(max_examples=60, deadline=None)
@given(REALS, st.sampled_from(["i4", "i8", "u1", "u4", "u8"]))
def test_asymmetric_values_are_within_a_step_and_zero_is_exact(array, dtype):
    quantized = quantize_array(array, dtype, scheme="asymmetric")
    low, high = RANGES[dtype]
    assert low <= quantized.values.min() <= quantized.values.max() <= high
    wide = array.astype(float)
    step = (max(wide.max(), 0) - min(wide.min(), 0)) / (high - low)
    apart = np.abs(quantized.real_values() - wide)
    assert (apart <= step * (1 + 1e-4) + 1e-30).all()
    assert not quantized.real_values()[array == 0].any()


def test_known_values():
    symmetric = quantize_array([-127.0, 0.5, 1.5, 64.0])
    assert symmetric.quant.scale.values.tolist() == [1.0]
    assert symmetric.values.tolist() == [-127, 0, 2, 64]
    asymmetric = quantize_array([-1.0, 0.0, 2.0], "u2", scheme="asymmetric")
    assert asymmetric.quant.scale.values.tolist() == [1.0]
    assert asymmetric.quant.zero_point.values.tolist() == [1]
    assert asymmetric.values.tolist() == [0, 1, 3]


def test_clipping_bounds_the_range():
    clipped = quantize_array([1000.0, 1.0], clip=127)
    assert clipped.values.tolist() == [127, 1]


def test_channels_of_zeros_have_scale_one():
    quantized = quantize_array(np.array([[0.0, 0.0], [1.0, 127.0]]), axis=0)
    assert quantized.quant.scale.values.tolist() == [1.0, 1.0]
    assert quantized.values.tolist() == [[0, 0], [1, 127]]


@pytest.mark.parametrize(
    ("array", "options", "code"),
    [
        ([math.nan], {}, "E_VALUE"),
        ([math.inf], {}, "E_VALUE"),
        ([1.0], {"dtype": "f16"}, "E_DTYPE"),
        ([1.0], {"dtype": "i1"}, "E_DTYPE"),
        ([1.0], {"dtype": "i64"}, "E_DTYPE"),
        ([1.0], {"dtype": "u8"}, "E_QUANT"),
        ([1.0], {"scheme": "odd"}, "E_QUANT"),
        ([1.0], {"axis": 1}, "E_QUANT"),
        ([1.0], {"clip": -1}, "E_QUANT"),
        ([1e300], {}, "E_QUANT_VALUE"),
    ],
)
def test_what_cannot_be_quantised(array, options, code):
    with pytest.raises(OinfError) as caught:
        quantize_array(array, **options)
    assert caught.value.code == code


@pytest.mark.parametrize("scheme", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_quantised_tensors_survive_the_file(scheme, axis):
    array = np.random.default_rng(1).normal(size=(3, 4))
    expected = quantize_array(array, "i4", scheme=scheme, axis=axis).real_values()
    with open_oinf(dataclass_to_oinf({"w": quantize(array, "i4", scheme, axis)})) as file:
        np.testing.assert_array_equal(file.tensor("w").dequantize(), expected)


def test_the_error_report():
    array = np.array([127.0, 0.25])
    error = quantization_error(array, quantize_array(array))
    assert (error.largest, error.mean) == (0.25, 0.125)
    assert error.snr_db == pytest.approx(10 * math.log10((127**2 + 0.25**2) / 0.25**2))
    assert quantization_error([1.0], quantize_array([1.0], "i2")).snr_db == math.inf


MODEL = {
    "sizevars": {"B": 4},
    "metadata": {"mode": "fast", "table": [1, 2, 300]},
    "tensors": {
        "a.w": np.array([[127.0, 1.0], [2.0, -3.0]], "f4"),
        "b.w": np.array([1.0, 2.0], "f4"),
        "n": TensorSpec(np.array([-8, 7, 1]), dtype="i4"),
    },
}


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        write_oinf(MODEL, tmp_path / "m.oinf")
        return tmp_path / "m.oinf"

    def test_versions_convert_both_ways(self, path, tmp_path):
        old, new = tmp_path / "old.oinf", tmp_path / "new.oinf"
        assert main(["downgrade", str(path), str(old)]) == 0
        assert old.read_bytes() == dataclass_to_oinf(MODEL, version=1)
        assert main(["upgrade", str(old), str(new)]) == 0
        assert new.read_bytes() == path.read_bytes()

    def test_quantised_files_cannot_go_back_to_version_1(self, path, tmp_path, capsys):
        write_oinf({"w": quantize([1.0])}, path)
        assert main(["downgrade", str(path), str(tmp_path / "old.oinf")]) == 1
        assert "E_QUANT" in capsys.readouterr().err
        assert not (tmp_path / "old.oinf").exists()

    def test_odd_files_become_proper_ones(self, raw, tmp_path):
        odd = raw.File(
            tensors=[raw.Tensor(b"b", 5, (1,), b"\1"), raw.Tensor(b"a", 5, (1,), b"\2")],
            header={"flags": 1},
            after_data=bytes(64),
        )
        source, target = tmp_path / "odd.oinf", tmp_path / "proper.oinf"
        source.write_bytes(odd.build())
        assert main(["canonicalize", str(source), str(target)]) == 0
        assert target.read_bytes() == dataclass_to_oinf({"a": np.array([2], "u1"), "b": np.array([1], "u1")})

    def test_alignment(self, path, tmp_path):
        assert main(["canonicalize", "--align", "64", str(path), str(tmp_path / "x")]) == 0
        assert (tmp_path / "x").read_bytes() == dataclass_to_oinf(MODEL, align=64)

    def test_a_file_can_be_rewritten_in_place(self, path):
        rewrite_oinf(path, path, version=1)
        with open_oinf(path) as file:
            assert (file.version, file["b.w"].tolist()) == (1, [1.0, 2.0])

    @pytest.mark.parametrize("command", [["downgrade"], ["upgrade"], ["canonicalize"], ["quantize"]])
    def test_commands_may_write_over_their_source(self, path, command):
        with open_oinf(path) as file:
            before = file.tensor("b.w").dequantize().tolist()
        assert main([*command, str(path), str(path)]) == 0
        with open_oinf(path, verify="eager") as file:
            np.testing.assert_allclose(file.tensor("b.w").dequantize(), before, rtol=0.01)
        assert len(list(path.parent.iterdir())) == 1

    def test_a_command_that_fails_leaves_its_source(self, path):
        write_oinf({"w": quantize([1.0])}, path)
        before = path.read_bytes()
        assert main(["downgrade", str(path), str(path)]) == 1
        assert path.read_bytes() == before

    @pytest.mark.parametrize("options", [["--include", "zzz"], ["--exclude", "*"], ["--axis", "7"]])
    def test_nothing_to_quantise_is_a_mistake_of_usage(self, path, tmp_path, capsys, options):
        assert main(["quantize", str(path), str(tmp_path / "q.oinf"), *options]) == 2
        assert "none of 3 tensors is a float tensor" in capsys.readouterr().err
        assert not (tmp_path / "q.oinf").exists()

    @pytest.mark.parametrize("axis", [(), ("--axis", "0")])
    def test_vectors_stay_wide_unless_they_are_named(self, path, capsys, axis):
        """A scale for each element of a bias takes more room than the bias."""
        tensors = {"w": np.ones((4, 3)), "bias": np.arange(4.0), "scalar": np.float32(2), "rows": np.ones((4, 1))}
        write_oinf({name: np.asarray(value) for name, value in tensors.items()}, path)
        target = path.with_name("q.oinf")
        assert main(["quantize", str(path), str(target), *axis]) == 0
        capsys.readouterr()
        with open_oinf(target) as file:
            quantised = {tensor.name for tensor in file.tensors() if tensor.has_quant}
        assert quantised == ({"w"} if axis else {"w", "rows"})
        assert main(["quantize", str(path), str(target), *axis, "--include", "b*"]) == 2
        assert "tensors of rank 1 have to be named" in capsys.readouterr().err
        assert main(["quantize", str(path), str(target), *axis, "--include", "bias", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["written"] == {"path": str(target), "nbytes": target.stat().st_size}
        assert [tensor["name"] for tensor in document["tensors"]] == ["bias"]
        assert document["tensors"][0].keys() == {"name", "largest", "mean", "snr_db"}

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_what_cannot_be_quantised_is_reported_by_name(self, path, value):
        write_oinf({"b": np.ones(3), "a": np.array([[1.0, value]])}, path)
        with pytest.raises(OinfError) as caught:
            quantize_oinf(path, path.with_name("q.oinf"), QuantizeOptions())
        assert (caught.value.code, caught.value.entry) == ("E_VALUE", "a")
        assert not path.with_name("q.oinf").exists()

    def test_quantizing_matching_tensors(self, path, tmp_path, capsys):
        target = tmp_path / "q.oinf"
        command = ["quantize", str(path), str(target), "--axis", "0", "--include", "*.w", "--exclude", "b.*"]
        assert main(command) == 0
        out = capsys.readouterr().out
        assert "a.w" in out
        assert "b.w" not in out
        with open_oinf(target, verify="eager") as file:
            assert [file.tensor(name).dtype for name in file] == ["i8", "f32", "i4"]
            assert file.tensor("a.w").quant.scale.axis == 0
            assert file.tensor("a.w").dequantize()[0].tolist() == [127.0, 1.0]
            assert dict(file.sizevars) == {"B": 4}
            assert file.metadata["table"].tolist() == [1, 2, 300]


SHAPES = [(), (1,), (17,), (3, 40), (40, 3), (4, 3, 9), (2, 11, 3, 2), (0, 3)]


@pytest.mark.parametrize("limit", [1, 8, 37, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_of_channels_cover_a_tensor_once_and_in_order(shape, limit):
    places = np.arange(math.prod(shape)).reshape(shape)
    for axis in (None, *range(len(shape))):
        seen: list[int] = []
        channel_of = np.zeros(shape, int) if axis is None else np.indices(shape)[axis]
        for block in channel_blocks(shape, axis, limit):
            part = np.arange(block.first, block.last).reshape(block.shape)
            assert 0 < part.size <= limit
            channels = np.arange(block.channels.start, block.channels.stop)[None, :, None]
            assert (channel_of.reshape(-1)[part] == np.broadcast_to(channels, block.shape)).all()
            seen += part.reshape(-1).tolist()
        assert seen == places.reshape(-1).tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"axis": 0},
        {"axis": -1, "scheme": "asymmetric", "dtype": "u8"},
        {"dtype": "i4", "clip": 0.5},
        {"dtype": "i2", "axis": 0, "scheme": "asymmetric", "clip": 1.0},
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_a_file_quantised_in_blocks_equals_arrays_quantised_at_once(shape, options, dtype, tmp_path, monkeypatch):
    if options.get("axis") is not None and not shape:
        options = {name: value for name, value in options.items() if name != "axis"}
    monkeypatch.setattr("openinfer_oinf.quantizefile.channel_blocks", partial(channel_blocks, limit=13))
    array = np.random.default_rng(3).normal(size=shape)
    save_file({"w": TensorSpec(array, dtype=dtype)}, tmp_path / "m.oinf")
    with open_oinf(tmp_path / "m.oinf") as file:
        real = file.tensor("w").dequantize("f64")
    expected = quantize_array(real, **{"dtype": "i8", **options})
    error = quantize_oinf(tmp_path / "m.oinf", tmp_path / "q.oinf", QuantizeOptions(include=["w"], **options))["w"]
    with open_oinf(tmp_path / "q.oinf", verify="eager") as file:
        tensor = file.tensor("w")
        assert tensor.numpy().tolist() == expected.values.tolist()
        assert tensor.quant == expected.quant
    at_once = quantization_error(real, expected)
    assert error.largest == at_once.largest
    assert (error.mean, error.snr_db) == pytest.approx((at_once.mean, at_once.snr_db))


def test_quantising_a_large_tensor_takes_the_memory_of_a_block(tmp_path):
    with OinfWriter(tmp_path / "m.oinf") as writer:
        writer.declare("w", "f32", (1 << 12, 1 << 12))
        writer.write("w", (np.full((256, 1 << 12), at, np.float32) for at in range(16)))
    tracemalloc.start()
    try:
        quantize_oinf(tmp_path / "m.oinf", tmp_path / "q.oinf", QuantizeOptions(axis=0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Of 64 MiB of values, 2**18 are at hand at a time, in at most sixteen forms of 8 bytes.
    assert peak < 32 << 20
