"""Opening, lazy access, the ways to get at the bytes, and closing."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import openinfer_oinf as oinf
from openinfer_oinf import (
    AbsentNameError,
    OinfError,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    TensorSpec,
    UninitializedError,
    UninitializedTensor,
    dataclass_to_oinf,
    load_file,
    open_oinf,
    write_oinf,
)

WEIGHTS = np.arange(24, dtype=np.float32).reshape(4, 6)
NIBBLES = (np.arange(45) % 16 - 8).reshape(5, 9)


def contents() -> dict[str, object]:
    return {
        "sizevars": {"D": 6, "B": 4},
        "metadata": {"mode": "fast", "means": [0.5, 0.25]},
        "tensors": {
            "W.0": WEIGHTS,
            "W.1": WEIGHTS + 1,
            "n": TensorSpec(NIBBLES, dtype="i4"),
            "cache": UninitializedTensor("f16", (2, 2)),
        },
    }


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "m.oinf"
    write_oinf(contents(), target)
    return target


@pytest.fixture(params=["mapped", "reads", "bytes", "memoryview", "file object", "str path"])
def opened(request, path):
    sources = {
        "mapped": lambda: open_oinf(path, mmap=True),
        "reads": lambda: open_oinf(path, mmap=False),
        "bytes": lambda: open_oinf(path.read_bytes()),
        "memoryview": lambda: open_oinf(memoryview(path.read_bytes())),
        "file object": lambda: open_oinf(io.BytesIO(path.read_bytes())),
        "str path": lambda: open_oinf(str(path)),
    }
    with sources[request.param]() as file:
        yield file


def test_every_source_gives_the_same(opened):
    assert list(opened.sizevars.items()) == [("B", 4), ("D", 6)]
    assert opened.metadata["mode"] == "fast"
    assert opened.metadata["means"].tolist() == [0.5, 0.25]
    assert list(opened) == ["W.0", "W.1", "cache", "n"]
    assert (opened["W.0"] == WEIGHTS).all()
    assert (opened["n"] == NIBBLES).all()


@pytest.mark.rule("container.reading.4")
def test_arrays_cannot_be_written_to(opened):
    for name in ("W.0", "n"):
        with pytest.raises(ValueError, match="read-only"):
            opened[name][0] = 0
    with pytest.raises(ValueError, match="read-only"):
        opened.raw("W.0")[0] = 0
    with pytest.raises(TypeError):
        opened.sizevars["B"] = 5


@pytest.mark.rule("container.reading.4", "runtime.models.6")
def test_mapped_arrays_are_views_of_one_mapping(path):
    with open_oinf(path, mmap=True) as file:
        assert not file["W.0"].flags.owndata
        first, second = file["W.0"], file["W.0"]
        assert np.shares_memory(first, second)
        assert np.shares_memory(first, file.raw("W.0"))


@pytest.mark.rule("runtime.models.9")
def test_views_outlive_the_file(path):
    file = open_oinf(path, mmap=True)
    view = file["W.0"]
    file.close()
    assert view.sum() == WEIGHTS.sum()
    with pytest.raises(OinfError) as caught:
        file["W.1"]
    assert caught.value.code == "E_CLOSED"


def test_closing_twice_is_harmless(opened):
    opened.close()
    opened.close()


def test_declared_tensors_are_listed_but_have_no_values(opened):
    assert "cache" in opened
    assert opened.get("cache", 7) == 7
    with pytest.raises(UninitializedError, match="without data"):
        opened["cache"]


def test_absent_names_are_key_errors_with_a_suggestion(opened):
    assert opened.get("W.9") is None
    assert opened.metadata.get("mod") is None
    with pytest.raises(AbsentNameError, match=r"^E_ABSENT: no tensor 'zzz'$"):
        opened.tensor("zzz")
    with pytest.raises(KeyError, match=r"did you mean `W\.\d`"):
        opened["W.3"]
    with pytest.raises(KeyError, match="mode"):
        opened.metadata["mod"]


def test_families_by_prefix(opened):
    family = opened.with_prefix("W.")
    assert list(family) == ["W.0", "W.1"]
    assert (family["W.1"] == WEIGHTS + 1).all()
    with pytest.raises(KeyError):
        family["n"]


@pytest.mark.parametrize(
    "rows", [slice(0, 2), slice(1, 4), slice(2, None), slice(4, 9), slice(3, 3), slice(0, 5, 2), slice(-2, None)]
)
def test_slices_of_packed_tensors(opened, rows):
    assert opened.tensor("n")[rows].tolist() == NIBBLES[rows].tolist()


def test_slices_of_native_tensors_are_views(path):
    with open_oinf(path, mmap=True) as file:
        part = file.tensor("W.0")[1:3]
        assert np.shares_memory(part, file["W.0"])
        assert (part == WEIGHTS[1:3]).all()


def test_load_gives_a_private_copy(opened):
    copy = opened.load("W.0")
    copy[0, 0] = 99
    assert opened["W.0"][0, 0] == 0


def test_tensor_descriptions(opened):
    tensor = opened.tensor("W.0")
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.nbytes) == ("W.0", "f32", (4, 6), 96)
    assert tensor.offset % 8 == 0
    assert repr(tensor) == "<tensor W.0: f32[4, 6], 96 B>"
    assert repr(opened).startswith("<oinf version 2: 2 sizevars, 2 metadata, 4 tensors")


def test_load_file_leaves_declarations_out(path):
    arrays = load_file(path)
    assert sorted(arrays) == ["W.0", "W.1", "n"]
    arrays["W.0"][:] = 0


def test_dequantize_per_channel():
    quant = QuantParams("asymmetric", QuantScale.per_channel(-1, [0.5, 2]), QuantZeroPoint.per_channel(-1, [1, -1]))
    blob = dataclass_to_oinf({"w": TensorSpec(np.array([[1, 2], [3, 4]], "i1"), quant=quant)})
    with open_oinf(blob) as file:
        tensor = file.tensor("w")
        assert tensor.quant.scale.axis == 1
        assert tensor.dequantize().tolist() == [[0.0, 6.0], [1.0, 10.0]]
        assert tensor.dequantize("f64").dtype == np.float64
        with pytest.raises(OinfError):
            tensor.dequantize("i8")


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("dtype", ["i8", "u4", "i32"])
@pytest.mark.parametrize("target", ["f32", "f64", "f16"])
def test_real_values_are_the_same_in_blocks_of_any_size(axis, dtype, target, monkeypatch):
    shape = (3, 4, 5)
    rng = np.random.default_rng(2)
    stored = rng.integers(0, 16, shape)
    count = 1 if axis is None else shape[axis]
    scales, zeros = rng.uniform(0.1, 2, count).astype(np.float32), rng.integers(0, 9, count)
    make = QuantScale.per_tensor if axis is None else lambda values: QuantScale.per_channel(axis, values)
    point = QuantZeroPoint.per_tensor if axis is None else lambda values: QuantZeroPoint.per_channel(axis, values)
    per_tensor = axis is None
    quant = QuantParams(
        "asymmetric", make(scales[0] if per_tensor else scales), point(zeros[0] if per_tensor else zeros)
    )
    around = [-1 if axis == each else 1 for each in range(3)]
    real = (scales.astype(float).reshape(around) * (stored - zeros.reshape(around))).astype(np.float32)
    with open_oinf(dataclass_to_oinf({"w": TensorSpec(stored, dtype=dtype, quant=quant)})) as file:
        tensor = file.tensor("w")
        expected = real.astype({"f32": "f4", "f64": "f8", "f16": "f2"}[target])
        np.testing.assert_array_equal(tensor.dequantize(target), expected)
        for elements in (1, 7, 60, 100):
            assert np.concatenate([*tensor.real_blocks(elements)]).tolist() == real.reshape(-1).tolist()
        np.testing.assert_array_equal(oinf.dequantize(tensor, target), expected)


def test_dequantize_takes_what_quantize_makes():
    real = np.array([[-1.0, 0.5], [2.0, 4.0]], np.float32)
    quantized = oinf.quantize_array(real, "i8", axis=0)
    stored, scale = quantized.values, quantized.quant.scale.values
    expected = (stored * scale.astype(float)[:, None]).astype(np.float32)
    for made in (quantized, oinf.quantize(real, "i8", axis=0), oinf.quantize(real, "i8", axis=-2)):
        np.testing.assert_array_equal(oinf.dequantize(made), expected)
    plain = oinf.dequantize(TensorSpec(np.array([1.003, 2.0]), dtype="bf16"), "f64")
    assert plain.tolist() == [1.0, 2.0]
    with pytest.raises(OinfError, match="float type"):
        oinf.dequantize(quantized, "i8")
    wrong = TensorSpec(np.ones(3, np.int8), quant=QuantParams("symmetric", QuantScale.per_channel(0, [1, 2])))
    with pytest.raises(OinfError) as caught:
        oinf.dequantize(wrong)
    assert caught.value.code == "E_QUANT"


def test_dequantizing_holds_the_result_and_a_block(tmp_path):
    count = 1 << 23
    quant = QuantParams("symmetric", QuantScale.per_channel(1, np.ones(1 << 10)))
    oinf.save_file({"w": TensorSpec(np.ones((1 << 13, 1 << 10), np.int8), quant=quant)}, tmp_path / "m.oinf")
    with open_oinf(tmp_path / "m.oinf") as file:
        tracemalloc.start()
        try:
            file.tensor("w").dequantize("f16")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # The result, and of a block of 2**20 elements a few forms of at most 8 bytes each.
    assert peak < 2 * count + 40 * (1 << 20)


@pytest.mark.rule("container.reading.2")
def test_values_are_checked_on_first_use_unless_switched_off(raw):
    blob = raw.File(tensors=[raw.Tensor(b"b", 12, (1,), b"\2"), raw.Tensor(b"c", 12, (1,), b"\1")]).build()
    with open_oinf(blob) as file:
        assert file["c"].tolist() == [True]
        with pytest.raises(OinfError) as caught:
            file["b"]
        assert (caught.value.code, caught.value.entry) == ("E_VALUE", "b")
    with pytest.raises(OinfError, match="E_VALUE"):
        open_oinf(blob, verify="eager")
    with open_oinf(blob, verify="off") as file:
        assert file["b"].tolist() == [True]


@pytest.mark.parametrize("options", [{"check": "lax"}, {"verify": "sometimes"}])
def test_unknown_options_are_refused(path, options):
    with pytest.raises(ValueError, match="expected"):
        open_oinf(path, **options)


def test_paths_that_are_not_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_oinf(tmp_path / "absent")
    with pytest.raises(OinfError, match="not a regular file"):
        open_oinf(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OinfError, match="not a regular file"):
            open_oinf(tmp_path / "pipe")


@pytest.mark.parametrize("source", [None, 5, object()])
def test_things_that_cannot_be_opened(source):
    with pytest.raises(TypeError, match="expected a path"):
        open_oinf(source)


@pytest.mark.parametrize("mmap", [True, False, "auto"])
def test_an_empty_file_is_truncated(tmp_path, mmap):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(OinfError) as caught:
        open_oinf(tmp_path / "empty", mmap=mmap)
    assert caught.value.code == "E_TRUNCATED"
    assert str(caught.value).startswith(str(tmp_path / "empty"))


def test_a_file_that_shrinks_is_reported_when_not_mapped(path):
    with open_oinf(path, mmap=False) as file:
        os.truncate(path, file.tensor("W.0").offset + 8)
        with pytest.raises(OinfError) as caught:
            file["W.0"]
        assert caught.value.code == "E_TRUNCATED"


@pytest.mark.parametrize("mmap", [True, False])
def test_threads_share_one_file(path, mmap):
    with open_oinf(path, mmap=mmap) as file, ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda each: float(file[f"W.{each % 2}"].sum()), range(400)))
    assert set(sums) == {float(WEIGHTS.sum()), float(WEIGHTS.sum()) + 24}
    assert sums[0] == float(WEIGHTS.sum())


@pytest.mark.rule("runtime.models.4")
@pytest.mark.skipif(sys.platform != "linux", reason="needs an address-space limit")
def test_a_file_larger_than_memory_is_read_in_parts(tmp_path, raw):
    size = 4 << 30
    file = raw.File(tensors=[raw.Tensor(b"big", 5, (size // 2, 2), None, flags=1, nbytes=size)])
    start = len(file.build())
    file.tensors[0].offset = start
    file.header = {"file_size": start + size}
    target = tmp_path / "sparse.oinf"
    target.write_bytes(file.build())
    os.truncate(target, start + size)
    code = (
        "import resource, sys, numpy\n"
        "from openinfer_oinf import open_oinf\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "with open_oinf(sys.argv[1], mmap='auto') as file:\n"
        "    print(file.tensor('big')[5:7].tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[[0, 0], [0, 0]]\n", "")
