"""Programs that hand variables to other blocks as C: consumers in line, equal to the simulator over many steps."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import STEPS, assert_steps_agree, needs_gcc, synthesised

from openinfer.errors import SynthesisError

pytestmark = needs_gcc

PROGRAMS = {
    "a writer and readers of what was yielded": """
        dynamic { x: f32[4]; }
        volatile { h: f32[4]; a: f32[4]; b: f32; y: f32[4]; }
        block entry {
          transfer x >> h;
          yield h;
          op mul(x, x) >> y;
          await h;
          op add(y, h) >> y;
          return y, a, b, h;
        }
        block alters { await h; op exp(h) >> h; op add(h, h) >> h; yield h; }
        block reads { await h; op neg(h) >> a; yield h; }
        block sums { await h; op sum_axis(h) >> b; yield h; }""",
    "two variables, one after the other": """
        dynamic { x: f32[4]; }
        volatile { g: f32[4]; h: f32[4]; a: f32[4]; b: f32[4]; }
        block entry {
          transfer x >> g;
          yield g;
          op mul(x, x) >> h;
          yield h;
          await g;
          await h;
          yield h;
          op add(g, a) >> g;
          await h;
          return a, b, g, h;
        }
        block both { await g; await h; op add(g, h) >> a; yield g, h; }
        block one { await h; op neg(h) >> b; op add(h, b) >> t; op add(h, t) >> h; branch more; yield h; }
        block more { op add(b, b) >> b; return; }""",
    "a loop hands over in each turn": """
        dynamic { x: f32[4]; }
        volatile { a: f32[4]; s: f32; y: f32[4]; }
        persistent { calls: i32; }
        block entry {
          transfer x >> a;
          cache.read calls >> before;
          loop turns (i in 0..before % 4) {
            yield a;
            op add(y, x) >> y;
            await a;
            loop more (j in 0..2) { op add(y, s) >> y; yield a; await a; }
          }
          cache.increment calls;
          return y, a, s;
        }
        block halves { await a; op add(a, a) >> b; op sub(b, a) >> a; op tanh(a) >> a; cache.increment calls; yield a; }
        block sums { await a; op sum_axis(a) >> s; yield a; }""",
    "consumers keep persistent variables": """
        dynamic { x: f32[4]; }
        volatile { h: f32[4]; a: f32[4]; n: i32; }
        persistent { sum: f32[4]; count: i32; }
        block entry {
          transfer x >> h;
          yield h;
          cache.increment count;
          await h;
          cache.read count >> n;
          return a, n;
        }
        block adds {
          await h;
          cache.read sum >> before;
          op add(before, h) >> a;
          cache.write a >> sum;
          yield h;
        }""",
}


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
