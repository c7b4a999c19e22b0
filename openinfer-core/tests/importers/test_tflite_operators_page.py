"""The table of operators in the documentation is what the importer has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openinfer.importers.tflite_files.refusals import REASONS, refusal
from openinfer.importers.tflite_files.registry import translators

tflite = pytest.importorskip("tflite", reason="operators are those of the package tflite")

PAGE = Path(__file__).parents[3] / "docs" / "import-tflite.md"
HEAD = "| operator | |\n|---|---|\n"
NOT_OPERATORS = ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")

MICRO = """
ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_ARGS BROADCAST_TO
CALL_ONCE CAST CEIL CONCATENATION CONV_2D COS CUMSUM DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV
DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER
GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND
LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2
PRELU QUANTIZE READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR
RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT SCATTER_ND SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND
SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF TANH TRANSPOSE
TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK VAR_HANDLE WHILE ZEROS_LIKE
"""
"""What TFLite Micro's resolver of all operators has of TFLite's own, asked of its package in October 2026."""


def operators() -> list[str]:
    """Return the names of TFLite's own operators; those of StableHLO are not in its runtime."""
    names = [name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)]
    return sorted(name for name in names if name not in NOT_OPERATORS and not name.startswith("STABLEHLO_"))


def rows() -> str:
    has = translators()
    return "".join(f"| {name} | {'yes' if name in has else f'refused: {refusal(name)}'} |\n" for name in operators())


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not part of the distribution")
def test_the_page_lists_every_operator() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, table = text.split(HEAD)
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        PAGE.write_text(before + HEAD + rows(), encoding="utf-8")
        return
    assert table == rows(), "run with OPENINFER_UPDATE_GOLDEN=1 to write the table again"


def test_there_is_every_operator_of_tflite_micro() -> None:
    assert [name for name in MICRO.split() if name not in translators()] == []


def test_every_operator_has_its_real_name() -> None:
    assert set(translators()) <= set(operators())
    assert set(REASONS) <= set(operators())
    assert not set(translators()) & set(REASONS)
