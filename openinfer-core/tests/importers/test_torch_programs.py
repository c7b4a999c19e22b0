"""Programs of PyTorch as plain data, made by hand: what becomes of them needs no PyTorch."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_programs import imported_program, info, integer, op, program, results

from openinfer.dtypes import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from openinfer.errors import MissingDependencyError, ModelImportError
from openinfer.importers import load
from openinfer.importers.imported import ImportedModel
from openinfer.importers.onnx_files.values import Value
from openinfer.importers.torch_files.archive import check_archive
from openinfer.importers.torch_files.promotion import promoted
from openinfer.importers.torch_files.symbols import Range, Symbols
from openinfer.plugins.environment import Environment

runs = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(34)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)
BIAS = RNG.standard_normal(3).astype(np.float32)


def perceptron() -> ImportedModel:
    operators = [
        op("linear.default", "linear", "f32", ["batch", 3], input="%x", weight="%fc1_weight", bias="%fc1_bias"),
        op("relu.default", "relu", "f32", ["batch", 3], self="%linear"),
    ]
    weights = {"fc1.weight": WEIGHT, "fc1.bias": BIAS}
    return imported_program(program(operators, [info("x", "f32", ["batch", 4])], ["relu"], weights))


@runs
def test_a_layer_computes_with_its_weights() -> None:
    x = RNG.standard_normal((5, 4)).astype(np.float32)

    found = results(perceptron(), x=x)

    np.testing.assert_allclose(found["relu"], np.maximum(x @ WEIGHT.T + BIAS, 0), 1e-6, 1e-6)


def test_weights_are_named_after_their_path_in_the_module() -> None:
    model = perceptron()

    assert "op linear(x, fc1_weight, bias=fc1_bias, trans_w=true)" in model.text
    assert set(model.model.tensors) == {"fc1.weight", "fc1.bias"}


def test_the_report_counts_patterns_that_became_one_operator() -> None:
    operators = [
        op("sigmoid.default", "gate", "f32", [2, 4], self="%x"),
        op("mul.Tensor", "product", "f32", [2, 4], self="%x", other="%gate"),
    ]

    model = imported_program(program(operators, [info("x", "f32", [2, 4])], ["product"]))

    assert "op silu(x)" in model.text
    assert (model.report.recognised, model.report.norms, model.report.layers) == ({"silu": 1}, 0, 0)


# Sizes


def joined(extents: list[Any], **values: Any) -> ImportedModel:
    """Return a program that joins the first two dims of its input: their product is computed from sizes."""
    operators = [
        integer("aten.sym_size.int", "rows", "%x", 0),
        integer("aten.sym_size.int", "columns", "%x", 1),
        integer("mul", "count", "%rows", "%columns"),
        op("view.default", "view", "f32", ["batch*x_1", 2], self="%x", size=("%count", 2)),
    ]
    ranges = {"batch": Range(2, 64), "x_1": Range(1)}
    source = program(operators, [info("x", "f32", extents)], ["view"], ranges=ranges)
    return imported_program(source, **values)


@runs
def test_extents_follow_the_sizes_of_a_step() -> None:
    model = joined(["batch", "x_1", 2])

    for shape in ((2, 3, 2), (4, 1, 2)):
        x = RNG.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(results(model, x=x)["view"], x.reshape(-1, 2))


def test_the_range_of_a_dimension_bounds_its_size() -> None:
    assert joined(["batch", "x_1", 2]).model.sizevars == {"batch": 2, "x_1": 1}


def test_a_dimension_can_be_fixed() -> None:
    model = joined(["batch", "x_1", 2], batch=3)

    assert dict(model.model.sizevars) == {"x_1": 1}
    assert "x: f32[3, x_1, 2];" in model.text


@runs
def test_a_value_for_an_input_has_any_extent_where_a_dimension_is_free() -> None:
    x = RNG.standard_normal((3, 4, 2)).astype(np.float32)

    np.testing.assert_array_equal(results(joined(["batch", "x_1", 2], x=x))["view"], x.reshape(-1, 2))
    with pytest.raises(
        ModelImportError, match=r"value for input 'x' has shape \[3, 4, 2\], expected \[batch, x_1, 3\]"
    ):
        joined(["batch", "x_1", 3], x=x)


def test_a_name_that_is_neither_input_nor_dimension_lists_those_that_are() -> None:
    with pytest.raises(ModelImportError, match="no input or dimension 'rows'; it has: x, batch, x_1"):
        joined(["batch", "x_1", 2], rows=3)


def test_symbols_are_named_after_the_dims_that_they_are() -> None:
    symbols = Symbols({"ids": ["s77", "s27"], "mask": ["s77", "s27"], "scores": ["s3"], "sides": [4, "s9"]})

    extents = ["s77", "s27", "s3", "s9", "2*s27 + s77", 4]
    assert [symbols.dim(extent if isinstance(extent, int) else Text(extent)) for extent in extents] == [
        "batch", "ids_1", "scores_0", "sides_1", "2*ids_1 + batch", 4,
    ]  # fmt: skip


class Limits:
    """Stands for a range of PyTorch."""

    def __init__(self, lower: int, upper: int | str) -> None:
        self.lower, self.upper = lower, upper


def test_a_multiple_of_a_symbol_is_a_dimension_with_the_multiples_as_values() -> None:
    symbols = Symbols({"image": [1, Text("32*s7"), Text("2*s9 + 1"), Text("64*s7")], "row": [Text("s9")]})

    dims = [symbols.dim(Text(text)) for text in ("32*s7", "64*s7", "2*s9 + 1", "s9")]
    ranges = symbols.ranges({"s7": Limits(1, 8), "s9": Limits(2, "int_oo")})

    assert dims == ["image_1", "64*(image_1 / 32)", "2*row_0 + 1", "row_0"]
    assert ranges == {"image_1": Range(32, 256, 32), "row_0": Range(2)}


@runs
def test_an_extent_that_is_always_even_is_halved() -> None:
    operators = [
        integer("aten.sym_size.int", "rows", "%x", 0),
        integer("floordiv", "half", "%rows", 2),
        op("view.default", "view", "f32", ["batch", 6], self="%x", size=("%half", 6)),
    ]
    source = program(operators, [info("x", "f32", ["batch", 3])], ["view"], ranges={"batch": Range(2, 8, 2)})
    model = imported_program(source)

    x = RNG.standard_normal((4, 3)).astype(np.float32)
    np.testing.assert_array_equal(results(model, x=x)["view"], x.reshape(2, 6))
    assert model.model.sizevars == {"batch": 2}


class Text:
    """Stands for an extent of PyTorch, of which only the text is read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


