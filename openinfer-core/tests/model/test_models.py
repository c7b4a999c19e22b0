"""Models in memory and the questions that can be asked of them."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.dtypes import BY_NAME
from openinfer.errors import ModelError
from openinfer.model import MetadataValue, Model, ModelLoader, VarInfo
from openinfer_oinf import OinfWriter


def test_a_model_of_arrays_knows_types_and_values() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = Model.from_arrays(
        {"w": weights, "h": np.ones(2, ml_dtypes.bfloat16)}, sizevars={"B": 2}, metadata={"s": "t"}
    )
    info = model.var_info("w")
    assert info is not None
    assert (str(info.dtype), info.shape, info.nbytes, info.has_data) == ("f32", (2, 3), 24, True)
    assert str(model.tensors["h"].dtype) == "bf16"
    np.testing.assert_array_equal(model.load_tensor("w"), weights)
    assert model.load_metadata_string("s") == "t"
    assert model.size_of("B") == 2


def test_tensors_cannot_be_written_and_do_not_follow_the_callers_array() -> None:
    source = np.zeros(2, np.float32)
    model = Model.from_arrays({"w": source})
    source[0] = 1
    loaded = model.load_tensor("w")
    assert loaded[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 2


@pytest.mark.parametrize("order", "<>")
def test_tensors_are_in_the_byte_order_of_the_machine(order: str) -> None:
    model = Model.from_arrays({"w": np.array([1, 2.5], f"{order}f4")})
    assert model.load_raw("w").dtype == np.dtype(np.float32)
    assert model.tensor_store().stored("w").tobytes() == np.array([1, 2.5], np.float32).tobytes()


@pytest.mark.rule("runtime.sizes.1")
def test_dimensions_are_exact_integers() -> None:
    model = Model.from_arrays(sizevars={"D": 2**40})
    assert model.resolve_shape(["3*D", "D*D-1", "(D+1)*2"]) == (3 * 2**40, 2**80 - 1, 2 * (2**40 + 1))
    assert model.resolve_len(["2", "D"]) == 2**41
    with pytest.raises(ModelError, match="must not be negative"):
        model.resolve_dim_value("1-D")
    with pytest.raises(ModelError, match="no size variable 'E'"):
        model.resolve_dim_value("E")
    with pytest.raises(ModelError, match="bad dimension"):
        model.resolve_dim_value("3 D")


@pytest.mark.rule("runtime.models.10")
def test_missing_names_are_reported_with_near_ones_or_with_all() -> None:
    model = Model.from_arrays({"weight": np.zeros(1, np.float32)}, sizevars={"B": 1, "D": 2})
    with pytest.raises(ModelError, match="did you mean `weight`"):
        model.load_tensor("weigth")
    with pytest.raises(ModelError, match=r"no size variable 'K': there are B, D$"):
        model.size_of("K")


def test_element_types_that_openinfer_does_not_have_are_refused() -> None:
    with pytest.raises(ModelError, match="complex128"):
        Model.from_arrays({"z": np.zeros(1, np.complex128)})


def test_lists_of_whole_numbers_stay_whole() -> None:
    model = Model.from_arrays({"w": [1, 2**63 + 1], "f": [1.5, 2.0**63]})
    assert model.load_tensor("w").tolist() == [1, 2**63 + 1]
    assert model.load_tensor("f").dtype == np.float64


@pytest.mark.rule("runtime.models.5")
def test_loading_from_many_threads_gives_one_array() -> None:
    model = Model.from_arrays({"w": np.zeros(1000, np.float32)})
    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(lambda _: model.load_tensor("w"), range(64)))
    assert all(array is arrays[0] for array in arrays)


def test_a_file_of_no_known_format_is_refused(tmp_path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError, match=r"not a model file of a known format.*oinf"):
        ModelLoader.open(path)
    with pytest.raises(ModelError, match="cannot read model"):
        ModelLoader.open(tmp_path / "absent.oinf")


@pytest.mark.parametrize(
    ("name", "begins"), [("net.onnx", b"\x08\x07"), ("NET.ONNX", b""), ("of net.tflite", b"1234TFL3")]
)
def test_a_model_that_can_be_imported_is_said_to_be(name: str, begins: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(begins)

    with pytest.raises(ModelError, match=r"known: oinf.*`openinfer import .*` writes a program") as caught:
        ModelLoader.open(path)

    assert shlex.quote(str(path)) in str(caught.value)


def test_a_container_is_opened_without_reading_payloads(tmp_path) -> None:
    from openinfer_oinf import save_file

    path = tmp_path / "model.oinf"
    save_file({"w": np.arange(3, dtype=np.int32)}, path, sizevars={"N": 3}, metadata={"name": "x"})
    with ModelLoader.open(path) as model:
        assert model.sizevars == {"N": 3}
        assert model.metadata == {"name": "x"}
        assert model.load_tensor("w").tolist() == [0, 1, 2]
        assert "1 tensor, 1 size" in repr(model)


@pytest.mark.rule("runtime.models.1")
def test_a_damaged_container_is_a_model_error(tmp_path) -> None:
    path = tmp_path / "model.oinf"
    path.write_bytes(b"OINF\x00" + bytes(100))
    with pytest.raises(ModelError, match="version") as caught:
        ModelLoader.open(path)
    assert caught.value.code == "E_VERSION"


@pytest.mark.rule("runtime.errors.1")
def test_every_error_of_a_damaged_container_is_a_finding_with_its_code_in_a_field(tmp_path) -> None:
    from openinfer_oinf import OinfError, save_file, verify_oinf

    path = tmp_path / "model.oinf"
    save_file({"w": np.arange(3, dtype=np.int32), "v": np.arange(3, dtype=np.int32)}, path)
    data = bytearray(path.read_bytes())
    data[60:68] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(OinfError) as expected:
        verify_oinf(path)
    with pytest.raises(ModelError) as caught:
        ModelLoader.open(path)

    assert [found.code for found in caught.value.diagnostics] == [found.code for found in expected.value.errors]
    for found in caught.value.diagnostics:
        assert found.code not in found.message
        assert found.message.startswith(str(path))
    assert caught.value.code not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.rule("runtime.errors.4", "runtime.models.2")
def test_a_damaged_container_is_closed_again(tmp_path) -> None:
    path = tmp_path / "model.oinf"
    path.write_bytes(b"OINF\x00" + bytes(100))
    with pytest.raises(ModelError) as caught:
        ModelLoader.open(path)
    assert caught.value.file == str(path)
    held = [descriptor.resolve() for descriptor in Path("/proc/self/fd").iterdir() if descriptor.exists()]
    assert path.resolve() not in held


@pytest.fixture
def container(tmp_path) -> Path:
    """A file with tensors of native, low float and packed types, and with one name in all three tables."""
    path = tmp_path / "types.oinf"
    tensors = {
        "n": ("i32", np.arange(3, dtype=np.int32)),
        "h": ("bf16", np.ones(2, ml_dtypes.bfloat16)),
        "e": ("f8", np.ones(2, ml_dtypes.float8_e5m2)),
        "q": ("i4", np.array([1, -2, 7], np.int8)),
    }
    with OinfWriter(path) as writer:
        writer.sizevar("n", 3)
        writer.metadata("n", "text")
        writer.metadata("number", np.array([1, 2], np.int16))
        writer.declare("later", "f32", (2,), data=False)
        for name, (dtype, array) in tensors.items():
            writer.declare(name, dtype, array.shape)
        for name, (_, array) in tensors.items():
            writer.write(name, array)
    return path


@pytest.mark.rule("runtime.models.3")
def test_sizes_metadata_and_tensors_are_namespaces_of_their_own(container: Path) -> None:
    with ModelLoader.open(container) as model:
        assert model.size_of("n") == 3
        assert model.load_metadata_string("n") == "text"
        assert model.load_tensor("n").tolist() == [0, 1, 2]


@pytest.mark.rule("runtime.models.6")
def test_values_come_in_the_types_of_numpy_and_ml_dtypes_and_cannot_be_written(container: Path) -> None:
    with ModelLoader.open(container) as model:
        found = {name: model.load_tensor(name) for name in ("n", "h", "e", "q")}
        assert {name: str(array.dtype) for name, array in found.items()} == {
            "n": "int32",
            "h": "bfloat16",
            "e": "float8_e5m2",
            "q": "int8",
        }
        assert not any(array.flags.writeable for array in found.values())
        assert not any(found[name].flags.owndata for name in ("n", "h", "e"))


@pytest.mark.rule("runtime.models.7")
def test_packed_tensors_come_unpacked_or_as_their_bytes(container: Path) -> None:
    with ModelLoader.open(container) as model:
        assert model.load_tensor("q").tolist() == [1, -2, 7]
        assert model.load_raw("q").tolist() == [0xE1, 0x07]
        assert not model.load_raw("q").flags.writeable
        assert model.load_raw("n") is model.load_tensor("n")


@pytest.mark.rule("container.checksums.1")
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f8", "bool", "u8", "i4", "t2"])
@pytest.mark.parametrize("read", [Model.load_raw, Model.load_tensor])
def test_a_damaged_tensor_is_noticed_however_it_is_read(read: Any, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    with OinfWriter(path, checksums=True) as writer:
        writer.declare("w", dtype, [2])
        writer.write("w", [1, 0])
    with ModelLoader.open(path) as model:
        place = model.tensors["w"].offset
        read(model, "w")
    data = bytearray(path.read_bytes())
    data[place or 0] ^= 1
    path.write_bytes(data)
    with ModelLoader.open(path) as model, pytest.raises(ModelError) as caught:
        read(model, "w")
    assert caught.value.code == "E_CHECKSUM"


@pytest.mark.rule("runtime.errors.4", "runtime.models.10")
def test_what_is_known_of_a_tensor_is_returned_without_its_values(container: Path) -> None:
    with ModelLoader.open(container) as model:
        info = model.var_info("q")
        assert info is not None
        assert (info.name, info.dtype.name, info.shape, info.has_data, info.nbytes) == ("q", "i4", (3,), True, 2)
        assert container.read_bytes()[info.offset : (info.offset or 0) + 2] == b"\xe1\x07"
        assert model.var_info("absent") is None
        with pytest.raises(ModelError, match="declared without data") as caught:
            model.load_tensor("later")
    assert (caught.value.file, caught.value.table, caught.value.name) == (str(container), "tensors", "later")


@pytest.mark.rule("runtime.errors.4", "runtime.models.11")
def test_metadata_is_a_string_a_tensor_or_not_there(container: Path) -> None:
    with ModelLoader.open(container) as model:
        number = model.load_metadata_tensor("number")
        assert number is not None
        assert (number.dtype, number.tolist()) == (np.dtype(np.int16), [1, 2])
        assert model.load_metadata_tensor("absent") is None
        assert (model.has_metadata_string("n"), model.has_metadata_string("number")) == (True, False)
        with pytest.raises(ModelError, match="is a string") as caught:
            model.load_metadata_tensor("n")
        assert (caught.value.table, caught.value.name) == ("metadata", "n")
        with pytest.raises(ModelError, match="no metadata string 'number'"):
            model.load_metadata_string("number")
        assert set(model.tensor_store().tensors) == {"n", "h", "e", "q", "later"}


class SlowStore:
    """A store with one tensor that takes its time, and counts how often it is read."""

    sizevars: Mapping[str, int] = {}
    metadata: Mapping[str, MetadataValue] = {}
    tensors: Mapping[str, VarInfo] = {
        "w": VarInfo(name="w", dtype=BY_NAME["f32"], shape=(2,), has_data=True, offset=None, nbytes=8)
    }

    def __init__(self, shape: tuple[int, ...] = (2,)) -> None:
        self.reads = 0
        self._shape = shape

    def values(self, name: str) -> np.ndarray:
        assert name in self.tensors
        self.reads += 1
        time.sleep(0.05)
        return np.zeros(self._shape, np.float32)

    def stored(self, name: str) -> np.ndarray:
        return self.values(name).view(np.uint8)

    def close(self) -> None:
        pass


@pytest.mark.rule("runtime.models.5")
def test_a_tensor_that_is_requested_twice_at_once_is_decoded_once() -> None:
    store = SlowStore()
    model = Model(store)
    together = Barrier(4)

    def load(_: int) -> np.ndarray:
        together.wait()
        return model.load_tensor("w")

    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(load, range(4)))
    assert store.reads == 1
    assert all(array is arrays[0] for array in arrays)


@pytest.mark.rule("runtime.models.8")
def test_a_payload_of_another_size_than_its_shape_is_refused() -> None:
    with pytest.raises(ModelError, match=r"has shape \(3,\), its entry says \(2,\)"):
        Model(SlowStore((3,))).load_tensor("w")


@pytest.mark.rule("runtime.models.9")
def test_views_outlive_a_closed_model_and_nothing_more_is_loaded(container: Path) -> None:
    with ModelLoader.open(container) as model:
        view = model.load_tensor("n")
    model.close()
    assert view.tolist() == [0, 1, 2]
    with pytest.raises(ModelError, match="closed"):
        model.load_tensor("h")


@pytest.mark.rule("runtime.models.4")
@pytest.mark.skipif(sys.platform != "linux", reason="asks the system how much memory is in use")
def test_weights_that_nothing_uses_take_no_memory(tmp_path) -> None:
    path = tmp_path / "large.oinf"
    with OinfWriter(path) as writer:
        writer.declare("big", "u8", (64 << 20,))
        writer.declare("small", "f32", (4,))
        writer.write("big", np.zeros(64 << 20, np.uint8))
        writer.write("small", np.ones(4, np.float32))
    code = (
        "import sys, resource\n"
        "from openinfer.model import ModelLoader\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "model = ModelLoader.open(sys.argv[1])\n"
        "assert model.load_tensor('small').sum() == 4\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 48 << 10, "kibibytes more than before the model was opened"
