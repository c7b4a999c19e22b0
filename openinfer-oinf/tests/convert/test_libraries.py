"""Conversion from files that other libraries write, and export to files that they read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from openinfer_oinf import OinfError, open_oinf
from openinfer_oinf.convert.conversion import ConversionOptions, convert_to_oinf
from openinfer_oinf.convert.model import ReadOptions


def converted(path, **options):
    target = path.with_name("out.oinf")
    changes = convert_to_oinf(path, target, ConversionOptions(**options))
    return open_oinf(target, verify="eager"), [str(change) for change in changes]


class TestSafetensors:
    @pytest.fixture(autouse=True)
    def library(self):
        return pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")

    def test_files_of_the_library(self, library, tmp_path):
        rng = np.random.default_rng(0)
        arrays = {
            "w": rng.normal(size=(3, 5)).astype(np.float32),
            "h": np.float16([1, 2]),
            "i": np.arange(7),
            "yes": np.array([True]),
            "none": np.zeros((0, 2), np.int8),
            "scalar": np.array(3, np.uint8),
        }
        path = tmp_path / "m.safetensors"
        library.save_file(arrays, path, metadata={"note": "free text"})
        file, changes = converted(path)
        assert changes == ["renamed note: metadata note.utf8"]
        assert file.metadata["note.utf8"] == "free text"
        for name, array in arrays.items():
            np.testing.assert_array_equal(file[name], array)
            assert file[name].dtype == array.dtype


class TestHdf5:
    @pytest.fixture(autouse=True)
    def h5py(self):
        return pytest.importorskip("h5py", reason="h5py is not installed")

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "m.h5"

    def test_datasets_of_all_groups(self, h5py, path):
        chunked = np.arange(10_000, dtype=np.float32).reshape(100, 100)
        with h5py.File(path, "w") as target:
            target["layer/w"] = np.arange(6, dtype=">i4").reshape(2, 3)
            target["scalar"] = 1.5
            target["yes"] = np.array([True, False])
            target["none"] = np.zeros((0, 2), np.int8)
            target.create_dataset("chunked", data=chunked, chunks=(7, 13), compression="gzip")
            target.attrs["note"] = "free text"
            target["layer"].attrs["units"] = 3
            target["layer/w"].attrs["odd"] = np.array(["a"], h5py.string_dtype())
        file, changes = converted(path)
        assert list(file) == ["chunked", "layer.w", "none", "scalar", "yes"]
        assert (file["chunked"] == chunked).all()
        assert file["layer.w"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert file["scalar"] == 1.5
        assert file["yes"].tolist() == [True, False]
        assert file.metadata["note.utf8"] == "free text"
        assert file.metadata["layer.units"] == 3
        assert changes == [
            "dropped layer/w/odd: an attribute that is neither numbers nor one text",
            "renamed note: metadata note.utf8",
            "renamed layer/units: metadata layer.units",
            "copied layer/w: bytes swapped from big-endian",
            "renamed layer/w: layer.w",
        ]

    @pytest.mark.parametrize("shape", [(1000,), (10, 100), (2, 3, 50), (1, 1, 1000), (3, 1, 2, 40)])
    def test_parts_cover_a_dataset_in_order(self, h5py, path, monkeypatch, shape):
        monkeypatch.setattr("openinfer_oinf.convert.readers.hdf5_file.BLOCK_NBYTES", 100)
        array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        with h5py.File(path, "w") as target:
            target["w"] = array
        file, _ = converted(path)
        assert (file["w"] == array).all()

    def test_what_lies_elsewhere_is_refused(self, h5py, path, tmp_path):
        outside = tmp_path / "outside.h5"
        with h5py.File(outside, "w") as target:
            target["secret"] = 1
        makers = {
            "soft": lambda target: target.__setitem__("w", h5py.SoftLink("/absent")),
            "external": lambda target: target.__setitem__("w", h5py.ExternalLink(str(outside), "secret")),
            "storage": lambda target: target.create_dataset("w", (1,), "i4", external=[(str(outside), 0, 4)]),
            "virtual": lambda target: target.create_virtual_dataset("w", virtual_layout(h5py, outside)),
            "text": lambda target: target.__setitem__("w", "text"),
            "compound": lambda target: target.__setitem__("w", np.zeros(1, "i4,i4")),
            "complex": lambda target: target.__setitem__("w", 1j),
            "empty": lambda target: target.__setitem__("w", h5py.Empty("f4")),
        }
        for make in makers.values():
            with h5py.File(path, "w") as target:
                make(target)
            with pytest.raises(OinfError) as caught:
                converted(path)
            assert (caught.value.code, caught.value.entry) == ("E_SOURCE", "w")
            file, changes = converted(path, read=ReadOptions(skip_unsupported=True))
            assert len(file) == 0
            assert changes[0].startswith("dropped w: ")

    def test_a_group_in_itself_ends(self, h5py, path):
        with h5py.File(path, "w") as target:
            target["a/w"] = 1
            target["a/again"] = target["a"]
        with pytest.raises(OinfError, match="linked once"):
            converted(path)

    def test_damaged_files_are_errors_of_ours_or_other_valid_files(self, h5py, path):
        with h5py.File(path, "w") as target:
            target["layer/w"] = np.arange(6, dtype=np.int32)
            target.attrs["n"] = 1
        data = path.read_bytes()
        refused = 0
        for at in range(0, len(data), 7):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
            try:
                converted(path)
            except OinfError:
                refused += 1
        path.write_bytes(data[:300])
        with pytest.raises(OinfError):
            converted(path)
        assert refused > 10


def virtual_layout(h5py, outside):
    layout = h5py.VirtualLayout((1,), "i4")
    layout[0] = h5py.VirtualSource(str(outside), "secret", ())
    return layout


class TestGguf:
    # The library's writer adds this text to every file.
    ARCHITECTURE = "renamed general.architecture: metadata general.architecture.utf8"

    @pytest.fixture(autouse=True)
    def gguf(self):
        return pytest.importorskip("gguf", reason="gguf is not installed")

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "m.gguf"

    @staticmethod
    def written(gguf, path, tensors, add=None):
        writer = gguf.GGUFWriter(path, "test")
        if add is not None:
            add(writer)
        for name, (array, kind) in tensors.items():
            data = array if kind is None else gguf.quants.quantize(array, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def test_plain_types_and_dimensions(self, gguf, path):
        arrays = {
            "f": np.arange(6, dtype=np.float32).reshape(2, 3),
            "h": np.arange(4, dtype=np.float16),
            "d": np.arange(24, dtype=np.float64).reshape(2, 3, 4),
            "i": np.arange(5, dtype=np.int32),
        }
        self.written(gguf, path, {name: (array, None) for name, array in arrays.items()})
        file, changes = converted(path)
        for name, array in arrays.items():
            np.testing.assert_array_equal(file[name], array)
            assert file[name].dtype == array.dtype
        assert changes == [self.ARCHITECTURE]

    def test_key_value_pairs(self, gguf, path):
        def add(writer):
            writer.add_string("a.text", "free text")
            writer.add_uint32("a.count", 7)
            writer.add_float32("a.scale", 0.5)
            writer.add_bool("a.yes", True)
            writer.add_array("a.numbers", [1, 2, 3])
            writer.add_array("a.tokens", ["x", "y"])

        self.written(gguf, path, {}, add)
        file, changes = converted(path)
        assert file.metadata["a.text.utf8"] == "free text"
        assert [file.metadata[f"a.{name}"] for name in ("count", "scale", "yes")] == [7, 0.5, True]
        assert file.metadata["a.numbers"].tolist() == [1, 2, 3]
        assert changes == [
            "dropped a.tokens: a value of type ARRAY of STRING",
            self.ARCHITECTURE,
            "renamed a.text: metadata a.text.utf8",
        ]

    @pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "BF16"])
    def test_blocks_are_decoded(self, gguf, path, name):
        kind = gguf.GGMLQuantizationType[name]
        array = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
        self.written(gguf, path, {"w": (array, kind)})
        file, changes = converted(path)
        expected = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind)
        np.testing.assert_array_equal(file.tensor("w").dequantize(), expected)
        assert file["w"].shape == (4, 64)
        cast = [] if name == "BF16" else [f"cast w: {name} to f32 by decoding its blocks"]
        assert changes == [self.ARCHITECTURE, *cast]

    @pytest.mark.parametrize(("name", "dtype"), [("Q8_0", "i8"), ("Q4_0", "i4")])
    def test_exact_blocks_stand_for_the_same_values(self, gguf, path, name, dtype):
        kind = gguf.GGMLQuantizationType[name]
        array = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
        array[0, :32] = 0
        self.written(gguf, path, {"w": (array, kind)})
        file, _ = converted(path, read=ReadOptions(exact_blocks=True))
        tensor = file.tensor("w")
        assert (tensor.dtype, tensor.shape) == (dtype, (8, 32))
        assert file.metadata["w.shape"].tolist() == [4, 64]
        expected = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind)
        np.testing.assert_array_equal(tensor.dequantize().reshape(4, 64), expected)

    def test_damaged_files_are_errors_of_ours_or_other_valid_files(self, gguf, path):
        self.written(
            gguf, path, {"w": (np.arange(6, dtype=np.float32), None)}, lambda writer: writer.add_uint32("n", 1)
        )
        data = path.read_bytes()
        refused = 0
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x81]) + data[at + 1 :])
            try:
                converted(path)
            except OinfError:
                refused += 1
        assert refused > 20


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch", reason="torch is not installed")

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "m.pt"

    def test_state_dicts(self, torch, path):
        tensors = {
            "a.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
            "a.bias": torch.tensor([1.5, -2], dtype=torch.bfloat16),
            "f8": torch.tensor([1.5, -2]).to(torch.float8_e5m2),
            "e4m3": torch.tensor([1.5, -448]).to(torch.float8_e4m3fn),
            "long": torch.arange(3),
            "yes": torch.tensor([True, False]),
            "scalar": torch.tensor(2.5, dtype=torch.float64),
            "transposed": torch.arange(6).reshape(2, 3).T,
        }
        torch.save(tensors, path)
        file, changes = converted(path)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(file.tensor(name).dequantize("f64"), tensor.to(torch.float64).numpy())
            assert file[name].shape == tuple(tensor.shape)
        assert [file.tensor(name).dtype for name in ("a.bias", "f8", "e4m3")] == ["bf16", "f8", "f16"]
        assert any(change.startswith("copied transposed: from strides") for change in changes)

    def test_nested_checkpoints(self, torch, path):
        inner = {"w": torch.ones(2)}
        torch.save({"state_dict": inner, "epoch": 3, "name": "run 1", "opt": [1, 2]}, path)
        file, changes = converted(path)
        assert list(file) == ["state_dict.w"]
        assert dict(file.metadata) == {"epoch": 3, "name.utf8": "run 1"}
        assert changes == ["dropped opt: a list, which is not a weight", "renamed name: metadata name.utf8"]

    def test_tied_tensors_are_written_twice_and_reported(self, torch, path):
        shared = torch.ones(2, 2)
        torch.save({"a": shared, "b": shared, "part": shared[0]}, path)
        file, changes = converted(path)
        assert file["b"].tolist() == [[1, 1], [1, 1]]
        assert changes == ["copied b: tied to a: its values are written twice"]

    def test_meta_tensors_become_declarations(self, torch, path):
        torch.save({"w": torch.empty(2, 3, device="meta")}, path)
        file, _ = converted(path)
        assert (file.tensor("w").has_data, file.tensor("w").shape) == (False, (2, 3))

    @pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
    def test_quantised_tensors_keep_scales_and_zero_points(self, torch, path):
        real = torch.tensor([[0.5, -1.0], [2.0, 3.0]])
        scales, zeros = torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([1, -2])
        tensors = {
            "one": torch.quantize_per_tensor(real, 0.5, 3, torch.quint8),
            "each": torch.quantize_per_channel(real, scales, zeros, 1, torch.qint8),
        }
        torch.save(tensors, path)
        file, _ = converted(path)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(file.tensor(name).dequantize(), tensor.dequantize().numpy())
            np.testing.assert_array_equal(file[name], tensor.int_repr().numpy())

    @pytest.mark.parametrize("kind", ["sparse", "complex"])
    def test_tensors_without_counterpart_are_refused(self, torch, path, kind):
        tensor = torch.eye(2).to_sparse() if kind == "sparse" else torch.tensor([1j])
        torch.save({"w": tensor}, path)
        with pytest.raises(OinfError) as caught:
            converted(path)
        assert (caught.value.code, caught.value.entry) == ("E_SOURCE", "w")

    def test_code_in_a_file_is_refused_and_not_run(self, torch, path, tmp_path):
        class Harmful:
            def __reduce__(self):
                return (open, (str(tmp_path / "ran"), "w"))

        torch.save({"w": Harmful()}, path)
        with pytest.raises(OinfError, match="restricted unpickler"):
            converted(path)
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("data", [b"", b"PK\3\4 broken", b"\x80\x02broken"])
    def test_broken_files_are_errors_of_ours(self, path, data):
        path.write_bytes(data)
        with pytest.raises(OinfError) as caught:
            converted(path)
        assert caught.value.code == "E_SOURCE"

    def test_a_dict_in_itself_ends(self, torch, path):
        table = {"w": torch.ones(1)}
        table["again"] = table
        torch.save(table, path)
        with pytest.raises(OinfError, match="holds itself"):
            converted(path)


def test_changes_are_plain_data(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, **{"a/b": np.ones(1)})
    (change,) = convert_to_oinf(path, tmp_path / "out.oinf")
    assert json.loads(json.dumps(vars(change))) == {"kind": "renamed", "name": "a/b", "detail": "a.b"}


class TestOnnx:
    @pytest.fixture(autouse=True)
    def onnx(self):
        return pytest.importorskip("onnx", reason="onnx is not installed")

    @staticmethod
    def saved(onnx, path, tensors, **options):
        info = onnx.helper.make_tensor_value_info("x", 1, [1])
        nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
        outputs = [onnx.helper.make_tensor_value_info("y", 1, [1])]
        graph = onnx.helper.make_graph(nodes, "g", [info], outputs, tensors)
        onnx.save(onnx.helper.make_model(graph, ir_version=10), str(path), **options)
        return path

    def test_initialisers_of_all_kinds(self, onnx, tmp_path):
        rng = np.random.default_rng(0)
        arrays = {
            "layer.w": rng.normal(size=(3, 5)).astype(np.float32),
            "half": np.float16([1, 2]),
            "ids": np.arange(7),
            "yes": np.array([True, False]),
            "scalar": np.array(3, np.uint8),
            "none": np.zeros((0, 2), np.int8),
        }
        tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
        tensors.append(onnx.helper.make_tensor("listed", onnx.TensorProto.FLOAT, [2], [0.5, -1.0]))
        tensors.append(onnx.helper.make_tensor("nibbles", onnx.TensorProto.INT4, [3], [-8, 7, 1]))
        tensors.append(onnx.helper.make_tensor("brain", onnx.TensorProto.BFLOAT16, [2], [1.5, -2.0]))
        tensors.append(onnx.helper.make_tensor("e4", onnx.TensorProto.FLOAT8E4M3FN, [2], [0.5, 448.0]))
        file, changes = converted(self.saved(onnx, tmp_path / "m.onnx", tensors))
        for name, array in arrays.items():
            np.testing.assert_array_equal(file[name], array)
            assert file[name].dtype == array.dtype
        assert np.asarray(file["listed"]).tolist() == [0.5, -1.0]
        assert np.asarray(file["nibbles"]).tolist() == [-8, 7, 1]
        assert {each.name: str(each.dtype) for each in file.tensors()}["nibbles"] == "i4"
        assert np.asarray(file["brain"], np.float32).tolist() == [1.5, -2.0]
        assert np.asarray(file["e4"]).tolist() == [0.5, 448.0]
        assert changes == ["cast e4: FLOAT8E4M3FN to f16, which holds its values exactly"]

    def test_data_in_a_file_of_their_own(self, onnx, tmp_path):
        array = np.arange(3000, dtype=np.float32)
        tensors = [onnx.numpy_helper.from_array(array, "w")]
        path = self.saved(onnx, tmp_path / "m.onnx", tensors, save_as_external_data=True, location="m.data")
        assert (tmp_path / "m.data").stat().st_size >= array.nbytes
        file, _ = converted(path)
        np.testing.assert_array_equal(file["w"], array)

    @pytest.mark.parametrize(
        ("entries", "said"),
        [
            ({"location": "../outside"}, "not a file in the folder"),
            ({"location": "/etc/hosts"}, "not a file in the folder"),
            ({"location": "data", "offset": "-4"}, "not a number of bytes"),
            ({"location": "data", "length": "7"}, "7 bytes where FLOAT"),
            ({"location": "data", "offset": "4"}, "4 bytes where FLOAT"),
        ],
    )
    def test_data_that_are_elsewhere_or_too_few(self, onnx, tmp_path, entries, said):
        folder = tmp_path / "in"
        folder.mkdir()
        (tmp_path / "outside").write_bytes(bytes(8))
        (folder / "data").write_bytes(bytes(8))
        tensor = onnx.TensorProto(name="w", dims=[2], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        with pytest.raises(OinfError, match=said):
            converted(self.saved(onnx, folder / "m.onnx", [tensor]))

    def test_what_is_not_a_model(self, onnx, tmp_path):
        path = tmp_path / "m.onnx"
        path.write_bytes(b"not a model")
        with pytest.raises(OinfError, match="not an ONNX model"):
            converted(path)
        tensor = onnx.TensorProto(name="w", dims=[3], data_type=1, raw_data=bytes(8))
        with pytest.raises(OinfError, match="8 bytes where FLOAT"):
            converted(self.saved(onnx, path, [tensor]))

    def test_texts_are_left_out_on_request(self, onnx, tmp_path):
        texts = onnx.helper.make_tensor("names", onnx.TensorProto.STRING, [1], [b"a"])
        path = self.saved(onnx, tmp_path / "m.onnx", [texts, onnx.numpy_helper.from_array(np.float32([1]), "w")])
        with pytest.raises(OinfError, match="STRING has no value type"):
            converted(path)
        file, changes = converted(path, read=ReadOptions(skip_unsupported=True))
        assert [*file] == ["w"]
        assert changes == ["dropped names: STRING has no value type"]
