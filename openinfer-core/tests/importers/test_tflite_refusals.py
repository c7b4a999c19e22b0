"""What an importer of TFLite models refuses: options without a counterpart, states, and values that contradict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_models import Tensor, holds, imported, model, of, op

from openinfer import ModelImportError

F32, IMAGE = np.float32, (2, 4, 6, 3)


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def refused(tensors: list[Tensor], operator: Any, tmp_path: Path) -> str:
    with pytest.raises(ModelImportError) as raised:
        imported(model(tensors, [operator], "x", "y"), tmp_path)
    return str(raised.value)


@pytest.mark.parametrize(
    ("operator", "stored", "said"),
    [
        (op("MIRROR_PAD", "x s", "y", "MirrorPadOptions", Mode=1), ints(*[0] * 6, 4, 0), "margins of 4 and 0 around 3"),
        (op("GATHER", "x s", "y", "GatherOptions", BatchDims=1), ints(0), "1 dims of batches, with dim 0"),
        (
            op("RESIZE_BILINEAR", "x s", "y", "ResizeBilinearOptions"),
            ints(8),
            "the size [8], expected rows",
        ),
        (op("TRANSPOSE", "x s", "y", "TransposeOptions"), ints(0, 1, 1, 2), "the order [0, 1, 1, 2] of 4 dims"),
        (op("MEAN", "x s", "y", "ReducerOptions"), ints(9), "dim 9 of 4"),
        (op("RESHAPE", "x s", "y", "ReshapeOptions"), ints(7, -1), "RESHAPE 'y'(f32[2,4,6,3], i32[2])"),
    ],
    ids=lambda value: value.op if hasattr(value, "op") else "",
)
def test_options_without_a_counterpart_are_named(operator: Any, stored: Any, said: str, tmp_path: Path) -> None:
    assert said in refused(
        [of("x", IMAGE), holds("s", stored.reshape(-1, 2) if stored.size == 8 else stored), of("y", IMAGE)],
        operator,
        tmp_path,
    )


def test_states_of_layers_that_are_not_there_are_named(tmp_path: Path) -> None:
    state = of("state", [1, 8], variable=True)
    said = refused([of("x", [1, 3]), state, of("y", [1, 8])], op("RNN", "x - - - state", "y"), tmp_path)
    assert "RNN 'y'" in said
    assert "sequences whose state is within the model" in said


@pytest.mark.parametrize(("start", "size"), [(4, 5), (-2, 2), (0, -2), (7, -1)])
def test_a_slice_beyond_a_dim_is_refused(start: int, size: int, tmp_path: Path) -> None:
    tensors = [of("x", [6]), holds("b", ints(start)), holds("s", ints(size)), of("y", [])]

    assert f"{size} places from {start} on of a dim of 6" in refused(tensors, op("SLICE", "x b s", "y"), tmp_path)
