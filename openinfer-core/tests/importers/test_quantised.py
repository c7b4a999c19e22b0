"""Weights that a model dequantises stay quantised in the program and in its container."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import agrees, info, model, node, run, saved, weights

from openinfer.errors import ModelImportError
from openinfer.importers import load
from openinfer.ir.nodes import Op
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(8)
UINT8 = TensorProto.UINT8


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def scales(*shape: int) -> Any:
    return (RNG.random(shape) + 0.5).astype(np.float32) / 32


def nibbles(name: str, *shape: int) -> Any:
    """Return an initialiser of 4-bit integers."""
    return helper.make_tensor(name, TensorProto.INT4, shape, RNG.integers(-8, 8, shape).reshape(-1).tolist())


def whole(*shape: int) -> Any:
    return RNG.integers(-100, 100, shape).astype(np.int8)


@pytest.mark.parametrize("size", [0, 8])
def test_a_product_with_4_bit_weights_reads_them_as_they_are(size: int, tmp_path: Path) -> None:
    shape = (32 // size, 6) if size else (6,)
    given = [nibbles("w", 32, 6), *weights(s=scales(*shape), b=rand(6)), nibbles("z", *shape)]
    attributes = {"axis": 0, "block_size": size} if size else {"axis": 1}
    nodes = [
        node("DequantizeLinear", "w s z", "wf", **attributes),
        node("MatMul", "x wf", "p"),
        node("Add", "p b", "y"),
    ]
    proto = model(nodes, [info("x", ["n", 32])], [info("y", None)], given, opset=21)
    imported = load(saved(proto, tmp_path))
    group = f", group_size={size}" if size else ""
    assert f"op qmatmul(x, w, scale=s, zero_point=z, bias=b{group}) >> y;" in imported.text
    assert imported.model.tensors["w"].dtype.name == "i4"
    agrees(proto, imported, {"x": rand(3, 32)})


def test_weights_may_lie_transposed(tmp_path: Path) -> None:
    nodes = [node("DequantizeLinear", "w s", "wf", axis=0), node("Gemm", "x wf b", "y", transB=1)]
    proto = model(
        nodes, [info("x", ["n", 32])], [info("y", None)], weights(w=whole(6, 32), s=scales(6), b=rand(6)), opset=21
    )
    imported = load(saved(proto, tmp_path))
    assert "op qmatmul(x, w, scale=s, bias=b, trans_w=true) >> y;" in imported.text
    agrees(proto, imported, {"x": rand(3, 32)})


def test_scales_along_the_sum_are_applied_before_it(tmp_path: Path) -> None:
    nodes = [node("DequantizeLinear", "w s", "wf", axis=0), node("MatMul", "x wf", "y")]
    proto = model(nodes, [info("x", [3, 32])], [info("y", None)], weights(w=whole(32, 6), s=scales(32)), opset=21)
    imported = load(saved(proto, tmp_path))
    assert "op dequantize_linear(w, scale=s, axis=0) >> wf;" in imported.text
    agrees(proto, imported, {"x": rand(3, 32)})


def bytes_of(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def test_a_product_of_bytes_is_a_sum_of_integers(tmp_path: Path) -> None:
    initial = weights(xs=np.float32(0.02), xz=np.uint8(7), w=whole(32, 6), s=scales(6), b=rand(6))
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w s", "wf", axis=1),
        node("MatMul", "xf wf", "p"),
        node("Add", "p b", "y"),
    ]
    proto = model(nodes, [info("x", ["n", 32], UINT8)], [info("y", None)], initial, opset=21)
    imported = load(saved(proto, tmp_path))
    assert "op matmul_integer(x, w, a_zero=" in imported.text
    agrees(proto, imported, {"x": bytes_of(3, 32)})


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_convolution_of_bytes_is_a_sum_of_integers(has_bias: bool, tmp_path: Path) -> None:
    initial = weights(xs=np.float32(0.02), xz=np.uint8(7), w=whole(6, 2, 3, 3), s=scales(6), b=rand(6))
    attributes = {"pads": [1, 1, 1, 1], "strides": [2, 2], "group": 2}
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w s", "wf", axis=0),
        node("Conv", "xf wf b" if has_bias else "xf wf", "y", **attributes),
    ]
    proto = model(nodes, [info("x", ["n", 4, 9, 9], UINT8)], [info("y", None)], initial, opset=21)
    imported = load(saved(proto, tmp_path))
    assert "op conv_integer(x, w, x_zero=" in imported.text
    agrees(proto, imported, {"x": bytes_of(2, 4, 9, 9)})


def test_weights_of_a_convolution_of_floats_stay_bytes_in_the_container(tmp_path: Path) -> None:
    nodes = [node("DequantizeLinear", "w s", "wf", axis=0), node("Conv", "x wf", "y")]
    proto = model(
        nodes, [info("x", [1, 2, 5, 5])], [info("y", None)], weights(w=whole(6, 2, 3, 3), s=scales(6)), opset=21
    )
    imported = load(saved(proto, tmp_path))
    assert imported.model.tensors["w"].dtype.name == "i8"
    agrees(proto, imported, {"x": rand(1, 2, 5, 5)})


@pytest.mark.parametrize("axis", [None, 0])
def test_weights_of_a_convolution_of_floats_stay_in_bytes(axis: int | None, tmp_path: Path) -> None:
    attributes = {} if axis is None else {"axis": axis}
    nodes = [node("DequantizeLinear", "w s", "wf", **attributes), node("Conv", "x wf b", "y", pads=[1] * 4)]
    initial = weights(w=bytes_of(4, 2, 3, 3), s=np.float32(0.01) if axis is None else scales(4), b=rand(4))
    proto = model(nodes, [info("x", ["n", 2, 6, 6])], [info("y", None)], initial, opset=21)
    imported = load(saved(proto, tmp_path))
    assert "w: u8[4, 2, 3, 3];" in imported.text
    assert imported.model.tensors["w"].dtype.name == "u8"
    agrees(proto, imported, {"x": rand(2, 2, 6, 6)})


TIED = [((0.1, 0.05, 0.01), 0.50000006), ((0.02, 0.05, 0.002), 0.5)]
"""Scales of two factors and of the result, and the factor of f32; with one rounding it would be another f32."""

ZEROS = weights(xz=np.uint8(0), wz=np.int8(0), yz=np.uint8(0))

QUANTISED_AGAIN = {
    "QLinearMatMul": [node("QLinearMatMul", "x xs xz w ws wz ys yz", "y")],
    "QLinearConv": [node("QLinearConv", "x xs xz w ws wz ys yz", "y")],
    "MatMul": [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf"),
        node("MatMul", "xf wf", "p"),
        node("QuantizeLinear", "p ys yz", "y"),
    ],
    "Conv": [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf"),
        node("Conv", "xf wf", "p"),
        node("QuantizeLinear", "p ys yz", "y"),
    ],
}


def codes_of(factor: float, sums: Any) -> list[int]:
    """Return sums times a factor, rounded half to even and clipped, in exact arithmetic."""
    return [min(round(Fraction(float(np.float32(factor))) * int(total)), 255) for total in sums]


@pytest.mark.rule("operators.quantisation.3")
@pytest.mark.parametrize(("scales", "factor"), TIED)
@pytest.mark.parametrize("op", QUANTISED_AGAIN)
def test_products_are_quantised_again_by_one_factor(
    op: str, scales: tuple[float, ...], factor: float, tmp_path: Path
) -> None:
    x, kernel = np.arange(256), np.array([1, 2, 3, 5])
    shape, form = ((256, 1), (1, 4)) if op.endswith("MatMul") else ((1, 1, 16, 16), (4, 1, 1, 1))
    constants = weights(w=kernel.astype(np.int8).reshape(form))
    constants += weights(**dict(zip(("xs", "ws", "ys"), np.float32(scales), strict=True)))
    proto = model(QUANTISED_AGAIN[op], [info("x", shape, UINT8)], [info("y", None, UINT8)], [*ZEROS, *constants])

    (found,) = run(load(saved(proto, tmp_path)), {"x": x.astype(np.uint8).reshape(shape)})

    columns = found.T if op.endswith("MatMul") else found.reshape(4, 256)
    assert [column.tolist() for column in columns] == [codes_of(factor, x * number) for number in kernel]


@pytest.mark.parametrize(("scales", "factor"), TIED)
def test_scales_of_the_running_program_are_combined_likewise(
    scales: tuple[float, ...], factor: float, tmp_path: Path
) -> None:
    inputs = [info("x", [1, 1, 16, 16], UINT8), *(info(name, []) for name in ("xs", "ws", "ys"))]
    constants = weights(w=np.ones((1, 1, 1, 1), np.int8))
    proto = model(QUANTISED_AGAIN["QLinearConv"], inputs, [info("y", None, UINT8)], [*ZEROS, *constants])
    x = np.arange(256, dtype=np.uint8)
    given = dict(zip(("xs", "ws", "ys"), np.float32(scales), strict=True))

    (found,) = run(load(saved(proto, tmp_path)), {"x": x.reshape(1, 1, 16, 16), **given})

    assert found.reshape(-1).tolist() == codes_of(factor, x)


@pytest.mark.parametrize("zero", [0, 101])
@pytest.mark.parametrize("op", ["QLinearMatMul", "QLinearConv"])
def test_products_of_constants_are_rounded_before_the_zero_point_is_added(op: str, zero: int, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.uint8)
    shape, form = ((64, 1), (1, 1)) if op.endswith("MatMul") else ((1, 1, 8, 8), (1, 1, 1, 1))
    factors = weights(x=x.reshape(shape), w=np.ones(form, np.int8), xz=np.uint8(0), wz=np.int8(0), yz=np.uint8(zero))
    scales = weights(**dict.fromkeys(("xs", "ws", "ys"), np.float32(0.5)))
    nodes = [*QUANTISED_AGAIN[op], node("Identity", "y", "z")]
    proto = model(nodes, [], [info("z", shape, UINT8)], [*factors, *scales])

    (codes,) = run(load(saved(proto, tmp_path)), {})

    assert codes.reshape(-1).tolist() == [round(Fraction(int(number), 2)) + zero for number in x]


EVERY_F16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE_F16 = EVERY_F16[np.isfinite(EVERY_F16)]


def quantised_by(runtime: Any, proto: Any, inputs: dict[str, Any]) -> Any:
    """Return what ONNX Runtime computes, without optimisations."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


