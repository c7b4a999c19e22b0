"""Names of ONNX and PyTorch: each leads to an operator of the catalogue, or is said not to be available."""

from __future__ import annotations

import re

import pytest

from openinfer.errors import OpenInferError
from openinfer.ops.other_names import other_name_hint, other_names, plain_name
from openinfer.plugins.environment import Environment

KNOWN = frozenset((*Environment.default().ops, *Environment.default().op_aliases))
onnx = pytest.importorskip("onnx", reason="the names come from the package onnx")
ONNX = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
WORDS = re.compile(r"`([a-z][a-z0-9_]*)`")
NOT_OPERATORS = {
    *("axis", "to", "min", "max", "loop", "branch", "transfer", "assign", "constant", "dynamic"),
    *("negative_slope", "clamp_max", "trans_a", "trans_b"),
}
"""Settings, statements and sections that the table names."""


@pytest.mark.parametrize("name", ONNX)
def test_every_operator_of_onnx_has_an_answer(name: str) -> None:
    assert other_name_hint(name, KNOWN) is not None


@pytest.mark.parametrize(("name", "entry"), other_names().items())
def test_an_entry_leads_to_operators_that_exist(name: str, entry: str) -> None:
    assert name == plain_name(name)
    word = entry.split()[0].rstrip(",")
    assert word == "-" or word in KNOWN
    assert set(WORDS.findall(entry)) - NOT_OPERATORS <= KNOWN


def test_an_entry_with_the_name_of_an_operator_leads_to_another() -> None:
    both = {plain_name(each) for each in KNOWN} & other_names().keys()
    assert {name: other_names()[name].split()[0] for name in both} == {"isfinite": "is_finite_each,"}


ANSWERS = {
    "gemm": "use `linear`",
    "cat": "use `concat`",
    "dense": "use `linear`",
    "leaky_relu": "use `relu` with the setting `negative_slope`",
    "LeakyRelu": "use `relu` with the setting `negative_slope`",
    "scaled_dot_product_attention": "use `sdpa`",
    "view": "use `reshape`",
    "unfold": "it is not available; `conv2d`",
    "relu6": "use `relu` with `clamp_max=6.0`",
    "randn": "it is not available; give random values as a `dynamic` input",
    "LogSoftmax": "did you mean `log_softmax`?",
    "softmx": "did you mean `softmax`",
}


@pytest.mark.parametrize(("name", "answer"), ANSWERS.items())
def test_the_error_says_what_to_write(name: str, answer: str) -> None:
    with pytest.raises(OpenInferError) as caught:
        Environment.default().op(name)
    assert caught.value.code == "unknown-op"
    assert answer in str(caught.value)