# Buffers


def counting() -> ImportedModel:
    operators = [
        op("add.Tensor", "total", "f32", [3], self="%sum", other="%x", alpha=1),
        op("add.Tensor", "next", "i64", [], self="%steps", other=1, alpha=1),
        op("mul.Tensor", "scaled", "f32", [3], self="%total", other="%next"),
    ]
    buffers = {"sum": (np.array([1, 2, 3], np.float32), "total"), "steps": (np.array(0), "next")}
    return imported_program(program(operators, [info("x", "f32", [3])], ["scaled"], buffers=buffers))


@runs
def test_a_buffer_that_is_written_is_persistent_and_starts_with_its_value() -> None:
    x = np.array([1, 1, 2], np.float32)

    found = results(counting(), steps=3, x=x)

    assert list(found) == ["scaled"]
    np.testing.assert_array_equal(found["scaled"], (np.array([1, 2, 3]) + 3 * x) * 3)


def test_next_values_of_buffers_are_no_results() -> None:
    model = counting()

    assert dict(model.report.states) == {"sum": "sum", "steps": "steps"}
    assert list(model.report.outputs) == ["scaled"]
    assert "sum: f32[3] @init" not in model.text
    assert list(model.model.tensors) == ["sum"]


# Refusals


def test_all_operators_without_a_translation_are_listed() -> None:
    operators = [
        op("fft_fft.default", "a", "f32", [3], self="%x"),
        op("relu.default", "b", "f32", [3], self="%a"),
        op("digamma.default", "c", "f32", [3], self="%x"),
    ]
    with pytest.raises(ModelImportError) as caught:
        imported_program(program(operators, [info("x", "f32", [3])], ["b", "c"]))

    assert "2 operators cannot be imported" in str(caught.value)
    assert "without a translation: aten.digamma.default, aten.fft_fft.default" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "dims", "message"),
    [("f16", [3], "is f32, and the program says f16"), ("f32", [4], r"shape \[3\], and the program says \[4\]")],
)
def test_a_result_that_differs_from_what_the_program_says_is_refused(kind: str, dims: list[int], message: str) -> None:
    operators = [op("abs.default", "y", kind, dims, self="%x")]
    if kind == "f16":
        operators = [op("gelu.default", "y", kind, dims, self="%x", approximate="none")]

    with pytest.raises(ModelImportError, match=message):
        imported_program(program(operators, [info("x", "f32", [3])], ["y"]))


