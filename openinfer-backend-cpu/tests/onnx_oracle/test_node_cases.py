"""The cases that the package onnx ships for its operators, as programs on the device cpu."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_layer_translation  # noqa: F401
import onnx_movement_translation  # noqa: F401
import pytest
from onnx_programs import run, tensor_type, written
from onnx_translation import TRANSLATORS, Node, UntranslatableError, translated

from openinfer.dtypes import DType
from openinfer.ir.types import TensorType
from openinfer.plugins.environment import Environment

Array = np.ndarray[Any, Any]

FEWEST_CASES = 650
"""Cases of onnx 1.17 and later that at least are run."""

COARSE = {"f16": 2e-3, "bf16": 2e-2, "f8": 0.2}
"""Relative tolerance of low floats, where ONNX rounds after each step."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case: its node with the data, and its tolerances."""

    name: str
    node: Node
    rtol: float
    atol: float


@pytest.fixture(scope="module")
def cases() -> Mapping[str, Sequence[Case]]:
    """Return the cases of single nodes by ONNX operator."""
    onnx = pytest.importorskip("onnx", reason="ONNX's own cases are the oracle")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        collected = collect_testcases(None)
    found: dict[str, list[Case]] = {}
    for case in collected:
        if len(case.model.graph.node) == 1 and case.model.opset_import[0].domain in ("", "ai.onnx"):
            for inputs, outputs in case.data_sets:
                node = _node(onnx, case.model, inputs, outputs)
                found.setdefault(node.op, []).append(Case(case.name, node, case.rtol, case.atol))
    return found


def _node(onnx: Any, model: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Node:
    proto = model.graph.node[0]
    attributes = {a.name: _attribute(onnx, onnx.helper.get_attribute_value(a)) for a in proto.attribute}
    named = dict(zip([i.name for i in model.graph.input], inputs, strict=True))
    made = dict(zip([o.name for o in model.graph.output], outputs, strict=True))
    return Node(
        op=proto.op_type,
        opset=model.opset_import[0].version,
        attributes=attributes,
        inputs=[_data(onnx, named.get(name)) for name in proto.input],
        outputs=[_data(onnx, made.get(name)) for name in proto.output],
    )


def _attribute(onnx: Any, value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value.decode() if isinstance(value, bytes) else value


def _data(onnx: Any, value: Any) -> Any:
    """Return data as an array; sequences and the like stay what they are."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def difference(case: Case, found: Sequence[Array], results: Sequence[tuple[str, TensorType]]) -> str | None:
    """Return what is wrong with the results, or None."""
    expected = [output for output in case.node.outputs if output is not None]
    for array, wanted, (_, kind) in zip(found, expected, results, strict=False):
        if tensor_type(wanted) != kind:
            return f"{case.name}: {kind}, expected {tensor_type(wanted)}"
        if not _close(array, wanted, case, kind.dtype):
            return f"{case.name}: {array.reshape(-1)[:8]}, expected {wanted.reshape(-1)[:8]}"
    return None


def _close(found: Array, wanted: Array, case: Case, dtype: DType) -> bool:
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if not dtype.is_float:
        return bool(np.array_equal(found, wanted.astype(found.dtype)))
    return np.allclose(a, b, max(case.rtol, COARSE.get(dtype.name, 0.0)), case.atol, equal_nan=True)


@pytest.mark.parametrize("op", sorted(TRANSLATORS))
def test_the_cases_of_an_operator_agree(op: str, cases: Mapping[str, Sequence[Case]]) -> None:
    environment = Environment.default()
    wrong: list[str] = []
    for case in cases.get(op, ()):
        try:
            writer, results = written(translated(case.node), environment)
        except UntranslatableError:
            continue
        if (message := difference(case, run(writer, results), results)) is not None:
            wrong.append(message)
    assert not wrong, "\n".join(wrong)


def test_cases_without_a_counterpart_are_reported_with_their_reasons(cases: Mapping[str, Sequence[Case]]) -> None:
    environment, reasons, run_here = Environment.default(), Counter[str](), 0
    for op, several in cases.items():
        for case in several:
            try:
                written(translated(case.node), environment)
            except UntranslatableError as reason:
                reasons[f"{op}: {reason}"] += 1
            else:
                run_here += 1
    for reason, times in sorted(reasons.items()):
        print(f"{times:4} {reason}")
    print(f"{run_here} cases run, {reasons.total()} have no counterpart")
    assert run_here >= FEWEST_CASES
    assert not [op for op in TRANSLATORS if op in cases and not _any_written(cases[op], environment)]


def _any_written(cases: Sequence[Case], environment: Environment) -> bool:
    for case in cases:
        try:
            written(translated(case.node), environment)
        except UntranslatableError:
            continue
        return True
    return False


def test_a_wrong_result_is_seen(cases: Mapping[str, Sequence[Case]]) -> None:
    case = next(case for case in cases["Add"] if case.node.given(0).dtype == np.float32)
    writer, results = written(translated(case.node), Environment.default())
    (found,) = run(writer, results)
    assert difference(case, [found], results) is None
    found[(0,) * found.ndim] += 0.1
    assert difference(case, [found], results) is not None
