"""Messages of batches to workers and back: values, errors, jobs; bytes that are damaged."""

from __future__ import annotations

from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.batch import Job
from openinfer.batch.answers import decode_answer, encode_error, encode_outputs
from openinfer.batch.frames import decode, decode_values, encode_values
from openinfer.batch.job import ReceivedJob
from openinfer.dtypes import BF16, F32, I4
from openinfer.simulate.values import Tensor

STATEFUL = oi.graph("dynamic { x: i32; } persistent { n: i32; } block entry { return x; }")

TYPES = [np.dtype(t) for t in ("?", "i1", "u2", "<i4", ">i8", "f2", "f4", "f8", "c8")]
TYPES += [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2), np.dtype("V2")]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = draw(st.sampled_from(TYPES))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(bytearray(draw(st.binary(min_size=size, max_size=size))), np.uint8)
    # Bytes other than 0 and 1 are not bools.
    return ((array & 1) if dtype.kind == "b" else array).view(dtype).reshape(shape)


numbers = st.booleans() | st.integers() | st.floats()
values = numbers | st.recursive(st.lists(numbers, max_size=3), lambda e: st.lists(e, max_size=3)) | arrays()


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
@settings(max_examples=150, deadline=None)
def test_values_come_out_as_they_went_in(sent: dict[str, object]) -> None:
    got = decode_values(encode_values(sent))
    assert list(got) == list(sent)
    for name, value in sent.items():
        if isinstance(value, np.ndarray):
            assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
            assert got[name].tobytes() == value.tobytes()
        else:
            assert repr(got[name]) == repr(value)


def test_columns_first_and_parts_of_arrays_are_sent_in_c_order() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    got = decode_values(encode_values({"t": a.T, "part": a[:, ::2, 1]}))
    assert got["t"].tolist() == a.T.tolist()
    assert got["part"].tolist() == [[1, 9], [13, 21]]
    assert got["t"].flags.writeable


@pytest.mark.parametrize(
    "value", [object(), "text", np.array([object()]), [object()], {"a": 1}, np.array(["x"], object)]
)
def test_only_numbers_are_accepted(value: object) -> None:
    with pytest.raises(oi.DTypeError) as caught:
        encode_values({"x": value})
    assert caught.value.code == "insert-mismatch"


@given(st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_are_an_error_and_no_more(data: bytes) -> None:
    with pytest.raises(oi.SerializationError, match="damaged"):
        decode(data)


@given(st.integers(0, 200), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_is_an_error_or_other_values(place: int, byte: int) -> None:
    frame = bytearray(encode_values({"x": np.arange(3, dtype=np.float32), "n": 1}))
    frame[place % len(frame)] = byte
    with suppress(oi.SerializationError):
        decode(bytes(frame))


def test_objects_are_never_made_from_bytes() -> None:
    frame = encode_values({"x": np.arange(2, dtype=np.float64)}).replace(b'"<f8"', b'"|O8"')
    with pytest.raises(oi.SerializationError):
        decode(frame)


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(F32, (2,), np.array([1, np.nan], np.float32)),
        Tensor(BF16, (1, 2), np.array([[1, 2]], ml_dtypes.bfloat16)),
        Tensor(I4, (3,), np.array([0x21, 0x03], np.uint8)),
        Tensor(F32, (), np.array(2, np.float32)),
        Tensor(F32, (0, 2), np.zeros((0, 2), np.float32)),
    ],
)
def test_outputs_keep_type_shape_and_storage(tensor: Tensor) -> None:
    got = decode_answer(3, "c", encode_outputs({"y": tensor}))
    assert (got.index, got.name, got.error) == (3, "c", None)
    assert (got.outputs["y"].dtype, got.outputs["y"].shape) == (tensor.dtype, tensor.shape)
    assert got.outputs["y"].storage.tobytes() == tensor.storage.tobytes()


def test_errors_keep_class_code_message_and_place() -> None:
    sent = oi.ShapeError("no", code="insert-mismatch", block="entry", node_index=4, node_desc="op f")
    got = decode_answer(0, "", encode_error(sent)).error
    assert (type(got), got.code, str(got)) == (oi.ShapeError, "insert-mismatch", "no")
    assert (got.block, got.node_index, got.node_desc) == ("entry", 4, "op f")
    assert isinstance(decode_answer(0, "", encode_error(oi.PluginError("p"))).error, oi.PluginError)
    assert isinstance(decode_answer(0, "", encode_error(oi.DeviceError("d"))).error, oi.DeviceError)
    assert str(decode_answer(0, "", encode_error(KeyError("k"))).error) == "KeyError: 'k'"


def test_a_model_in_memory_is_sent_with_sizes_tensors_and_metadata() -> None:
    metadata = {"name": "é", "k": 2.5, "n": -3, "on": True, "a": np.array([1, 2], np.int16)}
    bf16 = np.array([1, 2], ml_dtypes.bfloat16)
    model = oi.Model.from_arrays({"w": bf16, "v": np.eye(2)}, sizevars={"B": 2}, metadata=metadata)
    sent = Job(graph=STATEFUL, model=model, sizes={"B": 3}, device="d", outputs=("x",), steps=2, keep_state=True)

    received = ReceivedJob.from_bytes(sent.to_bytes())
    got = received.job(model)

    assert got.graph == STATEFUL
    assert (got.sizes, got.device, got.outputs, got.steps, got.keep_state) == ({"B": 3}, "d", ("x",), 2, True)
    tensors = {name: received.arrays[place] for name, place in received.model["tensors"].items()}
    assert tensors["w"].dtype == bf16.dtype
    assert tensors["v"].tolist() == [[1, 0], [0, 1]]
    assert received.model["sizevars"] == {"B": 2}
    assert received.model["metadata"]["name"] == {"value": "é"}
    assert received.arrays[received.model["metadata"]["a"]["array"]].tolist() == [1, 2]


def test_an_environment_of_the_program_is_not_sent() -> None:
    with pytest.raises(oi.PluginError, match="in-process"):
        Job(graph=STATEFUL, model=oi.Model.from_arrays({}), sizes={}, environment=oi.Environment()).to_bytes()