def test_a_result_of_a_foreign_type_is_refused_with_its_operator() -> None:
    operators = [replace(op("abs.default", "y", "f32", [3], self="%x"), foreign="torch.complex64", results=())]

    with pytest.raises(ModelImportError, match=r"aten\.abs\.default 'y'.*its result is torch\.complex64"):
        imported_program(program(operators, [info("x", "f32", [3])], ["y"]))


def test_an_operator_that_trains_is_refused_with_a_way_out() -> None:
    operators = [op("dropout.default", "y", "f32", [3], input="%x", p=0.5, train=True)]

    with pytest.raises(ModelImportError, match=r"call eval\(\) on the module"):
        imported_program(program(operators, [info("x", "f32", [3])], ["y"]))


def test_without_pytorch_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "model.pt2"
    path.write_bytes(b"PK\x03\x04")

    with pytest.raises(MissingDependencyError, match=r'install "openinfer-core\[torch\]"'):
        load(path)


# Archives


def archive(folder: Path, files: dict[str, Any]) -> Path:
    path = folder / "model.pt2"
    with zipfile.ZipFile(path, "w") as written:
        for name, content in files.items():
            written.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


PROGRAM = {"m/models/model.json": {}}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"m/version": b"3"}, "has no program"),
        ({"m/code/model.py": b"", "m/constants.pkl": b""}, "TorchScript archive"),
        ({**PROGRAM, "m/data/aotinductor/model/x.so": b""}, "compiled libraries"),
        (
            {**PROGRAM, "m/data/weights/model_weights_config.json": {"config": {"w": {"use_pickle": True}}}},
            "holds 'w' as a pickle",
        ),
        ({**PROGRAM, "m/data/weights/model_weights_config.json": b"[]"}, r"is not a program of torch\.export"),
    ],
)
def test_an_archive_that_could_run_code_is_never_read(files: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=message):
        check_archive(archive(tmp_path, files), None)


def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"PK\x03\x04 and nothing else")

    with pytest.raises(ModelImportError, match=r"not a program of torch\.export"):
        check_archive(path, None)


# Promotion of types, as PyTorch defines it


def tensor(dtype: DType, rank: int = 1) -> Value:
    return Value("", dtype, (2,) * rank)


@pytest.mark.parametrize(
    ("operands", "dtype"),
    [
        ((tensor(F16), tensor(F32, 0)), F16),
        ((tensor(I32), tensor(F64, 0)), F64),
        ((tensor(I32), 2.5), F32),
        ((tensor(I8), 300), I8),
        ((tensor(BOOL), 3), I64),
        ((tensor(BOOL), True), BOOL),
        ((tensor(U8), tensor(I8)), I16),
        ((tensor(I32, 0), tensor(I8)), I8),
        ((tensor(F32, 0), tensor(F16, 0)), F32),
        ((tensor(I64), tensor(F16)), F16),
    ],
)
def test_operands_are_combined_in_the_type_that_pytorch_chooses(operands: tuple[Any, ...], dtype: DType) -> None:
    assert promoted(operands) is dtype
