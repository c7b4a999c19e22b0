"""What notebooks show, and the picture of a file's layout."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from openinfer_oinf import (
    QuantParams,
    QuantScale,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
    quantize_array,
)
from openinfer_oinf.layoutpicture import layout_picture

QUANT = QuantParams("symmetric", QuantScale.per_tensor(0.5))
MODEL = {
    "sizevars": {"B": 4},
    "metadata": {"mode": "fast", "text.utf8": "<script>alert(1)</script>"},
    "tensors": {
        "w": np.zeros((4, 64), np.float32),
        "q": TensorSpec(np.ones(3, np.int8), quant=QUANT),
        "cache": UninitializedTensor("f16", (2,)),
    },
}


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        del attrs
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def parsed(html: str) -> Cells:
    cells = Cells()
    cells.feed(html)
    return cells


def test_a_file_shows_its_tables():
    with open_oinf(dataclass_to_oinf(MODEL)) as file:
        cells = parsed(file._repr_html_())
    assert {"B", "4", "mode", 'str = "fast"', "w", "f32", "[4, 64]", "1.0 KiB", "3 B, quantised", "no data"} <= {
        *cells.texts
    }
    assert "script" not in cells.tags


def test_texts_of_a_file_are_escaped(raw):
    blob = raw.File(metadata=[raw.Metadata(b"m", 14, raw.string(b"<img src=x>"))]).build()
    with open_oinf(blob, check="compat") as file:
        cells = parsed(file._repr_html_())
    assert "img" not in cells.tags
    assert 'str = "<img src=x>"' in cells.texts


def test_a_tensor_shows_its_row():
    with open_oinf(dataclass_to_oinf(MODEL)) as file:
        cells = parsed(file.tensor("w")._repr_html_())
        assert cells.texts[-4:] == ["w", "f32", "[4, 64]", "1.0 KiB"]
        assert repr(file.tensor("w")) == "<tensor w: f32[4, 64], 1.0 KiB>"


def test_long_tables_are_cut():
    blob = dataclass_to_oinf({"tensors": {f"w{at}": np.zeros(1) for at in range(150)}})
    with open_oinf(blob) as file:
        html = file._repr_html_()
    assert html.count("<tr>") == 101
    assert "the first 100 of 150" in html


def test_the_picture_is_to_scale():
    with open_oinf(dataclass_to_oinf(MODEL)) as file:
        title, bar, legend = layout_picture(file.index)
        size, tensor = file.file_size, file.tensor("w")
    signs = bar.strip()[1:-1]
    assert len(signs) == 64
    assert title == f"layout, {size // 64} bytes to a sign"
    middle = (tensor.offset + tensor.nbytes // 2) * 64 // size
    assert signs[0] == "h"
    assert signs[middle] in "#="
    assert abs((signs.count("#") + signs.count("=")) - tensor.nbytes * 64 / size) < 3
    assert "h header" in legend


@pytest.mark.parametrize("contents", [{}, {"sizevars": {"B": 1}}, {"tensors": {"e": np.zeros((0, 2))}}])
def test_the_picture_of_small_files(contents):
    with open_oinf(dataclass_to_oinf(contents)) as file:
        bar = layout_picture(file.index)[1].strip()
        assert len(bar) - 2 == file.file_size // 8
        assert bar.startswith("[hhhhhhhhh")


def test_the_picture_of_many_tensors_takes_little_time():
    names = {f"w{at:05}": UninitializedTensor("f32", (4,)) for at in range(20_000)}
    with open_oinf(dataclass_to_oinf({"tensors": names})) as file:
        assert layout_picture(file.index)[1].count("t") > 60


def test_what_is_to_be_written_shows_type_shape_and_size():
    assert repr(TensorSpec(np.ones((256, 3), np.float32))) == "<TensorSpec: f32[256, 3], 3.0 KiB>"
    assert repr(TensorSpec([1, 2, 3], "i4", "w.0", QUANT)) == "<TensorSpec w.0: i4[3], 2 B, quantised>"
    assert repr(TensorSpec(["a"])).startswith("<TensorSpec: arrays of <U1 cannot be stored")
    assert repr(quantize_array(np.ones((2, 4)), "i4")) == "<QuantizedArray: i4[2, 4], 4 B, symmetric>"
