"""A GPT of which one text takes a prompt of any length and then token by token: every place it runs, against NumPy."""

from __future__ import annotations

import math
import shutil
from typing import Any

import numpy as np
import pytest

import openinfer as oi

Array = np.ndarray[Any, Any]

WORDS, WIDTH, HEADS, LAYERS, ROOM = 13, 8, 2, 2, 16
STEPS = (5, 1, 2, 1)

GPT = f"""
dynamic {{ tokens: i64[T]; }}
constant {{
  words: f32[V, D];
  qkv(l): f32[D, 3*D] @pattern("qkv.{{l}}");
  out(l): f32[D, D] @pattern("out.{{l}}");
  up(l): f32[D, 2*D] @pattern("up.{{l}}");
  down(l): f32[2*D, D] @pattern("down.{{l}}");
}}
volatile {{ next: i64; logits: f32[V]; }}
persistent {{
  pos: i32;
  K(l, t): f32[H, D/H] @table @fixed(l={LAYERS}, t={ROOM});
  W(l, t): f32[H, D/H] @table @fixed(l={LAYERS}, t={ROOM});
}}
block entry {{
  cache.read pos >> p;
  op embedding(tokens, words) >> h;
  assign places: i64[T];
  op range(start=p, limit=p+T) >> places;
  assign counted: i32[T];
  op iota() >> counted;
  op add(counted, p) >> same;
  loop layers (l in 0..{LAYERS}) {{
    op rms_norm(h) >> n;
    op matmul(n, qkv[l]) >> all;
    op split(all, axis=1, sizes=[D, D, D]) >> q, k, v;
    op reshape(q, shape=[T, H, D/H]) >> q_heads;
    op reshape(k, shape=[T, H, D/H]) >> k_heads;
    op reshape(v, shape=[T, H, D/H]) >> v_heads;
    op rope(q_heads, places, seq_axis=0) >> q_heads;
    op rope(k_heads, same, seq_axis=0) >> k_heads;
    cache.write k_heads >> K[l, p..p+T];
    cache.write v_heads >> W[l, p..p+T];
    cache.read K[l, 0..p+T] >> keys;
    cache.read W[l, 0..p+T] >> values;
    op reshape(q_heads, shape=[T, D]) >> rows;
    op attn(rows, keys, values, heads=H, causal=true) >> seen;
    op matmul(seen, out[l]) >> update;
    op add(h, update) >> h;
    op rms_norm(h) >> n;
    op matmul(n, up[l]) >> wide;
    op relu(wide) >> wide;
    op matmul(wide, down[l]) >> update;
    op add(h, update) >> h;
  }}
  cache.increment T pos;
  op select(h, axis=0, index=T-1) >> last;
  op rms_norm(last) >> last;
  op matmul(words, last) >> logits;
  op argmax_axis(logits, axis=0) >> next;
  return next, logits;
}}
"""