F16_SCALES = (0.1, 0.05, 0.01, 0.3, 1.7, 6e-8, 2.5, 100.0, 6e4, -0.333)


@pytest.mark.parametrize("zero", [np.uint8(3), np.int8(-5), np.uint16(1000), np.int16(7)])
@pytest.mark.parametrize(
    ("opset", "types", "attributes"),
    [
        (21, (np.float16, np.float16), {}),
        (23, (np.float16, np.float16), {}),
        (23, (np.float16, np.float16), {"precision": TensorProto.FLOAT}),
        (23, (np.float16, np.float32), {}),
        (23, (np.float16, np.float32), {"precision": TensorProto.FLOAT16}),
        (23, (np.float32, np.float16), {}),
    ],
)
def test_quotients_have_the_precision_that_onnxruntime_gives_them(
    opset: int, types: tuple[Any, Any], attributes: dict[str, Any], zero: Any, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="what it computes is compared")
    x_type, scale_type = types
    infos = [info("x", ["n"], number(x_type)), info("s", [], number(scale_type)), info("z", [], number(zero.dtype))]
    proto = model([node("QuantizeLinear", "x s z", "y", **attributes)], infos, [info("y", ["n"], 0)], opset=opset)
    imported = load(saved(proto, tmp_path))

    for scale in F16_SCALES:
        inputs = {"x": FINITE_F16.astype(x_type), "s": np.array(scale, scale_type), "z": np.array(zero)}
        proto.graph.output[0].type.tensor_type.elem_type = number(zero.dtype)
        np.testing.assert_array_equal(run(imported, inputs)[0], quantised_by(runtime, proto, inputs)[0])


