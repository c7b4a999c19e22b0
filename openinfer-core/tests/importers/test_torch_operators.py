"""Every operator of programs of PyTorch computes what PyTorch computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_operators import Case, b, case, evaluated, f, first, i, tensors_of, u
from torch_programs import imported_program, results

from openinfer.importers.torch_files.translators import translators
from openinfer.plugins.environment import Environment

torch = pytest.importorskip("torch", reason="results are compared with those of the package torch")

from openinfer.importers.torch_files.tensors import array_of  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

X, Y, POSITIVE, INTEGERS, FLAGS = f(2, 3, 4), f(2, 3, 4), u(2, 3, 4), i(2, 3, 4), b(2, 3, 4)
IMAGE, WEIGHT, BIAS = f(2, 4, 9, 8), f(6, 2, 3, 3), f(6)
SIGNAL = f(2, 4, 9)
NOT_ZERO = torch.where(INTEGERS == 0, 3, INTEGERS)
SPECIAL = torch.tensor([1.0, -0.0, float("nan"), float("inf"), -float("inf")])

ELEMENTS = [
    *(
        case(name, X)
        for name in [
            "abs",
            "asinh",
            "ceil",
            "cos",
            "cosh",
            "erf",
            "exp",
            "exp2",
            "expm1",
            "floor",
            "neg",
            "reciprocal",
            "sigmoid",
            "sin",
        ]
    ),
    *(
        case(name, X)
        for name in [
            "sinh",
            "square",
            "tan",
            "tanh",
            "trunc",
            "relu",
            "sign",
            "sgn",
            "frac",
            "round",
            "silu",
            "mish",
            "hardswish",
        ]
    ),
    *(case(name, X) for name in ["selu", "hardsigmoid", "log_sigmoid", "relu6", "erfc"]),
    *(case(name, POSITIVE) for name in ["log", "log1p", "log2", "log10", "sqrt", "rsqrt", "atanh", "logit"]),
    *(
        case(name, INTEGERS)
        for name in ["abs", "ceil", "floor", "relu", "sign", "exp", "sin", "bitwise_not", "round", "logical_not"]
    ),
    *(case(name, SPECIAL) for name in ["isnan", "isinf", "isfinite", "relu", "sigmoid", "abs", "round"]),
    *(case(name, INTEGERS) for name in ["isnan", "isinf", "isfinite"]),
    case("log1p", torch.tensor([1e-6, -1e-6, -0.9, 30.0])),
    case("expm1", torch.tensor([1e-6, -1e-6, -20.0, 80.0])),
    case("acosh", 1.5 + POSITIVE),
    case("logical_not", FLAGS),
    case("round.decimals", X, decimals=1),
    case("logit", POSITIVE, 0.2),
    case("gelu", X),
    case("gelu", X, approximate="tanh"),
    case("leaky_relu", X, 0.2),
    case("elu", X, 0.7),
    case("elu", X, 1.5, 1.2),
    case("celu", X, 0.7),
    case("softplus", X),
    case("softplus", 10 * X, 2, 5),
    case("threshold", X, 0.3, -1.0),
    case("hardshrink", X, 0.4),
    case("softshrink", X, 0.4),
    case("hardtanh", X, -0.5, 0.8),
    case("hardtanh", X, 0.0, 6.0),
    case("prelu", IMAGE, f(4)),
    case("_prelu_kernel", IMAGE, f(1, 4, 1, 1)),
    case("glu", X, -1),
    case("dropout", X, 0.5, False),
    case("feature_dropout", X, 0.5, False),
    case("alpha_dropout", X, 0.5, False),
    first("native_dropout", X, 0.5, False),
    case("clamp", X, -0.5, 0.5),
    case("clamp", INTEGERS, min=-2),
    case("clamp.Tensor", X, f(4), f(4) + 2),
    case("clamp_min", X, 0.1),
    case("clamp_max", X, 0.1),
    case("clamp_min.Tensor", X, f(4)),
    case("clamp_max.Tensor", X, f(4)),
]

PAIRS = [
    *(case(f"{name}.Tensor", X, f(3, 1)) for name in ["add", "sub", "mul", "div", "rsub", "remainder", "fmod"]),
    *(case(f"{name}.Scalar", X, 1.5) for name in ["add", "sub", "mul", "div", "rsub", "remainder", "fmod"]),
    *(case(f"{name}.Tensor", INTEGERS, NOT_ZERO) for name in ["add", "sub", "mul", "div", "rsub", "remainder", "fmod"]),
    *(case(f"{name}.Tensor", INTEGERS, X) for name in ["add", "mul"]),
    case("add.Tensor", X, Y, alpha=2),
    case("sub.Tensor", INTEGERS, 3, alpha=2),
    case("add.Tensor", FLAGS, INTEGERS),
    case("add.Tensor", X.to(torch.float16), f(1)[0]),
    case("mul.Tensor", X.to(torch.bfloat16), X.to(torch.float16)),
    case("mul.Tensor", i(3, low=0).to(torch.uint8), i(3).to(torch.int8)),
    case("true_divide.Tensor", X, Y),
    *(case("div.Tensor_mode", X, Y, rounding_mode=mode) for mode in (None, "floor", "trunc")),
    *(case("div.Tensor_mode", INTEGERS, NOT_ZERO, rounding_mode=mode) for mode in ("floor", "trunc")),
    case("div.Scalar_mode", INTEGERS, 3, rounding_mode="floor"),
    case("floor_divide", INTEGERS, NOT_ZERO),
    case("floor_divide.Scalar", INTEGERS, 2),
    case("remainder.Scalar_Tensor", 7, NOT_ZERO),
    case("pow.Tensor_Tensor", POSITIVE, X),
    *(case("pow.Tensor_Scalar", POSITIVE, number) for number in (2, 0.5, 3, -1.5)),
    case("pow.Tensor_Scalar", INTEGERS, 3),
    case("pow.Scalar", 2.5, X),
    *(case(name, X, Y) for name in ["maximum", "minimum", "fmax", "fmin"]),
    *(case(name, SPECIAL, torch.tensor(0.5)) for name in ["maximum", "minimum", "fmax", "fmin"]),
    case("maximum", FLAGS, b(4)),
    case("max.other", X, Y),
    case("min.other", INTEGERS, i(4)),
    *(case(f"{name}.Tensor", INTEGERS, i(4)) for name in ["eq", "ne", "lt", "le", "gt", "ge"]),
    *(case(f"{name}.Scalar", X, 0.25) for name in ["eq", "ne", "lt", "le", "gt", "ge"]),
    *(case(f"{name}.Scalar", INTEGERS, 0.5) for name in ["lt", "ge"]),
    case("lt.Tensor", FLAGS, b(4)),
    case("eq.Tensor", FLAGS, b(4)),
    *(case(f"logical_{name}", FLAGS, INTEGERS) for name in ["and", "or", "xor"]),
    *(case(f"bitwise_{name}.Tensor", INTEGERS, i(4)) for name in ["and", "or", "xor"]),
    *(case(f"bitwise_{name}.Scalar", INTEGERS, 6) for name in ["and", "or", "xor"]),
    case("bitwise_and.Tensor", FLAGS, b(4)),
    case("bitwise_left_shift.Tensor_Scalar", INTEGERS, 2),
    case("bitwise_right_shift.Tensor_Scalar", INTEGERS, 1),
    case("where.self", FLAGS, X, f(4)),
    case("where.ScalarSelf", FLAGS, 0.5, X),
    case("where.ScalarOther", FLAGS, X, 0.5),
    case("where.Scalar", FLAGS, 1.0, 0.5),
    case("masked_fill.Scalar", X, b(3, 4), -float("inf")),
    case("masked_fill.Tensor", X, FLAGS, torch.tensor(2.0)),
    case("lerp.Scalar", X, Y, 0.3),
    case("lerp.Tensor", X, Y, POSITIVE),
    case("addcmul", X, Y, f(4), value=0.5),
    case("addcdiv", X, Y, POSITIVE, value=2.0),
    case("to.dtype", X, torch.int64),
    case("to.dtype", INTEGERS, torch.float32),
    case("to.dtype", INTEGERS, torch.uint8),
    case("to.dtype", X, torch.bool),
    case("to.dtype_layout", X, dtype=torch.float16),
    case("to.device", X, torch.device("cpu"), torch.float64),
    case("to.other", X, INTEGERS),
    case("_to_copy", X, dtype=torch.bfloat16),
    case("type_as", INTEGERS, X),
]

MOVED = [
    *(
        case(name, X)
        for name in ["clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "positive"]
    ),
    case("copy", X, f(4)),
    case("copy", X, INTEGERS),
    *(case(name, X, [2, -1]) for name in ["view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy"]),
    case("as_strided", f(1, 6, 1), [6, 1], [1, 6]),
    case("flatten.using_ints", X, 1, 2),
    case("unflatten.int", X, 2, [2, 2]),
    case("expand", f(3, 1), [2, -1, 4]),
    case("expand_copy", f(3, 1), [2, 3, 4]),
    case("expand_as", f(3, 1), X),
    case("permute", X, [2, 0, -2]),
    case("permute_copy", X, [1, 0, 2]),
    case("transpose.int", X, 0, -1),
    case("swapaxes", X, 1, 2),
    case("swapdims", X, -1, 0),
    *(case(name, f(3, 4)) for name in ("t", "numpy_T", "mT")),
    case("movedim.int", X, 0, 2),
    case("movedim.intlist", X, [0, 1], [-1, 0]),
    case("squeeze", f(1, 3, 1)),
    case("squeeze.dim", f(1, 3, 1), 0),
    case("squeeze.dim", X, 0),
    case("squeeze.dims", f(1, 3, 1), [0, -1]),
    case("unsqueeze", X, -1),
    *(case(name, [X, f(2, 1, 4)], 1) for name in ("cat", "concat", "concatenate")),
    case("cat", [f(0), X], 0),
    case("cat", [X, INTEGERS], -1),
    case("stack", [X, Y], -1),
    case("split.Tensor", f(7, 2), 3),
    case("split_copy.Tensor", f(7, 2), 3),
    case("chunk", f(7, 2), 3),
    case("split_with_sizes", f(7, 2), [2, 5]),
    case("split_with_sizes_copy", f(7, 2), [2, 5]),
    case("split.sizes", f(7, 2), [2, 5]),
    case("unbind.int", X, 1),
    case("unbind_copy.int", X, 0),
    case("select.int", X, 1, -1),
    case("select_copy.int", X, 2, 1),
    case("slice.Tensor", X, 2, 1, 9223372036854775807),
    case("slice.Tensor", X, 2, -3, -1, 2),
    case("slice.Tensor", X, 0, None, 100),
    case("slice_copy.Tensor", X, 1, 1, 2),
    case("narrow", X, 2, 1, 2),
    case("narrow_copy", X, 2, 1, 2),
    case("slice_scatter", X, f(2, 3, 2), 2, 1, 3),
    case("slice_scatter", X, f(2, 3, 2), 2, 0, 4, 2),
    case("slice_scatter", X, f(2, 3, 4), 2),
    case("select_scatter", X, f(2, 4), 1, -1),
    case("repeat", X, [2, 1, 1, 3]),
    case("tile", X, [2, 3]),
    case("repeat_interleave.self_int", X, 2, 1),
    case("repeat_interleave.self_int", X, 2),
    case("flip", X, [0, -1]),
    case("roll", X, [1, -2], [0, 2]),
    case("roll", X, [5]),
    case("tril", f(3, 4), 1),
    case("triu", f(3, 4), -1),
    case("constant_pad_nd", X, [1, 2, 0, 1], 0.5),
    case("constant_pad_nd", X, [-1, 2]),
    *(case("pad", IMAGE, [1, 2, 2, 1], mode, None) for mode in ("constant", "reflect", "replicate", "circular")),
    case("pad", INTEGERS, [1, 1], "constant", 3),
    case("reflection_pad1d", SIGNAL, [2, 1]),
    case("reflection_pad2d", IMAGE, [2, 1, 1, 0]),
    case("replication_pad1d", SIGNAL, [2, 1]),
    case("replication_pad2d", IMAGE, [2, 1, 1, 0]),
    case("pixel_shuffle", f(2, 8, 3, 2), 2),
    case("pixel_shuffle", f(8, 3, 2), 2),
    case("pixel_unshuffle", f(2, 2, 6, 4), 2),
    case("channel_shuffle", IMAGE, 2),
    *(case("diagonal", f(2, 3, 4), offset, 1, 2) for offset in (0, 1, -1)),
    case("diagonal_copy", f(3, 4)),
    case("unfold", f(2, 7), 1, 3, 2),
]

MADE = [
    case("full", [2, 3], 1.5),
    case("full", [2], 3, dtype=torch.int32),
    case("full_like", X, 2.5),
    case("new_full", X, [2, 2], 2.5),
    case("scalar_tensor", 3.0),
    case("fill.Scalar", X, 2.0),
    case("fill.Tensor", X, torch.tensor(2.0)),
    *(case(name, [2, 3]) for name in ("zeros", "ones")),
    *(case(name, X) for name in ("zeros_like", "ones_like")),
    *(case(name, X, [2, 2]) for name in ("new_zeros", "new_ones")),
    case("arange", 5),
    case("arange.start", 2, 7),
    case("arange.start_step", 1, 9, 3),
    case("arange.start_step", 0, 1, 0.25),
    case("linspace", 0.0, 1.0, 5),
    case("eye", 3),
    case("eye.m", 2, 4),
]

REDUCED = [
    *(
        case(name, X)
        for name in ["sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "argmax", "argmin"]
    ),
    case("sum", INTEGERS),
    case("sum", FLAGS),
    case("max", SPECIAL),
    case("sum.dim_IntList", X, [0, -1]),
    case("sum.dim_IntList", X, [1], True),
    case("mean.dim", X, [1, 2], True),
    case("prod.dim_int", X, 1),
    case("logsumexp", X, [1]),
    case("amax", X, [1, 2]),
    case("amin", INTEGERS, [1], True),
    case("max.dim", X, 1),
    case("min.dim", X, -1, True),
    case("argmax", X, 1),
    case("argmin", X, -1, True),
    case("any.dim", INTEGERS, 1),
    case("any.dims", FLAGS, [0, 2]),
    case("all.dim", FLAGS, 1, True),
    case("all.dims", FLAGS, [1]),
    *(case(f"{name}.correction", X, [1, 2], correction=1, keepdim=True) for name in ("var", "std")),
    case("var.correction", X, [2], correction=0),
    case("var.dim", X, [2], False),
    case("std.dim", X, [2]),
    case("var_mean.correction", X, [0, 1], correction=1),
    case("std_mean.correction", X, [0], correction=0, keepdim=True),
    case("cumsum", X, 1),
    case("cumsum", FLAGS, 1),
    case("topk", X, 2, 2),
    case("topk", X, 2, 1, False),
    case("sort", X, 1),
    case("sort", X, 2, True),
    case("sort.stable", INTEGERS, stable=True, dim=1),
    case("argsort", X, 1),
    case("argsort.stable", INTEGERS, stable=True, dim=-1, descending=True),
    case("count_nonzero", INTEGERS),
    case("count_nonzero.dim_IntList", INTEGERS, [1]),
]

NORMALISED = [
    case("_softmax", X, 1, False),
    case("softmax.int", X, -1),
    case("softmax.int", X, -1, torch.float64),
    case("_log_softmax", X, 2, False),
    case("log_softmax.int", X, 1),
    case("_safe_softmax", torch.tensor([[1.0, 2.0], [-float("inf"), -float("inf")]]), -1),
    case("layer_norm", X, [4], f(4), f(4)),
    case("layer_norm", X, [3, 4]),
    case("layer_norm", X, [4], None, f(4), 1e-3),
    first("native_layer_norm", X, [4], f(4), f(4), 1e-5),
    case("rms_norm", X, [4], f(4)),
    case("rms_norm", X, [3, 4], None, 1e-3),
    first("_fused_rms_norm", X, [4], f(4), 1e-5),
    case("batch_norm", IMAGE, f(4), f(4), f(4), u(4), False, 0.1, 1e-3, True),
    first("_native_batch_norm_legit_no_training", IMAGE, None, None, f(4), u(4), 0.1, 1e-5),
    first("native_batch_norm", IMAGE, f(4), f(4), f(4), u(4), False, 0.1, 1e-5),
    first("_native_batch_norm_legit.no_stats", f(1, 4, 5, 6), f(4), f(4), True, 0.1, 1e-5),
    case("group_norm", IMAGE, 2, f(4), f(4)),
    first("native_group_norm", IMAGE, f(4), f(4), 2, 4, 72, 2, 1e-5),
    case("instance_norm", IMAGE, f(4), f(4), None, None, True, 0.1, 1e-5, True),
    case("instance_norm", IMAGE, None, None, None, None, True, 0.1, 1e-5, True),
    *(case("linalg_vector_norm", X, order, [1]) for order in (2, 1, 0, 3, float("inf"), -float("inf"))),
    case("norm.ScalarOpt_dim", X, 2, [1], True),
]

PRODUCTS = [
    case("linear", X, f(5, 4), f(5)),
    case("linear", X, f(5, 4)),
    case("mm", f(3, 4), f(4, 5)),
    case("bmm", f(2, 3, 4), f(2, 4, 5)),
    case("matmul", X, f(4, 5)),
    case("matmul", f(4), f(4)),
    case("mv", f(3, 4), f(4)),
    case("dot", f(4), f(4)),
    case("vdot", f(4), f(4)),
    case("inner", f(3, 4), f(2, 4)),
    case("outer", f(3), f(4)),
    case("addmm", f(5), f(3, 4), f(4, 5)),
    case("addmm", f(3, 5), f(3, 4), f(4, 5), beta=0.5, alpha=2),
    case("addmv", f(3), f(3, 4), f(4)),
    case("baddbmm", f(2, 3, 5), f(2, 3, 4), f(2, 4, 5), beta=0.5),
    case("addbmm", f(3, 5), f(2, 3, 4), f(2, 4, 5)),
    case("einsum", "bij,bkj->bik", [X, Y]),
    case("scaled_dot_product_attention", f(2, 3, 5, 4), f(2, 3, 7, 4), f(2, 3, 7, 6)),
    case("scaled_dot_product_attention", f(2, 3, 5, 4), f(2, 3, 5, 4), f(2, 3, 5, 4), None, 0.0, True),
    case("scaled_dot_product_attention", f(2, 3, 3, 4), f(2, 3, 5, 4), f(2, 3, 5, 4), None, 0.0, True),
    case("scaled_dot_product_attention", f(3, 5, 4), f(3, 5, 4), f(3, 5, 4), f(3, 5, 5), scale=0.3),
    case("scaled_dot_product_attention", f(2, 3, 5, 4), f(2, 3, 7, 4), f(2, 3, 7, 4), b(1, 1, 5, 7) | (i(7) == 0)),
    case("scaled_dot_product_attention", f(2, 4, 5, 4), f(2, 2, 7, 4), f(2, 2, 7, 4), enable_gqa=True),
    first("_scaled_dot_product_flash_attention_for_cpu", *(f(2, 3, 5, 4) for _ in range(3))),
    first("_scaled_dot_product_attention_math", *(f(2, 3, 5, 4) for _ in range(3))),
]

WINDOWS = [
    case("conv2d", IMAGE, WEIGHT, BIAS, [2, 1], [1, 0], [1, 2], 2),
    case("conv2d", f(4, 9, 8), WEIGHT, None, [1], [1], [1], 2),
    case("conv2d.padding", IMAGE, WEIGHT, BIAS, [1], "same", [1], 2),
    case("conv2d.padding", IMAGE, WEIGHT, BIAS, [1], "valid", [1], 2),
    case("conv1d", SIGNAL, f(6, 4, 3), BIAS, [2], [1]),
    case("conv1d.padding", SIGNAL, f(6, 4, 4), BIAS, [1], "same"),
    case("convolution", IMAGE, WEIGHT, BIAS, [1, 1], [1, 1], [1, 1], False, [0, 0], 2),
    case("convolution", IMAGE, f(4, 3, 3, 3), BIAS, [2, 2], [1, 1], [1, 1], True, [1, 1], 2),
    case("_convolution", IMAGE, WEIGHT, None, [1], [1], [1], False, [0], 2, False, False, True, True),
    case("conv_transpose1d", SIGNAL, f(4, 6, 3), BIAS, [2], [1], [1]),
    case("conv_transpose2d.input", IMAGE, f(4, 6, 3, 3), BIAS, [2], [1], [1]),
    case("max_pool1d", SIGNAL, 3, 2, 1),
    case("max_pool2d", IMAGE, [3, 2], [2, 1], [1, 0], 1, True),
    case("max_pool2d", f(4, 9, 8), 2),
    first("max_pool2d_with_indices", IMAGE, [3, 3], [2, 2], [1, 1]),
    first("max_pool1d_with_indices", SIGNAL, [3], [2]),
    case("avg_pool1d", SIGNAL, 3, 2, 1),
    case("avg_pool2d", IMAGE, [3, 3], [2, 2], [1, 1], True, True),
    case("avg_pool2d", IMAGE, [3, 3], [2, 2], [1, 1], True, False),
    case("adaptive_avg_pool1d", SIGNAL, 3),
    case("adaptive_avg_pool2d", IMAGE, [1, 1]),
    case("adaptive_avg_pool2d", IMAGE, [3, 4]),
    case("_adaptive_avg_pool2d", IMAGE, [7, 5]),
    first("adaptive_max_pool1d", SIGNAL, 3),
    first("adaptive_max_pool2d", IMAGE, [2, 4]),
    case("upsample_nearest1d", SIGNAL, [18]),
    case("upsample_nearest2d", IMAGE, [18, 16]),
    case("upsample_nearest2d", IMAGE, [5, 11]),
    case("upsample_nearest1d.vec", SIGNAL, None, [2.0]),
    case("upsample_nearest2d.vec", IMAGE, None, [2.0, 1.5]),
    case("upsample_linear1d", SIGNAL, [14], False),
    case("upsample_linear1d.vec", SIGNAL, [14], True, None),
    case("upsample_bilinear2d", IMAGE, [18, 16], False),
    case("upsample_bilinear2d", IMAGE, [13, 5], True),
    case("upsample_bilinear2d.vec", IMAGE, None, False, [2.0, 2.0]),
    case("upsample_bilinear2d.vec", IMAGE, None, True, [0.5, 1.5]),
    case("upsample_bilinear2d.vec", IMAGE, [5, 11], False, None),
    case("upsample_bicubic2d", IMAGE, [18, 16], False),
    case("upsample_bicubic2d.vec", IMAGE, [5, 11], True, None),
    case("_upsample_nearest_exact2d", IMAGE, [5, 11]),
    case("_upsample_nearest_exact2d.vec", IMAGE, None, [2.0, 2.0]),
    case("_upsample_bilinear2d_aa", IMAGE, [5, 5], False),
]

PLACES = i(2, 3, 2, low=0, high=4)
INDEXED = [
    case("embedding", f(7, 3), i(2, 4, low=0, high=7)),
    case("index_select", X, 1, i(4, low=0, high=3)),
    case("index_select", X, 1, torch.tensor(2)),
    case("gather", X, 2, PLACES),
    case("gather", X, 2, PLACES[:, :2]),
    case("take_along_dim", X, PLACES, 2),
    case("scatter.src", X, 2, torch.tensor([[[0, 3]] * 3] * 2), f(2, 3, 2)),
    case("scatter.src", X, 2, torch.tensor([[[0, 3]] * 3] * 2), f(2, 3, 4)),
    case("scatter.value", X, 2, PLACES, 1.5),
    case("scatter.reduce", X, 2, PLACES, f(2, 3, 2), reduce="add"),
    case("scatter.value_reduce", X, 2, PLACES, 1.5, reduce="multiply"),
    case("scatter_add", X, 2, PLACES, f(2, 3, 2)),
    case("scatter_reduce.two", X, 2, PLACES, f(2, 3, 2), "amax"),
    case("index.Tensor", X, [None, i(4, low=-3, high=3)]),
    case("index.Tensor", X, [i(4, low=0, high=2), i(4, low=0, high=3)]),
    case("index.Tensor", X, [None, i(5, 1, low=0, high=3), i(1, 2, low=0, high=4)]),
    case("index.Tensor", X, [i(4, low=0, high=2), None, i(4, low=0, high=4)]),
    case("_unsafe_index.Tensor", X, [i(2, 2, low=0, high=2)]),
    case("index_put", X, [torch.tensor([1, 0])], f(2, 3, 4)),
    case("index_put", X, [torch.tensor([1, 1]), torch.tensor([0, 2])], f(2, 4), True),
    case("index_put", X, [None, torch.tensor([2, 0])], f(2, 2, 4)),
    case("index_put", X, [None, torch.tensor([2, 0]), torch.tensor([1, 1])], f(2, 2)),
    case("index_put", X, [torch.tensor([1, 0]), None, torch.tensor([1, 3])], f(2, 3)),
    case("index_put", X, [FLAGS], torch.tensor(0.5)),
    case("_unsafe_index_put", X, [None, torch.tensor([0, 2])], torch.tensor(0.5)),
    case("index_copy", X, 1, torch.tensor([2, 0]), f(2, 2, 4)),
    case("index_add", X, 2, torch.tensor([2, 2]), f(2, 3, 2), alpha=2),
    case("one_hot", i(2, 3, low=0, high=5), 5),
]


def weights(gates: int, width: int, hidden: int, layers: int = 1, directions: int = 1, biases: bool = True) -> Any:
    """Return the weights of recurrent layers, in the order of PyTorch."""
    made: list[Any] = []
    for layer in range(layers):
        for _ in range(directions):
            columns = hidden * directions if layer else width
            made += [f(gates * hidden, columns), f(gates * hidden, hidden)]
            made += [f(gates * hidden), f(gates * hidden)] if biases else []
    return made


def layers(op: str, gates: int, count: int, directions: int, batch_first: bool, biases: bool = True) -> Case:
    states = [f(count * directions, 2, 5) for _ in range(2 if op == "lstm" else 1)]
    x = f(*((2, 4) if batch_first else (4, 2)), 3)
    parameters = weights(gates, 3, 5, count, directions, biases)
    first_states = states if op == "lstm" else states[0]
    named = [biases, count, 0.0, False, directions == 2, batch_first]
    return case(f"{op}.input", x, first_states, parameters, *named)


RECURRENT = [
    layers("lstm", 4, 1, 1, False),
    layers("lstm", 4, 2, 2, True),
    layers("gru", 3, 2, 1, True),
    layers("gru", 3, 1, 2, False, biases=False),
    layers("rnn_tanh", 1, 2, 1, False),
    case("lstm_cell", f(2, 3), [f(2, 5), f(2, 5)], *weights(4, 3, 5)),
    case("gru_cell", f(2, 3), f(2, 5), *weights(3, 3, 5)),
]

CASES = [*ELEMENTS, *PAIRS, *MOVED, *MADE, *REDUCED, *NORMALISED, *PRODUCTS, *WINDOWS, *INDEXED, *RECURRENT]

UNDEFINED = {f"aten.{name}" for name in ("empty.memory_format", "empty_like.default", "new_empty.default")} | {
    f"aten.{name}.default" for name in ("empty_permuted", "new_empty_strided", "empty_strided")
}
"""Operators whose results may be anything."""


@pytest.mark.parametrize("tried", CASES, ids=str)
def test_an_operator_computes_what_pytorch_computes(tried: Case) -> None:
    wanted, source = evaluated(tried)
    model = imported_program(source)
    arrays = {info.name: array_of(value) for info, value in zip(source.inputs, tensors_of(tried), strict=True)}
    found = results(model, **{name: array for name, array in arrays.items() if name in model.report.inputs})
    for name, value in wanted.items():
        expected = array_of(value)
        assert found[name].dtype == expected.dtype or not expected.shape
        assert found[name].shape == expected.shape
        limit = {2: 2e-2, 4: 2e-5, 8: 1e-11}.get(expected.dtype.itemsize, 0)
        exact = expected.dtype.kind in "biu"
        np.testing.assert_allclose(
            found[name].astype(np.float64), expected.astype(np.float64), 0 if exact else limit, 0 if exact else limit
        )


def test_every_translator_is_tried() -> None:
    tried = {f"aten.{each.op}" for each in CASES}
    assert set(translators()) == tried | UNDEFINED
