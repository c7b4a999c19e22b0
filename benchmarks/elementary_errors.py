"""Largest errors of the formulas of elementary functions (`openinfer.expr.elementary`), over all numbers of f32.

    python benchmarks/elementary_errors.py [--stride 1] [FUNCTION ...]

The C that is generated for each function is compiled and compared with the C library's function in double precision,
in units in the last place of the exact result. A function takes about two minutes on one core; ``--stride 101`` tries
every 101st number.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from openinfer.dtypes import F32
from openinfer.expr import c_renderer, linearise, tree
from openinfer.expr.elementary import ELEMENTARY

MAIN = """
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
        for (uint64_t i = 0; i < BLOCK; ++i) { found[i] = oi_FUNCTION_f32(given[i]); }
        for (uint64_t i = 0; i < BLOCK; ++i) {
            const double exact = FUNCTION((double)given[i]);
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
    printf("FUNCTION: %.3f units at %a; %llu special results differ\\n", largest, (double)where, special);
    return 0;
}
"""

FLAGS = ("-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


def measure(function: str, stride: int) -> str:
    """Return the line of one function."""
    program = linearise(getattr(tree, function)(tree.Input(0, F32)))
    helpers = c_renderer.helper_source(c_renderer.render(program, {0: "x"}).helpers)
    includes = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint"))
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "errors.c").write_text(includes + helpers + MAIN.replace("FUNCTION", function))
        subprocess.run(["cc", *FLAGS, "-o", "errors", "errors.c", "-lm"], cwd=directory, check=True)
        command = [f"{directory}/errors", str(stride)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print a line for each function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=sorted(ELEMENTARY))
    parser.add_argument("--stride", type=int, default=1)
    options = parser.parse_args()
    for function in options.functions:
        print(measure(function, options.stride), flush=True)


if __name__ == "__main__":
    main()
