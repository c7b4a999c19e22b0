"""CONTRIBUTING.md: what it shows of a first change works, and the files that it names exist."""

from __future__ import annotations
import __future__

import re
import textwrap
from pathlib import Path

import numpy as np

from openinfer.dtypes import F32
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, scalar_expression
from openinfer.ops.catalog import activations
from openinfer.testing.oracles.activations import ORACLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_operator_of_the_first_change_computes_what_is_said() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace = dict(vars(activations))
    exec(compile(textwrap.dedent(shown), "CONTRIBUTING.md", "exec", __future__.annotations.compiler_flag), namespace)
    x = np.array([-3, 0, 1], np.float32)
    y = np.empty_like(x)

    schema = namespace["SOFTSIGN"]
    expression = scalar_expression(schema, call_of(schema, [TensorType(F32, (3,))], {}))
    compile_program(linearise(expression))([x], y)

    assert schema.name == "softsign"
    np.testing.assert_array_equal(y, np.float32([-0.75, 0, 0.5]))


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"`((?:openinfer-\w+(?:-\w+)*|docs|tests|\.ci)/[\w./-]*)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_places_where_the_first_change_goes_have_these_names() -> None:
    assert "hard_swish" in ORACLES
    comparisons = ROOT / "openinfer-backend-cpu" / "tests" / "onnx_oracle" / "onnx_comparisons.py"
    assert '"hard_swish": "HardSwish"' in comparisons.read_text(encoding="utf-8")
    assert "HARD_SWISH = elementwise(" in Path(activations.__file__).read_text(encoding="utf-8")
