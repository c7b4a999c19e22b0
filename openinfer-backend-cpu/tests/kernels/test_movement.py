"""Data movement, indexing, einsum and resizing, compared with the ONNX reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openinfer.errors import OpenInferError


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def indices(*shape: int, low: int, high: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = floats(3, 4, 5)
PAD = (1, 0, 2, 2, 1, 0)
BY_ATTRIBUTES: dict[str, tuple[str, list[np.ndarray], dict[str, Any], str, list[np.ndarray], dict[str, Any]]] = {
    "squeeze": ("squeeze", [floats(3, 1, 5, 1)], {"axes": (1,)}, "Squeeze", [ints(1)], {}),
    "unsqueeze": ("unsqueeze", [X], {"axes": (0, -1)}, "Unsqueeze", [ints(0, -1)], {}),
    "expand": ("expand", [floats(3, 1, 5)], {"shape": (2, 1, 4, 1)}, "Expand", [ints(2, 1, 4, 1)], {}),
    "slice": (
        *("slice", [X], {"starts": (-1, 1), "ends": (-9, 4), "axes": (0, 2), "steps": (-1, 2)}),
        *("Slice", [ints(-1, 1), ints(-9, 4), ints(0, 2), ints(-1, 2)], {}),
    ),
    "concat": ("concat", [X, floats(3, 2, 5, seed=1)], {"axis": 1}, "Concat", [], {"axis": 1}),
    "pad": ("pad", [X], {"pads": PAD, "value": 2.5}, "Pad", [ints(*PAD), np.float32(2.5)], {}),
    "pad reflect": ("pad", [X], {"pads": PAD, "mode": "reflect"}, "Pad", [ints(*PAD)], {"mode": "reflect"}),
    "pad edge": ("pad", [X], {"pads": PAD, "mode": "edge"}, "Pad", [ints(*PAD)], {"mode": "edge"}),
    "pad wrap": ("pad", [X], {"pads": PAD, "mode": "wrap"}, "Pad", [ints(*PAD)], {"mode": "wrap"}),
    "tile": ("tile", [X], {"repeats": (2, 1, 3)}, "Tile", [ints(2, 1, 3)], {}),
    "triu": ("triu", [X], {"k": 1}, "Trilu", [np.int64(1)], {"upper": 1}),
    "tril": ("tril", [X], {"k": -1}, "Trilu", [np.int64(-1)], {"upper": 0}),
    "gather": ("gather", [X, indices(2, 3, low=-4, high=3)], {"axis": 1}, "Gather", [], {"axis": 1}),
    "gather_elements": (
        *("gather_elements", [X, indices(3, 6, 5, low=-4, high=3)], {"axis": 1}),
        *("GatherElements", [], {"axis": 1}),
    ),
    "gather_nd": ("gather_nd", [X, indices(7, 2, low=-3, high=2)], {}, "GatherND", [], {}),
    "gather_nd in batches": (
        *("gather_nd", [X, indices(3, 2, 1, low=0, high=3)], {"batch_dims": 1}),
        *("GatherND", [], {"batch_dims": 1}),
    ),
    "depth_to_space": (
        *("depth_to_space", [floats(2, 8, 3, 2)], {"block": 2}),
        *("DepthToSpace", [], {"blocksize": 2, "mode": "DCR"}),
    ),
    "depth_to_space CRD": (
        *("depth_to_space", [floats(2, 8, 3, 2)], {"block": 2, "mode": "CRD"}),
        *("DepthToSpace", [], {"blocksize": 2, "mode": "CRD"}),
    ),
    "space_to_depth": (
        *("space_to_depth", [floats(2, 3, 4, 6)], {"block": 2}),
        *("SpaceToDepth", [], {"blocksize": 2}),
    ),
    "einsum": (
        *("einsum", [floats(2, 3, 4), floats(4, 5, seed=1)], {"equation": "...i,ij->...j"}),
        *("Einsum", [], {"equation": "...i,ij->...j"}),
    ),
    "conv1d": (
        *("conv1d", [floats(2, 4, 9), floats(6, 2, 3, seed=1), floats(6, seed=2)]),
        *({"groups": 2, "stride": 2, "padding": (2, 1), "dilation": 2}, "Conv", []),
        {"group": 2, "strides": [2], "pads": [2, 1], "dilations": [2]},
    ),
    "conv_transpose2d": (
        *("conv_transpose2d", [floats(2, 3, 4, 5), floats(3, 2, 3, 2, seed=1), floats(2, seed=2)]),
        *({"stride": (2, 1), "padding": (1, 0, 0, 1), "output_padding": (1, 0)}, "ConvTranspose", []),
        {"strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
    ),
    "max_pool1d": (
        *("max_pool1d", [floats(2, 3, 9)], {"kernel": 3, "stride": 2, "padding": 1}),
        *("MaxPool", [], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ),
    "avg_pool1d": (
        *("avg_pool1d", [floats(2, 3, 9)], {"kernel": 3, "stride": 2, "padding": 1}),
        *("AveragePool", [], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ),
    "resize2d": (
        *("resize2d", [floats(1, 2, 3, 5)], {"size": (6, 10)}),
        *("Resize", [ints(1, 2, 6, 10)]),
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "resize2d linear": (
        *("resize2d", [floats(1, 2, 4, 5)], {"size": (7, 3), "mode": "linear"}),
        *("Resize", [ints(1, 2, 7, 3)]),
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    ),
}


@pytest.mark.rule("operators.indices.1", "operators.types.4")
@pytest.mark.parametrize("case", BY_ATTRIBUTES)
def test_onnx_agrees(run_operator: Any, onnx_reference: Any, case: str) -> None:
    op, given, settings, theirs, more, attributes = BY_ATTRIBUTES[case]
    names = "xwb" if len(given) == 3 else "xw"
    asked = dict(zip(names, given, strict=False)) | {f"more{n}": array for n, array in enumerate(more)}

    found = run_operator(op, given, **settings)[0]

    if theirs == "Resize":
        expected = resized(onnx_reference, given[0], more[0], attributes)
    else:
        expected = onnx_reference(theirs, asked, opset=21, **attributes)[0]
    assert found.shape == expected.shape
    assert found == pytest.approx(expected, abs=1e-5)


def resized(onnx_reference: Any, x: np.ndarray, size: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """Ask for a Resize with its two absent inputs given by what they stand for."""
    scales = np.array(size, np.float32) / np.array(x.shape, np.float32)
    return onnx_reference("Resize", {"x": x, "roi": np.zeros(0, np.float32), "scales": scales}, **attributes)[0]


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattering_agrees_with_onnx(run_operator: Any, onnx_reference: Any, reduction: str) -> None:
    where = np.array([[0, 2], [1, -1], [0, 0], [2, 1]]) if reduction != "none" else np.array([[0, 2], [1, -2]])
    updates = floats(*where.shape, seed=1)
    x = floats(3, 2)
    given = {"x": x, "i": where, "u": updates}

    found = run_operator("scatter", [x, where, updates], reduction=reduction)[0]
    by_tuple = run_operator("scatter_nd", [x, where[:, :1], updates], reduction=reduction)[0]

    assert found == pytest.approx(onnx_reference("ScatterElements", given, opset=18, reduction=reduction)[0], abs=1e-6)
    given["i"] = where[:, :1]
    assert by_tuple == pytest.approx(onnx_reference("ScatterND", given, opset=18, reduction=reduction)[0], abs=1e-6)


@pytest.mark.rule("operators.indices.3")
def test_of_several_updates_at_one_place_the_last_stays(run_operator: Any) -> None:
    x, where, updates = np.zeros(3, np.int32), np.array([1, 1, 1]), np.array([7, 8, 9], np.int32)

    assert run_operator("scatter", [x, where, updates])[0].tolist() == [0, 9, 0]
    assert run_operator("scatter_nd", [x, where[:, None], updates])[0].tolist() == [0, 9, 0]


def test_parts_agree_with_onnx(run_operator: Any, onnx_reference: Any) -> None:
    x = floats(7, 2)

    found = run_operator("split", [x], parts=3)
    expected = onnx_reference("Split", {"x": x}, outputs=3, opset=18, num_outputs=3)

    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


OUT_OF_RANGE: dict[str, tuple[str, list[np.ndarray], str]] = {
    "gather": ("gather", [X, ints(0, 3)], "index 3 at [1] is out of range (legal: -3..2)"),
    "gather below": ("gather", [X, ints(-4)], "index -4 at [0]"),
    "embedding below 0": ("embedding", [ints(-1), X], "index -1 at [0] is out of range (legal: 0..2)"),
    "embedding": ("embedding", [np.array(2**64 - 1, np.uint64), X], f"index {2**64 - 1} at [0] is out of range"),
    "gather_elements": ("gather_elements", [X, np.full((1, 1, 1), 3)], "index 3 at [0, 0, 0]"),
    "gather_nd": ("gather_nd", [X, np.array([[0, 4]])], "dim 1: index 4 at [0]"),
    "scatter": ("scatter", [X, np.full((1, 1, 1), 9), np.ones((1, 1, 1), np.float32)], "index 9"),
    "scatter_nd": ("scatter_nd", [X, np.array([[5]]), floats(1, 4, 5)], "index 5"),
    "of nothing": ("gather", [floats(0, 2), ints(0)], "none: there is nothing to index"),
}


@pytest.mark.rule("operators.indices.2")
@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_an_index_out_of_range_is_an_error(run_operator: Any, case: str) -> None:
    op, given, message = OUT_OF_RANGE[case]

    with pytest.raises(OpenInferError) as error:
        run_operator(op, given)

    assert error.value.code == "out-of-range"
    assert message in str(error.value)


EMPTY_RESULTS: dict[str, tuple[str, list[np.ndarray]]] = {
    "gather": ("gather", [floats(3, 0), ints(7)]),
    "embedding": ("embedding", [ints(-1), floats(3, 0)]),
    "gather_nd": ("gather_nd", [floats(3, 0), np.array([[9]])]),
    "scatter_nd": ("scatter_nd", [floats(3, 0), np.array([[9]]), floats(1, 0)]),
    "pow": ("pow", [np.zeros((0, 1), np.int32), np.array([-1], np.int32)]),
}


@pytest.mark.parametrize("case", EMPTY_RESULTS)
def test_indices_are_not_read_for_a_result_without_elements(run_operator: Any, case: str) -> None:
    op, given = EMPTY_RESULTS[case]

    assert run_operator(op, given)[0].size == 0


FUSED: dict[str, tuple[list[np.ndarray], dict[str, Any]]] = {
    "conv1d": ([floats(2, 4, 9), floats(6, 2, 3, seed=1)], {"groups": 2, "padding": "same_upper", "stride": 2}),
    "conv_transpose2d": (
        [floats(2, 4, 3, 5), floats(4, 3, 3, 2, seed=1), floats(6, seed=2)],
        {"groups": 2, "stride": (3, 1), "dilation": (1, 2), "padding": (4, 0, 1, 1), "output_padding": (2, 0)},
    ),
    "max_pool1d": ([floats(2, 3, 9)], {"kernel": 3, "padding": (1, 0), "dilation": 2}),
    "avg_pool1d": ([floats(2, 3, 9)], {"kernel": 3, "padding": 1, "ceil_mode": True, "stride": 3}),
}


@pytest.mark.rule("operators.definitions.3")
@pytest.mark.parametrize("op", FUSED)
def test_a_kernel_agrees_with_the_decomposition(run_operator: Any, op: str) -> None:
    given, settings = FUSED[op]

    found, expected = (run_operator(op, given, without_kernels=without, **settings)[0] for without in ((), (op,)))

    assert found == pytest.approx(expected, abs=1e-5)


def test_transposed_convolution_works_in_pieces(run_operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from openinfer_backend_cpu.kernels import transposed_convolution

    given = [floats(3, 2, 5, 4), floats(2, 3, 3, 3, seed=1)]
    expected = run_operator("conv_transpose2d", given, stride=2)[0]
    monkeypatch.setattr(transposed_convolution, "WORKSPACE", 100)

    assert run_operator("conv_transpose2d", given, stride=2)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("workspace", [1 << 20, 2000, 64])
def test_depthwise_convolution_agrees_with_onnx_in_pieces_of_any_size(
    run_operator: Any, onnx_reference: Any, monkeypatch: pytest.MonkeyPatch, workspace: int
) -> None:
    from openinfer_backend_cpu.kernels import convolution

    monkeypatch.setattr(convolution, "WORKSPACE", workspace)
    x, w = floats(2, 6, 7, 5), floats(12, 1, 3, 2, seed=1)
    settings = {"groups": 6, "padding": (1, 0, 2, 1), "dilation": (1, 2)}
    expected = onnx_reference("Conv", {"x": x, "w": w}, opset=21, group=6, pads=[1, 0, 2, 1], dilations=[1, 2])[0]

    assert run_operator("conv2d", [x, w], **settings)[0] == pytest.approx(expected, abs=1e-5)


def test_float_scatter_skips_nan_like_max(run_operator: Any) -> None:
    x, where = np.array([np.nan, 1.0], np.float32), ints(0, 1)
    updates = np.array([2.0, np.nan], np.float32)

    assert run_operator("scatter", [x, where, updates], reduction="max")[0].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_updates_without_elements_change_nothing(run_operator: Any, reduction: str) -> None:
    x, where = np.zeros((33, 0), np.float32), np.full((9, 1), 30)

    found = run_operator("scatter_nd", [x, where, np.zeros((9, 0), np.float32)], reduction=reduction)

    assert found[0].shape == (33, 0)
