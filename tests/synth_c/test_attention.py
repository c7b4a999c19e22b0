"""Attention, rotations, scans and powers written out as C: what the device cpu gives, clean under sanitizers."""

from __future__ import annotations

import shutil
import subprocess

import generated_c
import numpy as np
import pytest
from generated_c import needs_gcc

from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.bundle import write_bundle

pytestmark = needs_gcc


def noise(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def type_text(array):
    names = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "uint8": "u8", "bool": "bool"}
    name = names.get(array.dtype.name, array.dtype.name.replace("int", "i"))
    return f"{name}[{', '.join(map(str, array.shape))}]"


def program(statements, outputs, inputs):
    dynamic = " ".join(f"{name}: {type_text(array)};" for name, array in inputs.items())
    volatile = " ".join(f"{name}: {kind};" for name, kind in outputs.items())
    returned = f"return {', '.join(outputs)};"
    return f"dynamic {{ {dynamic} }} volatile {{ {volatile} }} block entry {{ {statements} {returned} }}"


def assert_agree(statements, outputs, inputs):
    generated_c.assert_agree(program(statements, outputs, inputs), **inputs)


@pytest.mark.parametrize(
    ("batch", "heads", "queries", "width"), [(2, 2, 2, 3), (3, 2, 3, 3), (2, 1, 4, 3), (2, 2, 3, 4)]
)
def test_attention_to_one_key_is_its_value(batch, heads, queries, width):
    q, k, v = noise(batch, heads, queries, width), noise(batch, 1, 1, width, seed=1), noise(batch, 1, 1, width, seed=2)
    text = program("op sdpa(q, k, v) >> y;", {"y": type_text(q)}, {"q": q, "k": k, "v": v})

    # As users compile: GCC 12 mistakes the loop over its results with all of these flags alone.
    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(q=q, k=k, v=v)
        np.testing.assert_array_equal(executor.fetch("y"), np.broadcast_to(v, q.shape))


def test_sdpa_with_every_way_to_hide_keys():
    inputs = {
        "q": noise(2, 4, 5, 11),
        "k": noise(2, 2, 7, 11, seed=1),
        "v": noise(2, 2, 7, 3, seed=2),
        "shown": noise(5, 7, seed=3) > -1,
        "added": noise(2, 1, 5, 7, seed=4),
    }
    inputs["shown"][2] = False
    calls = {
        "plain": "q, k, v",
        "causal": "q, k, v, causal=true",
        "window": "q, k, v, causal=true, window=1, q_offset=-1",
        "capped": "q, k, v, scale=0.7, softcap=1.5, kv_len=4",
        "masked": "q, k, v, mask=shown",
        "shifted": "q, k, v, mask=added, causal=true, q_offset=0",
        "no_keys": "q, k, v, kv_len=0",
        "before_all": "q, k, v, causal=true, q_offset=-9",
        "after_all": "q, k, v, window=0, q_offset=20",
    }
    statements = " ".join(f"op sdpa({call}) >> {name};" for name, call in calls.items())
    assert_agree(statements, dict.fromkeys(calls, "f32[2, 4, 5, 3]"), inputs)


def test_sdpa_of_vectors_without_elements():
    inputs = {"q": noise(2, 3, 0), "k": noise(2, 4, 0), "v": noise(2, 4, 5)}
    assert_agree("op sdpa(q, k, v, scale=1.0) >> y;", {"y": "f32[2, 3, 5]"}, inputs)


def test_attn_reads_half_precision_keys_where_they_lie():
    inputs = {
        "x": noise(3, 6),
        "k": noise(9, 2, 8, dtype=np.float16, seed=1),
        "v": noise(9, 2, 5, dtype=np.float16, seed=2),
        "w": noise(6, 32, seed=3),
    }
    assert_agree("op attn(x, k, v, w, causal=true) >> y;", {"y": "f32[3, 20]"}, inputs)


def test_rotations():
    pos = np.array([[0, 3, 1000, 2], [5, 5, 0, 1]])
    inputs = {"x": noise(2, 3, 4, 6), "p": pos, "c": noise(8, 2, seed=1), "s": noise(8, 2, seed=2), "r": pos % 8 - 4}
    statements = (
        "op rope(x, p, rotary_dim=4, freq_scale=0.5) >> a; op rope(x, p, interleaved=true) >> b;"
        "op rope_cached(x, c, s, pos=r, rotary_dim=4) >> d;"
    )
    assert_agree(statements, dict.fromkeys("abd", "f32[2, 3, 4, 6]"), inputs)


