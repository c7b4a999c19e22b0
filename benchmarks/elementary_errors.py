"""Largest errors of elementary functions (`openinfer.expr.elementary`) and of operators, over all numbers of f32.

    python benchmarks/elementary_errors.py [--stride 1] [NAME ...]

A name is that of a function or of an operator on one tensor, with its default settings. The C that is generated for
each one is compiled and compared with functions of the C library in double precision, in units in the last place of the
exact result. A name takes about two minutes on one core; ``--stride 101`` tries every 101st number.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.expr import c_renderer, linearise, tree
from openinfer.expr.elementary import ELEMENTARY
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, scalar_expression
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from openinfer.expr.tree import Expr

HYPERBOLIC = ("acosh", "asinh", "atanh", "cosh", "sinh")

EXACT = {
    "elu": "x >= 0 ? x : expm1(x)",
    "gelu": "0.5 * x * erfc(-x * 0.70710678118654752)",
    "mish": "x * tanh(log1p(exp(x)))",
    "rsqrt": "1 / sqrt(x)",
    "sigmoid": "1 / (1 + exp(-x))",
    "silu": "x / (1 + exp(-x))",
    "softplus": "x > 40 ? x : log1p(exp(x))",
}
"""Formulas of what the C library has no function of the same name for."""

MAIN = """
static double exact_of(double x) { return EXACT; }

static float value_of(float x)
{
STATEMENTS
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    const uint64_t stride = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    double largest = 0;
    float where = 0;
    unsigned long long special = 0;
    enum { BLOCK = 4096 };
    static float given[BLOCK], found[BLOCK];
    for (uint64_t start = 0; start < (1ull << 32); start += BLOCK * stride) {
        for (uint64_t i = 0; i < BLOCK; ++i) {
            const uint32_t bits = (uint32_t)(start + i * stride);
            memcpy(&given[i], &bits, sizeof bits);
        }
        for (uint64_t i = 0; i < BLOCK; ++i) { found[i] = value_of(given[i]); }
        for (uint64_t i = 0; i < BLOCK; ++i) {
            const double exact = exact_of((double)given[i]);
            const float expected = (float)exact;
            if (isnan(expected) || isinf(expected) || expected == 0) {
                special += !((isnan(expected) && isnan(found[i])) || memcmp(&expected, &found[i], sizeof expected) == 0)
                    && !(expected == 0 && exact != 0 && fabsf(found[i]) <= 0x1p-149f);
                continue;
            }
            int exponent;
            frexp(fmax(fabs(exact), 0x1p-126), &exponent);
            const double error = ldexp(fabs((double)found[i] - exact), 24 - exponent);
            if (!(error <= largest)) { largest = error; where = given[i]; }
        }
    }
    printf("NAME: %.3f units at %a; %llu special results differ\\n", largest, (double)where, special);
    return 0;
}
"""

FLAGS = ("-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


def expression_of(name: str) -> Expr:
    """Return a function, or an operator with its default settings, of ``Input(0)``, an f32."""
    if name in ELEMENTARY or name in ("expm1", "log1p"):
        return getattr(tree, name)(tree.Input(0, F32))
    schema = Environment.default().op(name)
    return scalar_expression(schema, call_of(schema, [TensorType(F32)], {}))


def measure(name: str, stride: int) -> str:
    """Return the line of one name."""
    fragment = c_renderer.render(linearise(expression_of(name)), {0: "x"})
    helpers = c_renderer.helper_source(fragment.helpers)
    body = "\n".join(f"    {line}" for line in (*fragment.statements, f"return {fragment.result};"))
    program = MAIN.replace("EXACT", EXACT.get(name, f"{name}(x)")).replace("STATEMENTS", body).replace("NAME", name)
    includes = "".join(f"#include <{header}.h>\n" for header in ("math", "stdbool", "stddef", "stdint"))
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "errors.c").write_text(includes + helpers + program)
        subprocess.run(["cc", *FLAGS, "-o", "errors", "errors.c", "-lm"], cwd=directory, check=True)
        command = [f"{directory}/errors", str(stride)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print a line for each name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=sorted((*ELEMENTARY, *HYPERBOLIC)))
    parser.add_argument("--stride", type=int, default=1)
    options = parser.parse_args()
    for name in options.names:
        print(measure(name, options.stride), flush=True)


if __name__ == "__main__":
    main()
