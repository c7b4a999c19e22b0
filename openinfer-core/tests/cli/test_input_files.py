"""Files that are given as inputs and hold no array: each is refused in our own words, whichever NumPy is installed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from openinfer.cli.run_values import Input
from openinfer.dtypes import F32
from openinfer.errors import ExecutionError
from openinfer.ir.types import TensorType
from openinfer.simulate.values import storage_of


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


GOOD = saved(np.zeros(4, np.float32))
HUGE = GOOD.replace(b"(4,)", b"(9" + b"0" * 30 + b",)")
BROKEN = {
    "nothing": (b"", "it is empty"),
    "text": (b"1 2 3\n", "it begins with b'1 2 3\\n'"),
    "a piece of the beginning": (GOOD[:4], "it begins with"),
    "archive": (b"PK\x03\x04", "archive (.npz)"),
    "cut off in the header": (GOOD[:40], "its header is broken, its data are cut off"),
    "cut off in the data": (GOOD[:-3], "its data are cut off"),
    "Python objects": (saved(np.array([{}], object)), "Python objects, which are not opened"),
    "more than there is": (HUGE, "'x.npy'"),
}


@pytest.mark.parametrize(("content", "why"), BROKEN.values(), ids=BROKEN)
def test_a_file_without_an_array_says_why(
    content: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.npy").write_bytes(content)
    with pytest.raises(ExecutionError) as caught:
        Input("x", "x.npy").value(TensorType(F32, (4,)), (0,))
    assert caught.value.code == "input-file"
    assert why in str(caught.value)
    for word in ("allow_pickle", "pickle", "EOF", "reshape", "memmap"):
        assert word not in str(caught.value)


def test_a_file_with_an_array_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(GOOD)
    assert Input("x", str(file)).value(TensorType(F32, (4,)), (0,)).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("source", "value"), [("4,0,7", [4, 0, 7]), ("[4, 0]", [4, 0]), ("[1, 2],[3, 4]", None), ("4,", None)]
)
def test_numbers_with_commas_are_a_list(source: str, value: list[int] | None) -> None:
    wanted = TensorType(F32, (3,))
    if value is None:
        with pytest.raises(ExecutionError, match="expected a file ending in"):
            Input("x", source).value(wanted, (0,))
    else:
        assert Input("x", source).value(wanted, (0,)) == value


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0)])
def test_one_number_is_a_value_without_elements_too(shape: tuple[int, ...]) -> None:
    wanted = TensorType(F32, shape)
    assert storage_of(Input("x", "1").value(wanted, (0,)), wanted, "x").shape == shape