def test_scans_and_order():
    x = noise(4, 9, dtype=np.float64)
    x[0, :4], x[1] = np.nan, np.repeat([1.0, 0.0, -0.0], 3)
    u = np.random.default_rng(1).integers(0, 4, (4, 9)).astype(np.uint8)
    statements = (
        "op cumsum(x, axis=0, exclusive=true) >> a; op cumsum(u, axis=1, reverse=true) >> b;"
        "op topk(x, k=4) >> c, d; op topk(u, k=3, axis=0, largest=false) >> e, f;"
        "op topk(u, k=2) >> g; op argsort(x, descending=true) >> h;"
    )
    outputs = {
        "a": "f64[4, 9]",
        "b": "u8[4, 9]",
        "c": "f64[4, 4]",
        "d": "i64[4, 4]",
        "e": "u8[3, 9]",
        "f": "i64[3, 9]",
        "g": "u8[4, 2]",
        "h": "i64[4, 9]",
    }
    assert_agree(statements, outputs, {"x": x, "u": u})


def test_powers_of_integers():
    a, b = np.array([[-128], [127], [3], [0]], np.int8), np.array([0, 1, 2, 5, 127], np.int8)

    text = program("op pow(a, b) >> y;", {"y": "i8[4, 5]"}, {"a": a, "b": b})
    expected, found, _ = generated_c.both(text, a=a, b=b)

    assert found["y"].tolist() == expected["y"].tolist()


@pytest.mark.parametrize(
    ("statement", "kind", "inputs"),
    [
        ("op pow(a, b) >> y;", "i8[2]", {"a": np.ones(2, np.int8), "b": np.array([1, -1], np.int8)}),
        (
            "op rope_cached(x, c, c, pos=p) >> y;",
            "f32[1, 4]",
            {"x": noise(1, 4), "c": noise(3, 2), "p": np.array([3])},
        ),
    ],
)
def test_what_is_out_of_range_ends_the_step_with_a_status(statement, kind, inputs):
    with pytest.raises(SynthesisError, match="status"):
        generated_c.both(program(statement, {"y": kind}, inputs), **inputs)


HIDDEN_KEYS = {
    "few keys": "dynamic { q: f16[2, 3, 7]; k: f16[2, 1, 7]; v: f32[2, 1, 7]; } volatile { y: f16[2, 3, 7]; } "
    "block entry { op sdpa(q, k, v, causal=true) >> y; return y; }",
    "a window": "dynamic { q: f32[2, 3, 4]; k: f32[2, 2, 4]; v: f32[2, 2, 1]; } volatile { y: f32[2, 3, 1]; } "
    "block entry { op sdpa(q, k, v, causal=true, window=1, q_offset=-1) >> y; return y; }",
    "a mask": "dynamic { q: f32[1, 4]; k: f32[1, 4]; v: f32[1, 1]; m: bool[1, 1]; } volatile { y: f32[1, 1]; } "
    "block entry { op sdpa(q, k, v, m, causal=true) >> y; return y; }",
    "a length": "dynamic { q: f32[3, 4]; k: f32[5, 4]; v: f32[5, 2]; } volatile { y: f32[3, 2]; } "
    "block entry { op sdpa(q, k, v, causal=true, kv_len=2, softcap=2.0) >> y; return y; }",
    "folded heads": "dynamic { x: f32[3, 8]; k: f16[1, 2, 4]; v: f16[1, 2, 4]; } volatile { y: f32[3, 8]; } "
    "block entry { op attn(x, k, v, causal=true) >> y; return y; }",
    "many keys": "dynamic { q: f32[2, 4]; k: f32[1100, 4]; v: f32[1100, 2]; } volatile { y: f32[2, 2]; } "
    "block entry { op sdpa(q, k, v, causal=true, window=3) >> y; return y; }",
}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("hidden", HIDDEN_KEYS)
def test_a_range_of_keys_compiles_without_warnings_where_all_is_inlined(hidden, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    uninitialized = "-Wmaybe-uninitialized" if compiler == "gcc" else "-Wconditional-uninitialized"
    flags = ("-std=c99", "-Wall", "-Wextra", uninitialized, "-Werror", "-O3", "-ffp-contract=off")
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(HIDDEN_KEYS[hidden]))
    write_bundle(synthesis.bundle, tmp_path / "bundle")

    for source in sorted(tmp_path.rglob("*.c")):
        command = [compiler, *flags, "-I", str(source.parent), "-c", str(source), "-o", str(tmp_path / "unit.o")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
