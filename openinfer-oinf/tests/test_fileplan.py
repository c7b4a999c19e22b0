"""`plan`: the size of a file before it is written; `zeros`: values for declarations, within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer_oinf import (
    OinfError,
    OinfWriter,
    QuantParams,
    QuantScale,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
    plan,
    save_file,
)

TENSORS = {
    "w": np.ones((3, 5), np.float32),
    "q": TensorSpec(np.ones((2, 3), np.int8), quant=QuantParams("symmetric", QuantScale.per_channel(0, [1, 2]))),
    "cache": UninitializedTensor("f16", (8,)),
}


@pytest.mark.parametrize("options", [{}, {"align": 4096}, {"checksums": True}])
def test_the_size_is_that_of_the_file(tmp_path, options):
    tables = {"sizevars": {"B": 4}, "metadata": {"mode": "fast"}}
    save_file(TENSORS, tmp_path / "m.oinf", **tables, **options)
    made = plan(TENSORS, **tables, **options)
    assert made.file_size == (tmp_path / "m.oinf").stat().st_size
    with open_oinf(tmp_path / "m.oinf") as file:
        assert {name: place.offset for name, place in made.tensors.items()} == {
            each.name: each.offset for each in file.tensors() if each.has_data
        }


@given(dims=st.lists(st.integers(0, 9), max_size=3), dtype=st.sampled_from(["f32", "i4", "t1", "bf16"]))
def test_type_and_shape_are_enough(dims, dtype):
    made = plan({"w": (dtype, tuple(dims))})
    assert made.file_size == len(dataclass_to_oinf({"tensors": {"w": TensorSpec(np.ones(dims, np.int8), dtype=dtype)}}))


def test_a_plan_takes_no_room():
    assert plan({"w": ("f32", (1 << 30, 1 << 20))}).file_size > 1 << 52


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan(TENSORS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tensors", "code"), [({"a b": ("f32", (1,))}, "E_NAME"), ({"w": ("f5", (1,))}, "E_DTYPE"), ({"w": {}}, "E_DTYPE")]
)
def test_what_could_not_be_written_is_refused(tensors, code):
    with pytest.raises(OinfError) as caught:
        plan(tensors)
    assert caught.value.code == code


class TestZeros:
    @pytest.fixture
    def file(self, tmp_path):
        with OinfWriter(tmp_path / "m.oinf") as writer:
            for name, dtype, shape in (("a", "f16", (2, 3)), ("big", "u8", (1 << 60,)), ("t", "t1", (2,))):
                writer.declare(name, dtype, shape, data=False)
            writer.declare("none", "i8", (1 << 62, 0), data=False)
            writer.declare("packed", "i4", (3,), data=False)
        with open_oinf(tmp_path / "m.oinf") as opened:
            yield opened

    def test_a_declaration_has_zeros_on_request(self, file):
        zeros = file.tensor("a").zeros()
        assert (zeros.dtype, zeros.shape, zeros.any()) == (np.float16, (2, 3), False)
        assert zeros.flags.writeable
        assert file.tensor("packed").zeros().tolist() == [0, 0, 0]

    @pytest.mark.parametrize(("name", "code"), [("big", "E_LIMIT"), ("t", "E_VALUE"), ("none", "E_DIM_OVERFLOW")])
    def test_what_cannot_be_made(self, file, name, code):
        with pytest.raises(OinfError) as caught:
            file.tensor(name).zeros()
        assert (caught.value.code, caught.value.entry) == (code, name)

    def test_the_cap_is_in_bytes(self, file):
        assert file.tensor("a").zeros(max_nbytes=12).size == 6
        with pytest.raises(OinfError, match="12 bytes of zeros"):
            file.tensor("a").zeros(max_nbytes=11)
