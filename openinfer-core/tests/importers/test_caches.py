"""Inputs that outputs extend become caches: prompts in one step, then token by token, as the model computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import INT64, expected, info, model, node, saved, weights

from openinfer import ModelImportError, Simulator
from openinfer.importers import ImportedModel, load, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

HEADS, WIDTH, CONTEXT, VOCABULARY = 2, 4, 32, 11
DEPTH = HEADS * WIDTH
RNG = np.random.default_rng(5)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def decoder(layers: int, mask: list[Any] | None = None) -> Any:
    """Return a decoder as PyTorch exports it: keys and values of all layers come in and go out longer.

    Args:
        mask: nodes that make ``mask`` from ``rows`` [seq, 1] and ``columns`` [past + seq], both integers.
    """
    nodes, initial = positions(), weights(**CONSTANTS, table=rand(VOCABULARY, DEPTH), places=rand(CONTEXT, DEPTH))
    nodes += mask or [node("GreaterOrEqual", "rows columns", "seen"), node("Where", "seen zero lowest", "mask")]
    nodes += [node("Gather", "table ids", "e"), node("Gather", "places at", "p"), node("Add", "e p", "x0")]
    for layer in range(layers):
        nodes += attention(layer)
        initial += weights(**{f"h.{layer}.in.weight": rand(DEPTH, 3 * DEPTH), f"h.{layer}.in.bias": rand(3 * DEPTH)})
    nodes.append(node("MatMul", f"x{layers} head", "logits"))
    initial += weights(head=rand(DEPTH, VOCABULARY))
    held = ["batch", HEADS, "past", WIDTH]
    caches = [info(f"past_key_values.{n}.{kind}", held) for n in range(layers) for kind in ("key", "value")]
    longer = ["batch", HEADS, "past + seq", WIDTH]
    given = [info(f"present.{n}.{kind}", longer) for n in range(layers) for kind in ("key", "value")]
    return model(nodes, [info("ids", ["batch", "seq"], INT64), *caches], [info("logits", None), *given], initial, 18)


CONSTANTS: dict[str, Any] = {
    "one_i": np.array(1, np.int64),
    "two_i": np.array(2, np.int64),
    "zero_i": np.array(0, np.int64),
    "ends": np.array([1], np.int64),
    "zero": np.array(0, np.float32),
    "lowest": np.array(np.finfo(np.float32).min, np.float32),
    "heads": np.array([0, 0, HEADS, WIDTH], np.int64),
    "wide": np.array([0, 0, DEPTH], np.int64),
    "root": np.array(WIDTH**-0.5, np.float32),
}


def positions() -> list[Any]:
    return [
        node("Shape", "ids", "ids_shape"),
        node("Gather", "ids_shape one_i", "length"),
        node("Shape", "past_key_values.0.key", "held_shape"),
        node("Gather", "held_shape two_i", "held"),
        node("Add", "held length", "total"),
        node("Range", "held total one_i", "at"),
        node("Range", "zero_i total one_i", "columns"),
        node("Unsqueeze", "at ends", "rows"),
    ]


def attention(layer: int) -> list[Any]:
    n = layer
    made = [
        node("MatMul", f"x{n} h.{n}.in.weight", f"product{n}"),
        node("Add", f"product{n} h.{n}.in.bias", f"qkv{n}"),
        node("Split", f"qkv{n}", f"q{n} k{n} v{n}", axis=2, num_outputs=3),
    ]
    for kind in "qkv":
        made += [
            node("Reshape", f"{kind}{n} heads", f"{kind}_apart{n}"),
            node("Transpose", f"{kind}_apart{n}", f"{kind}_heads{n}", perm=[0, 2, 1, 3]),
        ]
    return [
        *made,
        node("Concat", f"past_key_values.{n}.key k_heads{n}", f"present.{n}.key", axis=2),
        node("Concat", f"past_key_values.{n}.value v_heads{n}", f"present.{n}.value", axis=2),
        node("Transpose", f"present.{n}.key", f"kt{n}", perm=[0, 1, 3, 2]),
        node("MatMul", f"q_heads{n} kt{n}", f"raw{n}"),
        node("Mul", f"raw{n} root", f"scaled{n}"),
        node("Add", f"scaled{n} mask", f"masked{n}"),
        node("Softmax", f"masked{n}", f"share{n}", axis=-1),
        node("MatMul", f"share{n} present.{n}.value", f"seen{n}"),
        node("Transpose", f"seen{n}", f"swapped{n}", perm=[0, 2, 1, 3]),
        node("Reshape", f"swapped{n} wide", f"joined{n}"),
        node("Add", f"x{n} joined{n}", f"x{n + 1}"),
    ]


def decodes(proto: Any, imported: ImportedModel, layers: int, device: str = "cpu") -> None:
    """Assert that steps of several lengths give what the model gives that gets its caches back."""
    limits = {"t": CONTEXT} if device != "cpu" else None
    empty = np.zeros((2, HEADS, 0, WIDTH), np.float32)
    held = {f"past_key_values.{n}.{kind}": empty for n in range(layers) for kind in ("key", "value")}
    with Simulator(imported.model, imported.graph, device=device, limits=limits).make_executor() as executor:
        for length in (5, 1, 1, 2):
            ids = RNG.integers(0, VOCABULARY, (2, length))
            logits, *present = expected(proto, {"ids": ids, **held})
            held = dict(zip(held, present, strict=True))
            executor.step(ids=ids)
            np.testing.assert_allclose(executor.fetch("logits"), logits, rtol=0, atol=1e-4 * np.abs(logits).max())


def test_keys_and_values_of_a_decoder_are_caches_of_one_loop(tmp_path: Path) -> None:
    proto = decoder(3)
    path = saved(proto, tmp_path)
    imported = load(path)
    assert list(imported.report.inputs) == ["ids"]
    assert list(imported.report.outputs) == ["logits"]
    assert "key_cache(l, b, h, t): f32[4] @table;" in imported.text
    assert "op sdpa(" in imported.text
    assert "causal=true" in imported.text
    assert imported.text.count("op linear(") == 1
    assert "op split(transpose, axis=1, parts=3)" in imported.text
    decodes(proto, imported, 3)
    assert verify(path, imported, steps=4).agrees


@pytest.mark.skipif("c" not in Environment.default().devices, reason="the device c is not installed")
def test_a_decoder_runs_as_compiled_c(tmp_path: Path) -> None:
    proto = decoder(3)
    decodes(proto, load(saved(proto, tmp_path)), 3, "c")


def test_rolled_and_flat_decoders_give_equal_bits(tmp_path: Path) -> None:
    path = saved(decoder(3), tmp_path)
    found: list[list[Any]] = []
    for roll in (True, False):
        imported = load(path, roll=roll)
        with Simulator(imported.model, imported.graph).make_executor() as executor:
            found.append([])
            for ids in ([[1, 2, 3]], [[4]], [[5]]):
                executor.step(ids=np.array(ids))
                found[-1].append(np.asarray(executor.fetch("logits")).tobytes())
    assert found[0] == found[1]
    assert "key_cache_0(b, h, t)" in load(path, roll=False).text


MASKS: dict[str, tuple[list[Any], bool]] = {
    "keys that are greater": (
        [node("Greater", "columns rows", "far"), node("Where", "far lowest zero", "mask")],
        True,
    ),
    "keys that are not less or equal": (
        [
            node("LessOrEqual", "columns rows", "seen"),
            node("Not", "seen", "far"),
            node("Where", "far lowest zero", "mask"),
        ],
        True,
    ),
    "queries that are less": (
        [node("Less", "rows columns", "far"), node("Where", "far lowest zero", "mask")],
        True,
    ),
    "one key less": (
        [
            node("Greater", "rows columns", "less"),
            node("Equal", "columns zero_i", "first"),
            node("Or", "less first", "seen"),
            node("Where", "seen zero lowest", "mask"),
        ],
        False,
    ),
    "keys that are counted from the end": (
        [
            node("Sub", "columns rows", "after"),
            node("Greater", "after zero_i", "far"),
            node("Where", "far lowest zero", "mask"),
        ],
        False,
    ),
    "two keys more": (
        [
            node("Add", "rows two_i", "later"),
            node("Less", "later columns", "far"),
            node("Where", "far lowest zero", "mask"),
        ],
        False,
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_only_a_mask_that_hides_what_comes_later_is_causal(name: str, tmp_path: Path) -> None:
    nodes, is_causal = MASKS[name]
    proto = decoder(1, nodes)
    imported = load(saved(proto, tmp_path))
    assert ("causal=true)" in imported.text) == is_causal
    decodes(proto, imported, 1)


def test_an_input_as_long_as_a_cache_after_a_step_has_a_size_of_its_own(tmp_path: Path) -> None:
    """As the attention masks of many exporters."""
    proto = decoder(1, [node("Sub", "given one", "shifted"), node("Mul", "shifted big", "mask")])
    proto.graph.input.append(info("given", ["batch", 1, 1, "past + seq"]))
    proto.graph.initializer.extend(weights(one=np.array(1, np.float32), big=np.array(1e9, np.float32)))
    imported = load(saved(proto, tmp_path))
    assert "given: f32[batch, 1, 1, given_3];" in imported.text
    empty = np.zeros((1, HEADS, 0, WIDTH), np.float32)
    held = {"past_key_values.0.key": empty, "past_key_values.0.value": empty}
    with Simulator(imported.model, imported.graph).make_executor() as executor:
        for total in (3, 4, 5):
            ids = RNG.integers(0, VOCABULARY, (1, 3 if total == 3 else 1))
            given = (np.arange(total) != 1).astype(np.float32).reshape(1, 1, 1, total)
            logits, *present = expected(proto, {"ids": ids, "given": given, **held})
            held = dict(zip(held, present, strict=True))
            executor.step(ids=ids, given=given)
            np.testing.assert_allclose(executor.fetch("logits"), logits, rtol=1e-4, atol=1e-5)


def appending(dims: list[Any], **attributes: Any) -> Any:
    """Return a model that appends its input to what it holds, and sums all."""
    nodes = [node("Concat", "log x", "log_next", axis=0), node("ReduceSum", "log_next", "y", **attributes)]
    inputs = [info("x", dims), info("log", ["held", *dims[1:]])]
    return model(nodes, inputs, [info("y", None), info("log_next", None)])


def test_any_input_that_grows_may_be_named(tmp_path: Path) -> None:
    imported = load(saved(appending(["n", 2], keepdims=0), tmp_path), feeds={"log_next": "log"})
    assert "log_cache(t): f32[2] @table;" in imported.text
    with Simulator(imported.model, imported.graph).make_executor() as executor:
        for number, total in ((1, 2.0), (3, 8.0), (2, 12.0)):
            executor.step(x=np.ones((number, 2), np.float32))
            assert executor.fetch("y") == total


def test_without_feeds_a_cache_is_an_input_and_an_output(tmp_path: Path) -> None:
    imported = load(saved(decoder(1), tmp_path), feeds={})
    assert len(imported.report.inputs) == len(imported.report.outputs) == 3


def test_an_output_that_does_not_extend_its_input_is_not_a_cache(tmp_path: Path) -> None:
    nodes = [node("Concat", "x log", "log_next", axis=0), node("Neg", "x", "y")]
    inputs = [info("x", ["n", 2]), info("log", ["held", 2])]
    path = saved(model(nodes, inputs, [info("y", None), info("log_next", None)]), tmp_path)
    with pytest.raises(ModelImportError, match="a cache grows along one dim by a Concat after the input"):
        load(path, feeds={"log_next": "log"})


def test_an_extent_that_only_caches_know_leaves_them_to_the_host(tmp_path: Path) -> None:
    proto = decoder(1)
    proto.graph.node.extend(
        [
            node("Mul", "columns two_i", "c2"),
            node("Mul", "total two_i", "t2"),
            node("Range", "zero_i t2 one_i", "every"),
        ]
    )
    proto.graph.output.append(info("every", None, INT64))
    path = saved(proto, tmp_path)
    imported = load(path)
    assert len(imported.report.inputs) == 3
    assert any("caches stay inputs and outputs: range of 'every'" in note for note in imported.report.notes)
    feeds = {f"present.0.{kind}": f"past_key_values.0.{kind}" for kind in ("key", "value")}
    with pytest.raises(ModelImportError, match="depends on how much the caches hold"):
        load(path, feeds=feeds)
