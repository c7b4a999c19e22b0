"""Comparisons and extrema in generated C against the least and greatest integers of their types."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from openinfer.dtypes import I8, I16, I32, I64, U8, U16, U32, U64
from openinfer.expr import c_renderer, linearise, tree
from openinfer.testing.waiting import limit_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr

INTEGERS = (I8, I16, I32, I64, U8, U16, U32, U64)
FUNCTIONS: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
    "eq": (tree.eq, lambda a, b: a == b),
    "ne": (tree.ne, lambda a, b: a != b),
    "lt": (tree.lt, lambda a, b: a < b),
    "le": (tree.le, lambda a, b: a <= b),
    "gt": (tree.gt, lambda a, b: a > b),
    "ge": (tree.ge, lambda a, b: a >= b),
    "minimum": (tree.minimum, min),
    "maximum": (tree.maximum, max),
}
FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")


def function_with_checks(name: str, dtype: DType, *, is_least: bool, is_first: bool) -> tuple[str, str]:
    """Return a C function of one number and a limit of its type, and the checks of its results."""
    assert dtype.minimum is not None
    assert dtype.maximum is not None
    limit = dtype.minimum if is_least else dtype.maximum
    x, number = tree.Input(0, dtype), tree.literal(limit, dtype)
    build, oracle = FUNCTIONS[name]
    expr = build(number, x) if is_first else build(x, number)
    fragment = c_renderer.render(linearise(expr), {0: "x"})
    side = "first" if is_first else "last"
    symbol = f"{name}_{dtype}_{'least' if is_least else 'greatest'}_{side}"
    kind, result = c_renderer.c_type(dtype), c_renderer.c_type(expr.dtype)
    text = f"static {result} {symbol}({kind} x) {{ {' '.join(fragment.statements)} return {fragment.result}; }}\n"
    checks = ""
    for value in (dtype.minimum, dtype.minimum + 1, 5, dtype.maximum - 1, dtype.maximum):
        wanted = oracle(limit, value) if is_first else oracle(value, limit)
        given, expected = (c_renderer.literal_text(dtype, number) for number in (value, int(wanted)))
        checks += f"    if ({symbol}({given}) != {expected}) return __LINE__ % 255 + 1;\n"
    return text, checks


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_limits_of_types_raise_no_warning_and_compare_as_numbers(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    made = [
        function_with_checks(name, dtype, is_least=is_least, is_first=is_first)
        for name in FUNCTIONS
        for dtype in INTEGERS
        for is_least in (False, True)
        for is_first in (False, True)
    ]
    functions, checks = ("".join(parts) for parts in zip(*made, strict=True))
    text = f"#include <stdbool.h>\n#include <stdint.h>\n{functions}int main(void) {{\n{checks}    return 0;\n}}\n"
    (tmp_path / "limits.c").write_text(text)
    command = [compiler, *FLAGS, "-o", "limits", "limits.c"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=limit_s(60), check=False)
    assert built.returncode == 0, built.stderr[:4000]
    subprocess.run([str(tmp_path / "limits")], timeout=limit_s(20), check=True)
