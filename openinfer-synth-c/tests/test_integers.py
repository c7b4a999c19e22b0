"""Index arithmetic of the generated source, against Python's exact integers."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import SynthesisError, ValidationError
from openinfer.model import Model
from openinfer.synth import Synthesizer
from openinfer.synth.c_host.integer_functions import integer_functions
from openinfer_synth_c.compiler_flags import FLAGS

EDGES = sorted({sign * 2**power + more for sign in (-1, 1) for power in (0, 1, 31, 62, 63) for more in (-1, 0, 1)})
NUMBERS = [n for n in EDGES if -(2**63) <= n < 2**63]
EXACT = {"index_add": int.__add__, "index_sub": int.__sub__, "index_mul": int.__mul__}

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def spelled(number):
    return "INT64_MIN" if number == -(2**63) else f"INT64_C({number})"


def test_sums_differences_and_products_are_exact_or_noted(tmp_path):
    calls = "\n".join(
        f"for (i = 0; i < {len(NUMBERS)}; ++i) for (j = 0; j < {len(NUMBERS)}; ++j) {{ bool overflow = false; "
        f'const int64_t r = {name}(numbers[i], numbers[j], &overflow); if (overflow) puts("-"); '
        'else printf("%" PRId64 "\\n", r); }'
        for name in EXACT
    )
    source = "\n".join(
        [
            "#include <inttypes.h>\n#include <stdbool.h>\n#include <stdio.h>",
            *integer_functions(EXACT),
            f"static const int64_t numbers[] = {{{', '.join(map(spelled, NUMBERS))}}};",
            f"int main(void) {{\nint i, j;\n{calls}\nreturn 0;\n}}\n",
        ]
    )
    (tmp_path / "main.c").write_text(source)
    sanitized = [*FLAGS, "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *sanitized, "-o", "main", "main.c"], cwd=tmp_path, check=True)

    found = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()

    exact = [f(a, b) for f in EXACT.values() for a, b in itertools.product(NUMBERS, NUMBERS)]
    assert found == [str(n) if -(2**63) <= n < 2**63 else "-" for n in exact]


TURNS = """
dynamic {{ s: {dtype}; }}
volatile {{ n: i32; one: i32 @init(1); }}
block entry {{ loop turns (i in 0..{end}) {{ op add(n, one) >> n; }} return n; }}
"""


def turns(end, s, dtype="i64"):
    kind = {"i64": np.int64, "u64": np.uint64}[dtype]
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(TURNS.format(end=end, dtype=dtype)))
    return int(synthesis.run({"s": np.array(s, kind)}).outputs["n"])


def test_a_loop_bound_that_64_bits_hold_is_exact():
    assert turns("s*2-s-s+2", 2**61) == 2
    assert turns("s-9223372036854775805", 2**63 - 1) == 2


@pytest.mark.parametrize(("end", "s", "dtype"), [("s*2-s-s+2", 2**62, "i64"), ("s-s+2", 2**63, "u64")])
def test_what_cancels_needs_no_64_bits(end, s, dtype):
    assert turns(end, s, dtype) == 2


def test_a_product_of_differences_fits_where_its_parts_multiplied_out_do_not():
    assert turns("(s-4294967296)*(s-4294967297)", 2**32 + 3) == 6


def test_a_division_that_cancels_is_an_error_where_it_has_no_value():
    with pytest.raises(SynthesisError, match="an index is out of range or overflows 64 bits"):
        turns("2+0*floor(s/2)", -1)


@pytest.mark.parametrize(("end", "s", "dtype"), [("s*2-9223372036854775807", 2**62, "i64"), ("s", 2**63, "u64")])
def test_a_loop_bound_that_leaves_64_bits_ends_the_step_with_an_error(end, s, dtype):
    with pytest.raises(SynthesisError, match="an index is out of range or overflows 64 bits"):
        turns(end, s, dtype)


def test_a_number_that_64_bits_do_not_hold_is_refused():
    with pytest.raises(ValidationError, match="is 36893488147419103228, which does not fit 64 bits"):
        turns("9223372036854775807*4", 0)


def test_an_index_that_leaves_64_bits_ends_the_step_with_an_error():
    text = """
    dynamic { s: i64; }
    volatile { w(l): f32 @pattern("w.{l}"); y: f32; }
    block entry { transfer w[s*4-3] >> y; return y; }
    """
    model = Model.from_arrays({"w.0": np.float32(5.0), "w.1": np.float32(6.0)})
    synthesis = Synthesizer("c").synthesize(model, graph(text))

    assert synthesis.run({"s": np.array(1)}).outputs["y"] == 6.0
    with pytest.raises(SynthesisError, match="an index is out of range or overflows 64 bits"):
        synthesis.run({"s": np.array(2**62)})


def test_names_of_loop_indices_and_of_their_bounds_do_not_meet():
    text = """
    volatile { n: i64; }
    block entry {
      loop l (x_end in 0..4) { loop m (x in 0..10) { loop o (start_x in x..x_end) { op add(n, x_end) >> n; } } }
      return n;
    }
    """
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(text))

    expected = sum(outer for outer in range(4) for inner in range(10) for _ in range(inner, outer))
    assert synthesis.run({}).outputs["n"] == expected


def test_a_comment_that_looks_like_a_call_brings_no_function_along():
    text = """
    dynamic { x: f32[2]; }
    block entry { op add(x, x) >> x with { group="index_mul(" }; return x; }
    """
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(text))

    assert b"static int64_t" not in synthesis.bundle.files["model.c"]
    assert b"index_mul(" in synthesis.bundle.files["model.c"]
    assert synthesis.run({"x": np.ones(2, np.float32)}).outputs["x"].tolist() == [2.0, 2.0]
