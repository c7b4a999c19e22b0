"""Programs that hand variables to other blocks as C: consumers in line, equal to the simulator over many steps."""

from __future__ import annotations

import numpy as np
import pytest
from consumer_programs import PROGRAMS
from generated_c import STEPS, assert_steps_agree, needs_gcc, synthesised

from openinfer.errors import SynthesisError

pytestmark = needs_gcc


@pytest.mark.parametrize("name", PROGRAMS)
def test_consumers_agree_with_the_simulator(name):
    x = np.random.default_rng(3).uniform(-1, 1, (STEPS, 4)).astype(np.float32)

    assert_steps_agree(PROGRAMS[name], x=x)


def test_consumers_run_where_entry_awaits_readers_first():
    _, _, synthesis = synthesised(PROGRAMS["a writer and readers of what was yielded"])

    lines = [line.strip() for line in synthesis.report().splitlines()]
    calls = [line.split("  ")[0] for line in lines if line.startswith("call ")]
    assert calls == ["call reads", "call sums", "call alters"]


REFUSED = {
    "consumers that each change what the other one sees": (
        """volatile { a: f32; b: f32; }
        block entry { yield a, b; await a, b; return a, b; }
        block one { await a; await b; op exp(a) >> a; op add(a, b) >> a; yield a, b; }
        block two { await a; await b; op exp(b) >> b; op add(a, b) >> b; yield a, b; }""",
        "consumers one, two each change what another one waits for",
    ),
    "a loop that yields what it does not take back": (
        """volatile { a: f32; b: f32; }
        block entry { loop turns (i in 0..2) { yield a; } await a; return a; }
        block one { await a; op exp(a) >> a; yield a; }""",
        "`a` is not taken back in the iteration of the loop that yields it",
    ),
    "a loop that yields while something is out": (
        """volatile { a: f32; b: f32; }
        block entry { yield b; loop turns (i in 0..2) { yield a; await a; } await b; return a; }
        block one { await a; await b; op exp(a) >> a; yield a, b; }""",
        "a loop yields `a` while `b` is out, yielded before the loop",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_in_line_is_refused(name):
    text, message = REFUSED[name]

    with pytest.raises(SynthesisError, match=message):
        synthesised(text)