def number(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@pytest.mark.parametrize(("shape", "attributes"), [((5,), {"axis": -2}), ((4, 2), {"axis": 1, "block_size": 3})])
def test_quotients_of_f16_go_along_scales(shape: Any, attributes: dict[str, Any], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="what it computes is compared")
    x = (RNG.standard_normal((4, 5, 7) if len(shape) == 1 else (4, 6)) * 9).astype(np.float16)
    constants = weights(s=(RNG.random(shape) / 8).astype(np.float16), z=np.zeros(shape, np.int8))
    nodes = [node("QuantizeLinear", "x s z", "y", **attributes)]
    infos = [info("x", x.shape, TensorProto.FLOAT16)], [info("y", x.shape, TensorProto.INT8)]
    proto = model(nodes, *infos, constants, opset=23)

    found = run(load(saved(proto, tmp_path)), {"x": x})

    np.testing.assert_array_equal(found[0], quantised_by(runtime, proto, {"x": x})[0])


def test_constants_are_quantised_as_the_program_does(tmp_path: Path) -> None:
    """The reference evaluator divides f16 in f16 before opset 23 too."""
    runtime = pytest.importorskip("onnxruntime", reason="what it computes is compared")
    constants = weights(x=FINITE_F16[::7].copy(), s=np.array(0.1, np.float16), z=np.uint8(3))
    nodes = [node("QuantizeLinear", "x s z", "q"), node("Max", "q r", "y")]
    infos = [info("r", [], UINT8)], [info("y", [FINITE_F16[::7].size], UINT8)]
    proto = model(nodes, *infos, constants, opset=21)

    found = run(load(saved(proto, tmp_path)), {"r": np.array(0, np.uint8)})

    np.testing.assert_array_equal(found[0], quantised_by(runtime, proto, {"r": np.array(0, np.uint8)})[0])


def test_other_precisions_are_refused_by_name(tmp_path: Path) -> None:
    nodes = [node("QuantizeLinear", "x s", "y", precision=TensorProto.DOUBLE)]
    proto = model(nodes, [info("x", [4]), info("s", [])], [info("y", None, UINT8)], opset=23)
    with pytest.raises(ModelImportError, match=r"precision=f64: x / y_scale is rounded to f32, f16 or bf16"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize("x", [[0.0] * 4, [-0.0, 0.0], [], [1.0] * 3, [-1.0] * 3, [-3.0, 5.0], [0.0, 5.0]])
def test_dynamic_scales_are_those_of_onnxruntime(x: list[float], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="what it computes is compared")
    outputs = [info("y", [len(x)], UINT8), info("s", []), info("z", [], UINT8)]
    proto = model([node("DynamicQuantizeLinear", "x", "y s z")], [info("x", [len(x)])], outputs)
    inputs = {"x": np.array(x, np.float32)}

    found = run(load(saved(proto, tmp_path)), inputs)

    for ours, theirs in zip(found, quantised_by(runtime, proto, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


SHAPES_OF_ONE_SCALE: list[tuple[int, ...]] = [(), (0,), (1,), (3,), (2, 0), (3, 1), (2, 3)]


@pytest.mark.parametrize("attributes", [{}, {"axis": -1}, {"axis": 5}])
@pytest.mark.parametrize(("opset", "real"), [(10, np.float32), (21, np.float32), (23, np.float16)])
@pytest.mark.parametrize("shape", SHAPES_OF_ONE_SCALE)
def test_a_scale_of_one_element_is_that_of_all_elements_whatever_the_axis(
    shape: tuple[int, ...], opset: int, real: Any, attributes: dict[str, int], tmp_path: Path
) -> None:
    attributes = attributes if opset > 12 else {}
    x = (np.arange(np.prod(shape)) - 2.5).astype(real).reshape(shape)
    nodes = [node("QuantizeLinear", "x s z", "q", **attributes), node("DequantizeLinear", "q s z", "y", **attributes)]
    infos = [info("x", shape, number(real)), info("s", [1], number(real)), info("z", [1], UINT8)]
    outputs = [info("q", shape, UINT8), info("y", shape, number(real))]
    inputs = {"x": x, "s": np.array([0.75], real), "z": np.array([2], np.uint8)}

    codes, reals = run(load(saved(model(nodes, infos, outputs, opset=opset), tmp_path)), inputs)

    wanted = np.clip(np.rint(x / real(0.75)) + 2, 0, 255)
    np.testing.assert_array_equal(codes, wanted)
    np.testing.assert_array_equal(reals, (wanted - 2) * 0.75)


@pytest.mark.parametrize("kind", ["UINT4", "INT4", "UINT2", "INT2", "FLOAT8E5M2"])
@pytest.mark.parametrize("shape", [(), (0,), (3,)])
def test_one_scale_is_that_of_packed_elements_too(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s", "q", output_dtype=getattr(TensorProto, kind)),
        node("DequantizeLinear", "q s", "y"),
    ]
    proto = model(nodes, [info("x", shape), info("s", [1])], [info("y", shape)], opset=25)

    inputs = {"x": np.full(shape, np.float32(0.4)), "s": np.array([0.5], np.float32)}

    (reals,) = run(load(saved(proto, tmp_path)), inputs)

    np.testing.assert_array_equal(reals, np.full(shape, 0.5 if kind != "FLOAT8E5M2" else 0.375))


@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize(
    ("shape", "scales", "attributes"),
    [((), [2], {}), ((), [1], {"block_size": 2}), ((3,), [3], {}), ((2, 3), [3], {"axis": -3})],
)
def test_several_scales_lie_along_an_axis_that_there_is(
    shape: tuple[int, ...], scales: list[int], attributes: dict[str, int], opset: int, tmp_path: Path
) -> None:
    kind = TensorProto.FLOAT16 if opset == 23 else TensorProto.FLOAT
    inputs = [info("x", shape, kind), info("s", scales, kind)]
    proto = model([node("QuantizeLinear", "x s", "y", **attributes)], inputs, [info("y", None, UINT8)], opset=opset)
    with pytest.raises(ModelImportError, match=r"axis=-?\d of \d dims: several scales lie along an axis"):
        load(saved(proto, tmp_path))


STEP = 0.02
"""Of the result of `quantised_network`."""


def quantised_network() -> Any:
    """Return a model as quantisers write it: QuantizeLinear and DequantizeLinear after each operator."""
    grids = {"x": (0.02, 2), "r": (0.025, -128), "p": (0.025, -128), "c": (0.03, -31), "a": (0.04, -128)}
    grids |= {"g": (0.03, -128), "f": (0.03, -128), "y": (STEP, 13)}
    layers = {"v": ((4, 3, 3, 3), "x"), "w": ((4, 4, 3, 3), "p"), "h": ((4, 5), "f")}
    initial, nodes, pairs = [], [], {}
    for name, (scale, zero) in grids.items():
        initial += weights(**{f"{name}s": np.float32(scale), f"{name}z": np.int8(zero)})
        pairs[name] = [
            node("QuantizeLinear", f"{name} {name}s {name}z", f"{name}q"),
            node("DequantizeLinear", f"{name}q {name}s {name}z", f"{name}d"),
        ]
    for name, (shape, source) in layers.items():
        outputs, axis = (5, 1) if name == "h" else (4, 0)
        steps = (RNG.random(outputs) + 0.5).astype(np.float32) / 256
        codes = {f"{name}i": whole(*shape), f"{name}b": RNG.integers(-900, 900, outputs).astype(np.int32)}
        initial += weights(**codes, **{f"{name}t": steps, f"{name}k": np.float32(grids[source][0]) * steps})
        nodes += [
            node("DequantizeLinear", f"{name}i {name}t", name, axis=axis),
            node("DequantizeLinear", f"{name}b {name}k", f"{name}c", axis=0),
        ]
    nodes += [*pairs["x"], node("Conv", "xd v vc", "u", pads=[1] * 4), node("Relu", "u", "r"), *pairs["r"]]
    nodes += [node("MaxPool", "rd", "p", kernel_shape=[2, 2], strides=[2, 2]), *pairs["p"]]
    nodes += [node("Conv", "pd w wc", "c", pads=[1] * 4), *pairs["c"], node("Add", "cd pd", "a"), *pairs["a"]]
    nodes += [node("GlobalAveragePool", "ad", "g"), *pairs["g"], node("Flatten", "gd", "f"), *pairs["f"]]
    nodes += [node("Gemm", "fd h hc", "y"), *pairs["y"]]
    return model(nodes, [info("x", [1, 3, 8, 8])], [info("yd", None)], initial, opset=21)


def test_layers_between_pairs_of_quantisers_work_on_codes(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="what it computes is compared")
    proto = quantised_network()
    imported = load(saved(proto, tmp_path))

    # Reals are the terms of the sum of two grids and the result; biases are whole steps of the sums of integers.
    ops = Counter(found.kind.op for found in imported.graph.blocks["entry"].walk() if isinstance(found.kind, Op))
    assert ops["dequantize_linear"] == 3
    assert not ops.keys() & {"relu", "global_avg_pool", "linear", "qmatmul"}
    assert {imported.model.tensors[name].dtype.name for name in ("vc", "wc", "hc")} == {"i32"}
    inputs = [{"x": x} for x in rand(20, 1, 3, 8, 8)]
    differences = [abs(run(imported, each)[0] - quantised_by(runtime, proto, each)[0]) for each in inputs]
    # ONNX Runtime takes the mean of reals, whose roundings decide near a tie.
    assert np.mean(np.array(differences) > 0) < 0.1
    assert np.max(differences) < 1.01 * STEP


def test_a_relu_that_the_bounds_of_codes_do_not_imply_stays(tmp_path: Path) -> None:
    initial = weights(xs=np.float32(0.02), xz=np.uint8(7), w=whole(6, 2, 1, 1), s=scales(6), ys=np.float32(0.1))
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w s", "wf", axis=0),
        node("Conv", "xf wf", "p"),
        node("Relu", "p", "r"),
        node("QuantizeLinear", "r ys yz", "y"),
    ]
    proto = model(
        nodes,
        [info("x", [1, 2, 5, 5], UINT8)],
        [info("y", None, TensorProto.INT8)],
        [*initial, *weights(yz=np.int8(-20))],
        opset=21,
    )
    imported = load(saved(proto, tmp_path))

    (codes,) = run(imported, {"x": bytes_of(1, 2, 5, 5)})

    assert "op relu(" in imported.text
    assert codes.min() == -20


@pytest.mark.parametrize("other", [{"ys": np.float32(0.03)}, {"yz": np.uint8(8)}])
def test_pools_between_two_scales_are_of_reals(other: dict[str, Any], tmp_path: Path) -> None:
    grids = {"xs": np.float32(0.02), "xz": np.uint8(7), "ys": np.float32(0.02), "yz": np.uint8(7), **other}
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("MaxPool", "xf", "p", kernel_shape=[2, 2]),
        node("QuantizeLinear", "p ys yz", "y"),
    ]
    proto = model(nodes, [info("x", [1, 2, 5, 5], UINT8)], [info("y", None, UINT8)], weights(**grids), opset=21)
    imported = load(saved(proto, tmp_path))

    assert "op dequantize_linear(x" in imported.text
    agrees(proto, imported, {"x": bytes_of(1, 2, 5, 5)})


@pytest.mark.parametrize(
    ("op", "attributes", "kind", "scale"),
    [
        ("Flatten", {}, TensorProto.UINT16, np.float16(0.01)),
        ("MaxPool", {"kernel_shape": [2, 2]}, TensorProto.INT4, np.float32(0.5)),
    ],
    ids=["reals of f16", "codes of 4 bits"],
)
def test_codes_that_reals_or_operators_do_not_tell_apart_become_reals(
    op: str, attributes: dict[str, Any], kind: int, scale: Any, tmp_path: Path
) -> None:
    nodes = [
        node("DequantizeLinear", "x s", "xf"),
        node(op, "xf", "p", **attributes),
        node("QuantizeLinear", "p s", "y"),
    ]
    nodes[-1].attribute.append(helper.make_attribute("output_dtype", kind))
    proto = model(nodes, [info("x", [1, 2, 4, 4], kind)], [info("y", None, kind)], weights(s=scale), opset=21)

    assert "op dequantize_linear(x" in load(saved(proto, tmp_path)).text


def test_layers_that_share_transposed_weights_share_them_in_the_container(tmp_path: Path) -> None:
    grids = {"s": np.float32(0.5), "z": np.uint8(3), "t": np.float32(0.25)}
    nodes = [node("DequantizeLinear", "w t", "wf"), node("DequantizeLinear", "x s z", "xf")]
    nodes += [node("DequantizeLinear", "u s z", "uf")]
    nodes += [node("Gemm", "xf wf", "y", transB=1), node("Gemm", "uf wf", "v", transB=1)]
    ports = [info("x", [2, 6], UINT8), info("u", [3, 6], UINT8)]
    proto = model(nodes, ports, [info("y", None), info("v", None)], weights(w=whole(4, 6), **grids), opset=21)
    imported = load(saved(proto, tmp_path))

    assert [list(tensor.shape) for name, tensor in imported.model.tensors.items() if "w" in name] == [[6, 4]]
    agrees(proto, imported, {"x": bytes_of(2, 6), "u": bytes_of(3, 6)})


def test_a_mean_of_codes_has_the_zero_point_that_was_given(tmp_path: Path) -> None:
    grids = {"s": np.float32([0.5]), "z": np.uint8([3])}
    nodes = [
        node("DequantizeLinear", "x s z", "xf", axis=1),
        node("GlobalAveragePool", "xf", "p"),
        node("QuantizeLinear", "p s z", "y", axis=1),
    ]
    proto = model(nodes, [info("x", [1, 1, 4, 4], UINT8)], [info("y", None, UINT8)], weights(**grids), opset=21)

    agrees(proto, load(saved(proto, tmp_path)), {"x": bytes_of(1, 1, 4, 4)})


@pytest.mark.parametrize(
    ("zero", "kind", "extent", "is_summed"),
    [
        (np.uint8(7), UINT8, 200, True),
        (np.uint16(7), TensorProto.UINT16, 200, False),
        (np.uint16(7), TensorProto.UINT16, 100, True),
    ],
)
def test_means_are_exact_sums_where_these_have_32_bits(
    zero: Any, kind: int, extent: int, is_summed: bool, tmp_path: Path
) -> None:
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("GlobalAveragePool", "xf", "m"),
        node("QuantizeLinear", "m ys yz", "y"),
    ]
    grids = {"xs": np.float32(0.5), "xz": zero, "ys": np.float32(0.25), "yz": zero}
    shape = (1, 1, extent, extent)
    proto = model(nodes, [info("x", shape, kind)], [info("y", None, kind)], weights(**grids), opset=21)
    imported = load(saved(proto, tmp_path))

    (codes,) = run(imported, {"x": np.full(shape, np.iinfo(zero.dtype).max, zero.dtype)})

    assert ("op sum_axis(" in imported.text) == is_summed
    assert codes == np.iinfo(zero.dtype).max


def test_a_bias_with_fractions_of_steps_stays_real(tmp_path: Path) -> None:
    initial = weights(xs=np.float32(0.5), xz=np.uint8(0), w=whole(2, 2), s=np.float32([0.5, 0.25]))
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w s", "wf", axis=1),
        node("Gemm", "xf wf b", "y"),
    ]
    for bias, dtype in (([0.75, 0.5], "i32"), ([0.75, 0.4], "f32")):
        proto = model(
            nodes, [info("x", [3, 2], UINT8)], [info("y", None)], [*initial, *weights(b=np.float32(bias))], opset=21
        )
        imported = load(saved(proto, tmp_path))

        assert f"b: {dtype}[2];" in imported.text
        agrees(proto, imported, {"x": bytes_of(3, 2)})
