"""Terms of totals one after another, on cores without registers for several."""

from __future__ import annotations

import pytest

import openinfer as oi
from openinfer import programs
from openinfer.synth import Synthesizer
from openinfer_synth_c.ordered_terms import DEFINITION, NEXT_TERM, definition, in_order
from openinfer_synth_c.profiles import PROFILES


def term(number, totals=4):
    lines = [f"        int32_t x0{number} = (int32_t)x0[{number}];"]
    return lines + [f"        total{n} = total{n} + x0{number} * x1[{n}];" for n in range(totals)]


def looped(*terms):
    return ["    for (ptrdiff_t i = 0; i < 9; ++i) {", *(line for lines in terms for line in lines), "    }"]


@pytest.mark.parametrize("before", [[], ["        int32_t total0 = x70;", "        int32_t x71 = x7[1];"]])
def test_terms_are_kept_apart(before):
    assert in_order(looped(before, term(0), term(1), term(2))) == looped(
        before, [*term(0), f"        {NEXT_TERM}"], [*term(1), f"        {NEXT_TERM}"], term(2)
    )


@pytest.mark.parametrize(
    "lines",
    [
        looped(term(0)),
        looped(term(0, totals=2), term(1, totals=2)),
        looped(term(0), term(1)[:-1]),
        looped(term(0), term(1)[::-1]),
        looped(term(0), ["        y0[i] = 0;"], term(1)),
        [*term(0), *(line.strip() for line in term(1))],
    ],
)
def test_other_statements_stay_as_they_are(lines):
    """One term, few totals, totals in another order, another statement, and another block."""
    assert in_order(lines) == lines


def test_the_macro_is_defined_where_it_is_used():
    assert definition(in_order(looped(term(0), term(1)))) == DEFINITION
    assert definition(looped(term(0))) == ""


@pytest.mark.parametrize(
    ("arch", "instructions", "is_ordered"),
    [("cortex-m4", {"dsp": False}, True), ("cortex-m4", {}, False), ("cortex-m55", {}, False), ("rv32imc", {}, False)],
)
def test_a_layer_of_bytes_on_a_core_with_few_registers_has_its_terms_in_order(arch, instructions, is_ordered):
    """Eight totals leave no registers; products of pairs need fewer terms. Other cores have more, or vectors."""
    document = PROFILES[arch]()
    document = {**document, "target": {**document["target"], **instructions}}
    program = """
    dynamic { x: i8[1, 640]; }
    constant { k: i8[640, 128] @init(3); }
    volatile { y: i32[1, 128]; }
    block entry { op matmul_integer(x, k) >> y; return y; }
    """

    synthesis = Synthesizer("c", arch=document).synthesize(oi.Model.from_arrays({}), programs.graph(program))

    source = synthesis.bundle.files["model.c"].decode()
    assert source.count(NEXT_TERM) == (7 if is_ordered else 0)
    assert (DEFINITION in source) == is_ordered
