"""Models in memory and the questions that can be asked of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from openinfer.errors import ModelError
from openinfer.model import Model, ModelLoader


def test_a_model_of_arrays_tells_types_and_values() -> None:
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


def test_what_is_missing_is_told_with_near_names() -> None:
    model = Model.from_arrays({"weight": np.zeros(1, np.float32)})
    with pytest.raises(ModelError, match="did you mean `weight`"):
        model.load_tensor("weigth")


def test_element_types_that_openinfer_lacks_are_refused() -> None:
    with pytest.raises(ModelError, match="complex128"):
        Model.from_arrays({"z": np.zeros(1, np.complex128)})


def test_loading_from_many_threads_gives_one_array() -> None:
    model = Model.from_arrays({"w": np.zeros(1000, np.float32)})
    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(lambda _: model.load_tensor("w"), range(64)))
    assert all(array is arrays[0] for array in arrays)


def test_a_file_of_no_known_format_is_refused(tmp_path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError, match=r"no model file of a known format.*oinf"):
        ModelLoader.open(path)
    with pytest.raises(ModelError, match="cannot read model"):
        ModelLoader.open(tmp_path / "absent.oinf")


def test_a_container_is_opened_without_reading_payloads(tmp_path) -> None:
    from openinfer_oinf import save_file

    path = tmp_path / "model.oinf"
    save_file({"w": np.arange(3, dtype=np.int32)}, path, sizevars={"N": 3}, metadata={"name": "x"})
    with ModelLoader.open(path) as model:
        assert model.sizevars == {"N": 3}
        assert model.metadata == {"name": "x"}
        assert model.load_tensor("w").tolist() == [0, 1, 2]
        assert "1 tensors" in repr(model)


def test_a_damaged_container_is_a_model_error(tmp_path) -> None:
    path = tmp_path / "model.oinf"
    path.write_bytes(b"OINF\x00" + bytes(100))
    with pytest.raises(ModelError, match="E_VERSION"):
        ModelLoader.open(path)