def weights() -> dict[str, Array]:
    random = np.random.default_rng(5)
    shapes = {"words": (WORDS, WIDTH)}
    for layer in range(LAYERS):
        shapes |= {f"qkv.{layer}": (WIDTH, 3 * WIDTH), f"out.{layer}": (WIDTH, WIDTH)}
        shapes |= {f"up.{layer}": (WIDTH, 2 * WIDTH), f"down.{layer}": (2 * WIDTH, WIDTH)}
    return {name: (0.5 * random.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


ARRAYS = weights()
TOKENS = np.random.default_rng(6).integers(0, WORDS, sum(STEPS))


def model_of() -> oi.Model:
    return oi.Model.from_arrays(ARRAYS, sizevars={"V": WORDS, "D": WIDTH, "H": HEADS, "T": 1})


def _normed(x: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def _turned(x: Array) -> Array:
    """Rotate the vectors `[position, head, D/H]` by their positions: element i with the one half a head further."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def expected_logits() -> Array:
    """Return the logits after every token, from all tokens at once, in f64 and without a cache."""
    count, head = len(TOKENS), WIDTH // HEADS
    h = ARRAYS["words"].astype(float)[TOKENS]
    for layer in range(LAYERS):
        q, k, v = (
            part.reshape(count, HEADS, head)
            for part in np.split(_normed(h) @ ARRAYS[f"qkv.{layer}"].astype(float), 3, axis=1)
        )
        scores = np.einsum("ihd,jhd->hij", _turned(q), _turned(k)) / math.sqrt(head)
        scores[:, np.triu(np.ones((count, count), bool), 1)] = -np.inf
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        h = h + np.einsum("hij,jhd->ihd", shares, v).reshape(count, WIDTH) @ ARRAYS[f"out.{layer}"].astype(float)
        h = h + np.maximum(_normed(h) @ ARRAYS[f"up.{layer}"].astype(float), 0) @ ARRAYS[f"down.{layer}"].astype(float)
    return _normed(h) @ ARRAYS["words"].astype(float).T


LOGITS = expected_logits()[np.cumsum(STEPS) - 1]
"""Those that a step returns: after the last of its tokens."""


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_steps_of_5_1_and_2_tokens_agree_with_all_at_once(device: str) -> None:
    limits = None if device == "cpu" else {"T": 8}
    with oi.Simulator(model_of(), GPT, device=device, limits=limits).make_executor() as executor:
        assert executor.runs_whole == (device != "cpu")
        for tokens, logits in zip(np.split(TOKENS, np.cumsum(STEPS)[:-1]), LOGITS, strict=True):
            executor.step(tokens=tokens)
            np.testing.assert_allclose(executor.fetch("logits"), logits, rtol=1e-4, atol=1e-5)
            assert executor.fetch("next") == np.argmax(logits)


CALLER = f"""
#include "model.h"
#include <stdio.h>
static struct model model;
int main(void) {{
    const int64_t tokens[] = {{{", ".join(map(str, TOKENS))}}};
    const size_t sizes[] = {{{", ".join(map(str, STEPS))}}};
    const int64_t *first = tokens;
    size_t step, i;
    if (model_init(&model) != MODEL_OK) {{ return 1; }}
    for (step = 0; step < {len(STEPS)}; first += sizes[step], ++step) {{
        struct model_inputs inputs = {{0}};
        struct model_outputs outputs = {{0}};
        int64_t next;
        float logits[{WORDS}];
        inputs.v_tokens = first;
        inputs.extent_T = sizes[step];
        outputs.v_next = &next;
        outputs.v_logits = logits;
        if (model_step(&model, &inputs, &outputs) != MODEL_OK) {{ return 1; }}
        printf("%d", (int)next);
        for (i = 0; i < {WORDS}; ++i) {{ printf(" %.9g", (double)logits[i]); }}
        printf("\\n");
    }}
    return 0;
}}
"""


def assert_printed(printed: str) -> None:
    rows = [list(map(float, line.split())) for line in printed.splitlines()]
    np.testing.assert_allclose([row[1:] for row in rows], LOGITS, rtol=1e-4, atol=1e-5)
    assert [row[0] for row in rows] == np.argmax(LOGITS, axis=1).tolist()


def test_the_same_text_is_c_without_undefined_behaviour() -> None:
    generated_c = pytest.importorskip("generated_c", reason="generated C needs openinfer-synth-c")
    if shutil.which("gcc") is None:
        pytest.skip("GCC is not installed")
    synthesis = oi.Synthesizer("c", limits={"T": 8}).synthesize(model_of(), GPT)

    assert_printed(generated_c.printed_by(CALLER, synthesis.bundle, "gcc"))
    if shutil.which("frama-c") is not None:
        assert synthesis.prove().proof.alarms == ()


@pytest.mark.usefixtures("vulkan")
def test_the_same_text_is_a_vulkan_program() -> None:
    generated_vulkan = pytest.importorskip("generated_vulkan", reason="target vulkan is not installed")
    if generated_vulkan.missing_packages() is not None:
        pytest.skip(generated_vulkan.missing_packages())
    synthesis = oi.Synthesizer("vulkan", limits={"T": 8}).synthesize(model_of(), GPT)

    assert_printed(generated_vulkan.printed_by(CALLER, synthesis.bundle))
