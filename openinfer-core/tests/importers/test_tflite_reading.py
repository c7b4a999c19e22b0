"""TFLite files are read whole or refused with words, whatever their bytes are."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_models import Graph, holds, imported, model, of, op, saved

from openinfer import MissingDependencyError, ModelImportError
from openinfer.importers import load

MUTANTS = int(os.environ.get("OPENINFER_FUZZ_MODELS", "150"))


def small(**changes: Any) -> bytes:
    """Return a model of a quantised convolution, a reshape and a softmax."""
    tensors = {
        "x": of("serving_default_image:0", [1, 4, 4, 2], np.int8, 0.5, -3, signature=[-1, 4, 4, 2]),
        "w": holds("net/conv/Conv2D", np.arange(36).reshape(2, 3, 3, 2).astype(np.int8), [0.25, 0.5], 0),
        "b": holds("net/conv/BiasAdd/ReadVariableOp", np.array([7, -9], np.int32), [0.125, 0.25], 0),
        "h": of("net/conv/Relu;net/conv/BiasAdd", [1, 4, 4, 2], np.int8, 4.0, -128, signature=[-1, 4, 4, 2]),
        "s": holds("net/flatten/Const", np.array([-1, 32], np.int32)),
        "f": of("net/flatten/Reshape", [1, 32], np.int8, 4.0, -128, signature=[-1, 32]),
        "y": of("StatefulPartitionedCall:0", [1, 32], np.int8, 1 / 256, -128, signature=[-1, 32]),
    } | changes
    names = {key: tensor.name for key, tensor in tensors.items()}
    operators = [
        op(
            "CONV_2D",
            "{x} {w} {b}".format(**names),
            names["h"],
            "Conv2DOptions",
            StrideW=1,
            StrideH=1,
            DilationWFactor=1,
            DilationHFactor=1,
            FusedActivationFunction=1,
        ),
        op("RESHAPE", "{h} {s}".format(**names), names["f"], "ReshapeOptions", NewShape=[-1, 32]),
        op("SOFTMAX", names["f"], names["y"], "SoftmaxOptions", Beta=1.0),
    ]
    return model(list(tensors.values()), operators, names["x"], names["y"])


def refusal(data: bytes, folder: Path, **options: Any) -> ModelImportError:
    with pytest.raises(ModelImportError) as raised:
        imported(data, folder, **options)
    return raised.value


def test_names_are_legal_and_without_what_converters_add(tmp_path: Path) -> None:
    found = imported(small(), tmp_path)
    assert "image: i8[batch, 4, 4, 2];" in found.text
    assert 'conv_weight: i8[2, 2, 3, 3] @ref("conv.weight");' in found.text
    assert dict(found.report.inputs) == {"image": "image"}
    assert dict(found.report.outputs) == {"StatefulPartitionedCall": "StatefulPartitionedCall"}
    assert found.report.format == "tflite"


@pytest.mark.parametrize("name", ["5" * 40 + "_0_4_part", "n" * 9 + "_0_4_net_flatten_Reshape_of_rows_and_1", "9"])
def test_long_names_are_cut_to_legal_ones(name: str, tmp_path: Path) -> None:
    assert imported(small(f=of(name, [1, 32], np.int8, 4.0, -128, signature=[-1, 32])), tmp_path).graph.blocks


def test_an_open_dimension_is_a_size_that_can_be_fixed(tmp_path: Path) -> None:
    assert "image: i8[batch, 4, 4, 2];" in imported(small(), tmp_path).text
    assert "image: i8[3, 4, 4, 2];" in imported(small(), tmp_path, values={"batch": 3}).text
    error = refusal(small(), tmp_path, values={"rows": 3})
    assert error.code == "import-value"
    assert "no input or dimension 'rows'; it has: image, batch" in str(error)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"b": holds("b", np.array([7, -9], np.int32), [0.1, 0.2, 0.3])}, "has 3 scales along dim 0"),
        ({"b": holds("b", np.array([7, -9], np.int32), [0.1, np.nan])}, "scales that are not positive numbers"),
        ({"x": of("x", [1] * 9, np.int8, 0.5)}, "has 9 dims, expected at most 8"),
        ({"x": of("x", [1, 4, 4, 2], np.int8, 0.5, signature=[-1, 4])}, "has 4 dims, and a signature of 2"),
        (
            {"x": of("x", [1, 4, 4, 2], np.int8, 0.5, kind="STRING")},
            "type STRING, which OpenInfer does not have",
        ),
        (
            {"x": of("x", [1, 4, 4, 2], np.int8, 0.5, 4, kind="INT16")},
            "zero points of layers of 16 bits",
        ),
        ({"w": of("w", [2, 3, 3, 2], np.int8, 0.5)}, "CONV_2D 0 reads 'w' before it is written"),
        ({"h": of("h", [1, 4, 4, 3], np.int8, 4.0, -128)}, "the result has the shape [1, 4, 4, 2], and the file says"),
        ({"h": of("h", [1, 4, 4, 2], np.int8)}, "'h' has no scale"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    fixed = {key: of("x", [1, 4, 4, 2], np.int8, 0.5, -3) for key in ("x",) if "h" in change}
    assert said in str(refusal(small(**fixed, **change), tmp_path)), change


def with_code(number: int) -> Callable[[bytes], bytes]:
    """Return a change of the first operator code."""
    import tflite

    def changed(data: bytes) -> bytes:
        copy = bytearray(data)
        code = tflite.Model.GetRootAs(data, 0).OperatorCodes(0)
        copy[code._tab.Pos + code._tab.Offset(10)] = number
        copy[code._tab.Pos + code._tab.Offset(4)] = min(number, 127)
        return bytes(copy)

    return changed


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (31, "CALL 'conv/Relu'(i8[batch,4,4,2], i8[2,3,3,2], i32[2]): calls of subgraphs other than"),
        (143, "READ_VARIABLE 'conv/Relu'(i8[batch,4,4,2], i8[2,3,3,2], i32[2]): input 'image' has to be known"),
        (32, "a custom operator, which only the program that made the file defines"),
        (253, "operator 253 'conv/Relu'"),
    ],
)
def test_operators_without_a_counterpart_are_named(number: int, said: str, tmp_path: Path) -> None:
    error = refusal(with_code(number)(small()), tmp_path)
    assert error.code == "import-unsupported"
    assert said in str(error)


@pytest.mark.parametrize("length", [0, 4, 8, 40, 200])
def test_truncated_files_are_refused(length: int, tmp_path: Path) -> None:
    assert refusal(small()[:length], tmp_path).code == "import-file"


def test_a_folder_of_a_saved_model_says_how_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ModelImportError, match=r"from_saved_model\(folder\)"):
        load(tmp_path)


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(small(), tmp_path)
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(MissingDependencyError, match=r'install "openinfer-core\[tflite\]"'):
        load(path)


def mutated(data: bytes, random_numbers: random.Random, others: Sequence[bytes]) -> bytes:
    """Return bytes with a few of them changed, cut off, repeated, or replaced by offsets and extreme numbers."""
    copy = bytearray(data)
    for _ in range(random_numbers.randint(1, 4)):
        place = random_numbers.randrange(8, len(copy))
        match random_numbers.randrange(6):
            case 0:
                copy[place] ^= 1 << random_numbers.randrange(8)
            case 1:
                copy[place : place + 4] = random_numbers.randbytes(4)
            case 2:
                number = random_numbers.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(copy), place])
                copy[place : place + 4] = number.to_bytes(4, "little")
            case 3:
                del copy[max(place, 64) :]
            case 4:
                start = random_numbers.randrange(len(copy))
                copy[place : place + 16] = copy[start : start + 16]
            case _:
                other = random_numbers.choice(others)
                copy[place : place + 16] = other[place : place + 16]
        if len(copy) <= 64:
            break
    return bytes(copy)


def with_subgraphs() -> bytes:
    """Return a model of a branch, a loop, a variable with a first value, and a filter with a state."""
    whole, one = [1, 3], np.array(1, np.int32)
    resource = of("r", [], np.int32, kind="RESOURCE")
    handle = op("VAR_HANDLE", "", "r", "VarHandleOptions", Container="", SharedName="total")
    body = Graph(
        [of("i", [], np.int32), of("x", whole), holds("s", one), of("j", [], np.int32), of("y", whole)],
        [op("ADD", "i s", "j", "AddOptions"), op("ABS", "x", "y")],
        "i x",
        "j y",
    )
    goes_on = Graph(
        [of("i", [], np.int32), of("x", whole), holds("n", one), of("go", [], np.bool_)],
        [op("LESS", "i n", "go")],
        "i x",
        "go",
    )
    first = Graph(
        [resource, holds("v", np.ones(whole, np.float32))],
        [handle, op("ASSIGN_VARIABLE", "r v", "", "AssignVariableOptions")],
        "",
        "",
    )
    sides = [Graph([of("a", whole), of("b", whole)], [op(kind, "a", "b")], "a", "b") for kind in ("NEG", "EXP")]
    tensors = [
        *(of(name, whole) for name in ("x", "now", "h", "g", "z")),
        *(of(name, [], np.int32) for name in ("k",)),
        *(holds("zero", np.array(0, np.int32)), of("c", [], np.bool_), resource),
        *(holds("f", np.ones((4, 3), np.float32)), holds("t", np.ones((4, 2), np.float32))),
        *(of("state", [1, 8], variable=True), of("y", [1, 4])),
    ]
    operators = [
        op("CALL_ONCE", "", "", "CallOnceOptions", InitSubgraphIndex=3),
        handle,
        op("READ_VARIABLE", "r", "now", "ReadVariableOptions"),
        op("ADD", "now x", "h", "AddOptions"),
        op("ASSIGN_VARIABLE", "r h", "", "AssignVariableOptions"),
        op("IF", "c h", "g", "IfOptions", ThenSubgraphIndex=4, ElseSubgraphIndex=5),
        op("WHILE", "zero g", "k z", "WhileOptions", CondSubgraphIndex=2, BodySubgraphIndex=1),
        op("SVDF", "z f t - state", "y", "SVDFOptions", Rank=1),
    ]
    return model(tensors, operators, "x c", "y k", body, goes_on, first, *sides)


def test_mutated_files_are_read_or_refused_in_words(tmp_path: Path) -> None:
    """``OPENINFER_FUZZ_MODELS=100000`` tries more of them, about 45 a second, other ones by ``OPENINFER_FUZZ_SEED``."""
    random_numbers = random.Random(int(os.environ.get("OPENINFER_FUZZ_SEED", "33")))
    base = [small(), with_code(22)(small()), with_subgraphs()]
    refusals: list[str] = []
    for _ in range(MUTANTS):
        data = mutated(random_numbers.choice(base), random_numbers, base)
        try:
            imported(data, tmp_path)
        except ModelImportError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < MUTANTS
    assert all(refusals)
