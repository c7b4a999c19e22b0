"""Attention layers that ONNX Runtime's optimiser fuses compute what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx_models import run, saved
from runtime_models import agrees, model, node, of_runtime

from openinfer.errors import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(14)
Case = tuple[Any, dict[str, Any], list[str], dict[str, Any]]
BATCH, LENGTH, HEADS, WIDTH, PAST = 2, 4, 3, 8, 5
COLUMNS = HEADS * WIDTH


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def shown(*shape: int) -> Any:
    return RNG.integers(0, 2, shape).astype(np.int32)


def mask(draw: Random, queries: int, keys: int, *, packed: bool) -> Any:
    """Return a mask in one of its forms; those of lengths leave every query a key."""
    forms = [
        np.array([keys - 1, 2], np.int32),
        shown(BATCH, keys),
        shown(BATCH, queries, keys),
        np.array([3, keys, 0, 4, 8, 0, 3, 8], np.int32) if packed else np.array([3, keys, 1, 0], np.int32),
    ]
    return draw.choice(forms)


def layer(draw: Random) -> Case:
    inputs, names = {"x": rand(BATCH, LENGTH, 16)}, "x w b - -"
    past, keys = draw.choice((0, PAST)), LENGTH
    if past:
        inputs["p"], names, keys = rand(2, BATCH, HEADS, PAST, WIDTH), "x w b - p", LENGTH + PAST
    if draw.random() < 0.6:
        inputs["m"], names = mask(draw, LENGTH, keys, packed=False), names.replace("b -", "b m")
    if draw.random() < 0.4 and not past:
        inputs["a"], names = rand(draw.choice((1, BATCH)), HEADS, LENGTH, keys), f"{names} a"
    attributes: dict[str, Any] = {"num_heads": HEADS, "unidirectional": draw.randint(0, 1) if "m" not in inputs else 0}
    attributes |= draw.choice(({}, {"scale": 0.3}, {"mask_filter_value": -3e38}))
    outputs = ["y", "n"] if past else ["y"]
    constants = {"w": rand(16, 3 * COLUMNS) * np.float32(0.3), "b": rand(3 * COLUMNS)}
    return node("Attention", names, " ".join(outputs), **attributes), inputs, outputs, constants


def layer_of_other_widths(draw: Random) -> Case:
    values = HEADS * draw.randint(1, 9)
    columns = 2 * COLUMNS + values
    made = node("Attention", "x w b", "y", num_heads=HEADS, qkv_hidden_sizes=[COLUMNS, COLUMNS, values])
    return made, {"x": rand(BATCH, LENGTH, 16)}, ["y"], {"w": rand(16, columns), "b": rand(columns)}


def layer_of_bytes(draw: Random) -> Case:
    inputs = {"x": RNG.integers(0, 256, (BATCH, LENGTH, 16)).astype(np.uint8)}
    names, outputs = "x w b s t - z v", ["y"]
    if draw.random() < 0.5:
        inputs["p"], names, outputs = rand(2, BATCH, HEADS, PAST, WIDTH), f"{names} p", ["y", "n"]
    else:
        inputs["m"], names = shown(BATCH, LENGTH), names.replace("-", "m")
    several = draw.choice(((), (3 * COLUMNS,)))
    # Two products with bytes have 16 bits: ONNX Runtime saturates larger sums on x86 processors without VNNI.
    constants = {"w": RNG.integers(-64, 65, (16, 3 * COLUMNS)).astype(np.int8), "b": rand(3 * COLUMNS)}
    constants |= {"s": np.float32(0.02), "z": np.uint8(120)}
    constants |= {"t": np.full(several, 0.01, np.float32), "v": np.zeros(several, np.int8)}
    made = node("QAttention", names, " ".join(outputs), num_heads=HEADS, unidirectional=int("p" in inputs))
    return made, inputs, outputs, constants


def multi_head(draw: Random) -> Case:
    keys, outputs = draw.randint(2, 6), ["y"]
    inputs = {"q": rand(BATCH, LENGTH, COLUMNS), "k": rand(BATCH, keys, COLUMNS), "v": rand(BATCH, keys, COLUMNS)}
    names = ["q", "k", "v", draw.choice(("b", "-")), "-", "-"]
    form, attributes = draw.choice(("mask", "added", "past", "heads")), {"num_heads": HEADS}
    if form == "mask" and keys > 3:
        inputs["m"], names[4] = mask(draw, LENGTH, keys, packed=True), "m"
    elif form == "added":
        inputs["a"], names[5] = rand(1, 1, LENGTH, keys), "a"
    elif form == "past":
        inputs |= {name: rand(BATCH, LENGTH, COLUMNS) for name in "kv"}
        inputs |= {name: rand(BATCH, HEADS, PAST, WIDTH) for name in "po"}
        names, outputs, attributes = [*names, "p", "o"], ["y", "n", "l"], attributes | {"unidirectional": 1}
    elif form == "heads":
        inputs |= {name: rand(BATCH, HEADS, keys, WIDTH) for name in "kv"}
    made = node("MultiHeadAttention", " ".join(names), " ".join(outputs), **attributes)
    return made, inputs, outputs, {"b": rand(3 * COLUMNS)}


def grouped(draw: Random) -> Case:
    past, width = draw.choice((0, PAST)), 16
    length, heads, groups = 1 if past else LENGTH, 4, draw.choice((1, 2, 4))
    inputs = {"q": rand(BATCH, length, heads * width)}
    inputs |= {name: rand(BATCH, length, groups * width) for name in "kv"}
    names = ["q", "k", "v", "-", "-", "l", "t"]
    if draw.random() < 0.4:
        inputs, names[1:3] = {"q": rand(BATCH, length, (heads + 2 * groups) * width)}, ["-", "-"]
    if past:
        inputs |= {name: rand(BATCH, groups, past, width) for name in "po"}
        names[3:5] = ["p", "o"]
    ends = [past + length - 1] * BATCH if past else [length - 1, draw.randint(1, length - 1)]
    inputs["l"] = np.array(ends, np.int32)
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}
    attributes |= draw.choice(({}, {"softcap": 2.0}, {"local_window_size": draw.randint(1, 4)}, {"scale": 0.2}))
    if draw.random() < 0.6:
        names += ["c", "s"]
        attributes |= {"do_rotary": 1, "rotary_interleaved": draw.randint(0, 1)}
    made = node("GroupQueryAttention", " ".join(names), "y n e", **attributes)
    constants = {"t": np.array(length + past, np.int32), "c": rand(20, width // 2), "s": rand(20, width // 2)}
    return made, inputs, ["y", "n", "e"], constants


def rotary(draw: Random) -> Case:
    shape = draw.choice(((BATCH, LENGTH, COLUMNS), (BATCH, HEADS, LENGTH, WIDTH)))
    positions = draw.choice((np.array([2]), RNG.integers(0, 20, (BATCH, LENGTH))))
    half, attributes = WIDTH // 2, {"interleaved": draw.randint(0, 1)}
    if draw.random() < 0.4:
        half, attributes = 2, attributes | {"num_heads": HEADS, "rotary_embedding_dim": 4}
    elif positions.ndim == 2:
        attributes["is_packed_batching"] = draw.randint(0, 1)
    made = node("RotaryEmbedding", "x i c s", "y", **attributes)
    return made, {"x": rand(*shape), "i": positions}, ["y"], {"c": rand(20, half), "s": rand(20, half)}


CASES: dict[str, Callable[[Random], Case]] = {
    case.__name__: case for case in (layer, layer_of_other_widths, layer_of_bytes, multi_head, grouped, rotary)
}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_onnx_runtime_does(name: str, seed: int, tmp_path: Path) -> None:
    made, inputs, outputs, constants = CASES[name](Random(f"{name} {seed}"))
    used = {key: value for key, value in constants.items() if key in made.input}
    agrees(model([made], inputs, outputs, used), inputs, tmp_path, rtol=5e-4)


# Forms that ONNX Runtime runs on GPUs alone, against forms that it runs anywhere


def results(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any], to: Path) -> Any:
    return run(load(saved(model(nodes, inputs, outputs, constants), to), feeds={}), inputs)


def test_packed_queries_keys_and_values_are_those_apart(tmp_path: Path) -> None:
    whole = rand(BATCH, LENGTH, HEADS, 3, WIDTH)
    apart = {name: whole[:, :, :, n].reshape(BATCH, LENGTH, COLUMNS) for n, name in enumerate("qkv")}
    plain = model([node("MultiHeadAttention", "q k v", "y", num_heads=HEADS)], apart, ["y"], {})
    right = of_runtime(plain, apart)
    first = results([node("MultiHeadAttention", "x", "y", num_heads=HEADS)], {"x": whole}, ["y"], {}, tmp_path)
    pairs = {"q": apart["q"], "x": np.ascontiguousarray(whole[:, :, :, 1:])}
    second = results([node("MultiHeadAttention", "q x", "y", num_heads=HEADS)], pairs, ["y"], {}, tmp_path)
    for ours in (first, second):
        np.testing.assert_allclose(ours[0], right[0], rtol=1e-4, atol=1e-5)


def test_a_square_of_all_positions_is_a_mask_of_keys_for_each_query(tmp_path: Path) -> None:
    inputs = {"x": rand(BATCH, LENGTH, 16), "p": rand(2, BATCH, HEADS, PAST, WIDTH)}
    constants = {"w": rand(16, 3 * COLUMNS), "b": rand(3 * COLUMNS)}
    square = np.tril(np.ones((BATCH, 1, 12, 12), np.int32))
    rows = np.ascontiguousarray(square[:, 0, PAST : PAST + LENGTH, : PAST + LENGTH])
    made = [node("Attention", "x w b m p", "y", num_heads=HEADS)]
    (ours,) = results(made, {**inputs, "m": square}, ["y"], constants, tmp_path)
    made = [node("Attention", "x w b m p", "y n", num_heads=HEADS)]
    right = of_runtime(model(made, {**inputs, "m": rows}, ["y", "n"], constants), {**inputs, "m": rows})
    np.testing.assert_allclose(ours, right[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_past", [True, False])
def test_a_step_of_a_decoder_is_attention_of_one_query(has_past: bool, tmp_path: Path) -> None:
    inputs = {"q": rand(BATCH, 1, COLUMNS)}
    past = {name: rand(BATCH, HEADS, PAST, WIDTH) for name in "po"}
    if has_past:
        inputs |= {name: rand(BATCH, 1, COLUMNS) for name in "kv"} | past
        ours, plain = "q k v - - p o - - - b", "q k v b - - p o"
    else:
        inputs |= {"k": past["p"], "v": past["o"]}
        ours = plain = "q k v"
    outputs = ["y", "n", "l"] if has_past else ["y"]
    constants = {"b": rand(3 * COLUMNS)} if has_past else {}
    step = [node("DecoderMaskedMultiHeadAttention", ours, " ".join(outputs), num_heads=HEADS)]
    found = results(step, inputs, outputs, constants, tmp_path)
    other = node("MultiHeadAttention", plain, " ".join(outputs), num_heads=HEADS)
    for mine, theirs in zip(found, of_runtime(model([other], inputs, outputs, constants), inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("Attention", "x w b", "y", num_heads=3, do_rotary=1), "do_rotary=1"),
        (node("Attention", "x w b", "y", num_heads=5), "5 heads in rows of 24 elements"),
        (
            node("GroupQueryAttention", "x - - - - l l - - - - b", "y", num_heads=2, kv_num_heads=1),
            "the input head_sink",
        ),
        (
            node("GroupQueryAttention", "x - - - - l l", "y", num_heads=2, kv_num_heads=1, smooth_softmax=1),
            "smooth_softmax=1",
        ),
        (node("MultiHeadAttention", "x x x", "y - - z", num_heads=2), "the output qk"),
    ],
)
def test_an_error_names_what_is_not_supported(made: Any, words: str, tmp_path: Path) -> None:
    constants = {"w": rand(16, 72), "b": rand(72), "l": np.zeros(1, np.int32)}
    used = {key: value for key, value in constants.items() if key in made.input}
    with pytest.raises(ModelImportError) as raised:
        load(saved(model([made], {"x": rand(1, 4, 16)}, ["y"], used), tmp_path))
    assert words in str(raised.value)
