"""Attention and rotary embeddings against ONNX, their compositions, and small cases worked out by hand."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import OpTypeError
from openinfer.testing.oracle import known_oracles
from openinfer_backend_cpu.indices import OutOfRangeError
from openinfer_backend_cpu.kernels import attention


def noise(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def qkv(heads: int = 4, kv_heads: int = 4, queries: int = 5, keys: int = 5, depth: int = 8) -> list[np.ndarray]:
    shapes = [(2, heads, queries, depth), (2, kv_heads, keys, depth), (2, kv_heads, keys, depth)]
    return [noise(*shape, seed=n) for n, shape in enumerate(shapes)]


@pytest.mark.rule("operators.attention.1", "operators.attention.2")
@pytest.mark.parametrize(
    ("extents", "settings", "attributes"),
    [
        ({}, {}, {}),
        ({"kv_heads": 2}, {}, {}),
        ({"kv_heads": 1, "queries": 1, "keys": 9}, {}, {}),
        ({}, {"scale": 0.3, "softcap": 2.0}, {"scale": 0.3, "softcap": 2.0}),
        ({}, {"causal": True}, {"is_causal": 1}),
    ],
)
def test_sdpa_agrees_with_onnx(run_operator, onnx_reference, extents: Any, settings: Any, attributes: Any) -> None:
    q, k, v = qkv(**extents)
    expected = onnx_reference("Attention", {"q": q, "k": k, "v": v}, **attributes)[0]
    np.testing.assert_allclose(run_operator("sdpa", [q, k, v], **settings)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.rule("operators.attention.3")
@pytest.mark.parametrize(
    ("queries", "keys", "settings"),
    [
        (3, 7, {"causal": True}),
        (7, 3, {"causal": True}),
        (5, 5, {"causal": True, "window": 2}),
        (5, 5, {"window": 1}),
        (3, 7, {"causal": True, "q_offset": 0}),
        (2, 9, {"causal": True, "kv_len": 6}),
    ],
)
@pytest.mark.parametrize("limit", [1, 100, 1 << 22])
def test_hidden_keys_are_those_of_an_explicit_mask(
    run_operator, onnx_reference, monkeypatch, queries: int, keys: int, settings: Any, limit: int
) -> None:
    monkeypatch.setattr(attention, "WEIGHTS", limit)
    q, k, v = qkv(queries=queries, keys=keys, kv_heads=2)
    valid = settings.get("kv_len", keys)
    position = np.arange(queries)[:, None] + settings.get("q_offset", valid - queries)
    key = np.arange(keys)
    seen = np.broadcast_to(key < valid, (queries, keys))
    if settings.get("causal"):
        seen = seen & (key <= position)
    if "window" in settings:
        seen = seen & (key >= position - settings["window"])
    expected = onnx_reference("Attention", {"q": q, "k": k, "v": v, "m": seen})[0]
    expected = np.where(seen.any(1)[:, None], expected, 0)
    np.testing.assert_allclose(run_operator("sdpa", [q, k, v], **settings)[0], expected, rtol=1e-4, atol=1e-5)


EXTENT = st.integers(0, 4)
OPTIONAL = st.one_of(st.none(), st.integers(-3, 6))


@pytest.mark.rule("operators.attention.1", "operators.attention.3")
@settings(max_examples=150, deadline=None)
@given(
    extents=st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(1, 2), EXTENT, EXTENT, EXTENT, EXTENT),
    causal=st.booleans(),
    window=st.integers(-1, 3),
    offset=OPTIONAL,
    valid=st.integers(0, 4),
    limit=st.sampled_from([1, 60, 1 << 22]),
)
def test_any_shape_agrees_with_a_loop(run_operator, extents, causal, window, offset, valid, limit) -> None:
    batch, kv_heads, group, queries, keys, depth, value_depth = extents
    shapes = [(batch, kv_heads * group, queries, depth), (batch, kv_heads, keys, depth)]
    q, k, v = (noise(*shape, seed=n) for n, shape in enumerate([*shapes, (batch, kv_heads, keys, value_depth)]))
    chosen = {"causal": causal, "window": window, "q_offset": offset, "kv_len": min(valid, keys)}
    with mock.patch.object(attention, "WEIGHTS", limit):
        (found,) = run_operator("sdpa", [q, k, v], **chosen)
    kinds = tuple(TensorType(F32, array.shape) for array in (q, k, v))
    call = OpCall(op="sdpa", inputs=kinds, outputs=(TensorType(F32, found.shape),), settings=chosen)
    (expected,) = known_oracles()["sdpa"]([array.astype(np.float64) for array in (q, k, v)], call)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 6), (4, 1, 6), (2, 1, 5, 1), (2, 4, 5, 6)])
@pytest.mark.parametrize("kind", [np.bool_, np.float32])
def test_a_mask_broadcasts(run_operator, onnx_reference, shape: tuple[int, ...], kind: Any) -> None:
    q, k, v = qkv(keys=6, kv_heads=2)
    mask = noise(*shape, seed=9) > -1 if kind is np.bool_ else noise(*shape, seed=9)
    whole = np.ascontiguousarray(np.broadcast_to(mask, (2, 4, 5, 6)))
    expected = onnx_reference("Attention", {"q": q, "k": k, "v": v, "m": whole})[0]
    if kind is np.bool_:
        expected = np.where(whole.any(-1)[..., None], expected, 0)
    np.testing.assert_allclose(run_operator("sdpa", [q, k, v, mask])[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.rule("operators.attention.4")
def test_a_query_that_sees_no_key_gives_zeros(run_operator) -> None:
    q, k, v = (array[0, 0] for array in qkv(queries=3, keys=3))
    mask = np.array([[True] * 3, [False] * 3, [True] * 3])
    (y,) = run_operator("sdpa", [q, k, v, mask])
    assert y[1].tolist() == [0.0] * 8
    assert np.isfinite(y).all()


def test_keys_that_do_not_count_are_not_read(run_operator) -> None:
    q, k, v = qkv(queries=1, keys=6)
    expected = run_operator("sdpa", [q, k[:, :, :4].copy(), v[:, :, :4].copy()])[0]
    k[:, :, 4:], v[:, :, 4:] = np.nan, np.nan
    np.testing.assert_array_equal(run_operator("sdpa", [q, k, v], kv_len=4)[0], expected)


@pytest.mark.rule("operators.attention.4")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("by", ["mask", "causal"])
def test_a_hidden_key_adds_nothing_whatever_its_value(run_operator, value: float, by: str) -> None:
    q, k, v = (array[0] for array in qkv(queries=3, keys=3))
    mask = np.tril(np.ones((3, 3), np.bool_))
    hide: Any = {"inputs": [mask]} if by == "mask" else {"inputs": [], "causal": True}
    more = hide.pop("inputs")
    (expected,) = run_operator("sdpa", [q, k, v, *more], **hide)
    v[:, 2, 0] = value
    (found,) = run_operator("sdpa", [q, k, v, *more], **hide)
    np.testing.assert_allclose(found[:, :2], expected[:, :2], rtol=1e-6)
    np.testing.assert_allclose(found[:, 2, 1:], expected[:, 2, 1:], rtol=1e-6)
    np.testing.assert_array_equal(found[:, 2, 0], value)


def test_low_floats_are_computed_in_f32_and_rounded_once(run_operator) -> None:
    q, k, v = (array.astype(np.float16) for array in qkv())
    (found,) = run_operator("sdpa", [q, k, v])
    (wide,) = run_operator("sdpa", [array.astype(np.float32) for array in (q, k, v)])
    np.testing.assert_array_equal(found, wide.astype(np.float16))


@pytest.mark.parametrize("settings", [{}, {"causal": True}, {"scale": 0.2, "softcap": 3.0}])
@pytest.mark.parametrize("projected", [False, True])
def test_attn_is_sdpa_by_heads(run_operator, settings: Any, projected: bool) -> None:
    x, k, v, w = noise(3, 24), noise(7, 2, 6, seed=1), noise(7, 2, 5, seed=2), noise(24, 24, seed=3)
    rows = x @ w if projected else x
    q = rows.reshape(3, 4, 6).transpose(1, 0, 2)
    (heads,) = run_operator("sdpa", [q, k.transpose(1, 0, 2), v.transpose(1, 0, 2)], **settings)
    (found,) = run_operator("attn", [x, k, v, w if projected else None], heads=4, **settings)
    np.testing.assert_allclose(found, heads.transpose(1, 0, 2).reshape(3, 20), rtol=1e-5, atol=1e-6)
    (composed,) = run_operator("attn", [x, k, v, w if projected else None], without_kernels=["attn"], **settings)
    np.testing.assert_allclose(found, composed, rtol=1e-5, atol=1e-6)


@pytest.mark.rule("operators.types.3")
def test_attn_mixes_types_as_the_design_does(run_operator) -> None:
    x, k, v, w = noise(1, 6), noise(9, 2, 4, dtype=np.float16), noise(9, 2, 4, dtype=np.float16), noise(6, 16, seed=3)
    (found,) = run_operator("attn", [x, k, v, w])
    (wide,) = run_operator("attn", [x, k.astype(np.float32), v.astype(np.float32), w])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wide)


@pytest.mark.parametrize(
    ("op", "shapes", "settings", "said"),
    [
        ("sdpa", [(2, 3, 4), (3, 5, 4), (3, 5, 4)], {}, "2 query heads are not a multiple of 3"),
        ("sdpa", [(2, 3, 4), (2, 5, 3), (2, 5, 4)], {}, r"k is f32\[2,5,3\]: its batch and last dim"),
        ("sdpa", [(2, 3, 4), (2, 5, 4), (2, 6, 4)], {}, r"v is f32\[2,6,4\]: all but its last dim"),
        ("sdpa", [(3, 4), (2, 5, 4), (2, 5, 4)], {}, "all the same"),
        ("sdpa", [(3, 4), (5, 4), (5, 4)], {"kv_len": 6}, r"kv_len is 6, expected 0\.\.5"),
        ("sdpa", [(3, 4), (5, 4), (5, 4), (2, 5)], {}, r"mask is f32\[2,5\].*\[3,5\]"),
        ("attn", [(3, 8), (5, 2, 3), (5, 2, 3)], {}, "8 columns of queries are not a multiple of the 3 elements"),
        ("attn", [(3, 8), (5, 2, 4), (5, 2, 4)], {"heads": 3}, "heads is 3, but 8 columns hold 2 heads"),
        ("attn", [(3, 8), (5, 2, 4), (5, 2, 4), (7, 8)], {}, r"w is f32\[7,8\], expected \[E, Hq\*D\]"),
    ],
)
def test_what_does_not_fit_is_refused(run_operator, op: str, shapes: Any, settings: Any, said: str) -> None:
    with pytest.raises(OpTypeError, match=said):
        run_operator(op, [noise(*shape) for shape in shapes], **settings)


def tables(pos: np.ndarray, dim: int, base: float = 10000.0) -> tuple[np.ndarray, np.ndarray]:
    angles = pos[..., None] * base ** (-2 * np.arange(dim // 2) / dim)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [0, 4])
@pytest.mark.parametrize("batched", [False, True])
def test_rope_agrees_with_onnx(run_operator, onnx_reference, interleaved: bool, dim: int, batched: bool) -> None:
    x = noise(2, 3, 5, 8)
    pos = np.array([[0, 1, 2, 3, 40], [7, 7, 1, 0, 2]])
    cos, sin = tables(np.arange(41), dim or 8)
    ids = pos if batched else np.stack([pos[0]] * 2)
    expected = onnx_reference(
        "RotaryEmbedding",
        {"x": x, "c": cos, "s": sin, "p": ids},
        interleaved=int(interleaved),
        rotary_embedding_dim=dim,
        num_heads=3,
    )[0]
    settings = {"interleaved": interleaved, "rotary_dim": dim}
    given = pos if batched else pos[0]
    np.testing.assert_allclose(run_operator("rope", [x, given], **settings)[0], expected, rtol=1e-4, atol=1e-5)
    found = run_operator("rope_cached", [x, cos, sin, given], **settings)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    rows = run_operator("rope_cached", [x, cos[given], sin[given], None], **settings)[0]
    np.testing.assert_array_equal(rows, found)


def test_rope_with_positions_first(run_operator) -> None:
    x, pos = noise(5, 3, 8), np.arange(5, dtype=np.uint8)
    (first,) = run_operator("rope", [x, pos], seq_axis=0)
    (last,) = run_operator("rope", [x.transpose(1, 0, 2), pos])
    np.testing.assert_array_equal(first, last.transpose(1, 0, 2))


def test_rope_rotates_by_the_scaled_angle(run_operator) -> None:
    (found,) = run_operator("rope", [np.array([[1.0, 0.0]]), np.array([3])], freq_scale=0.5)
    assert found[0].tolist() == pytest.approx([math.cos(1.5), math.sin(1.5)], abs=1e-15)


def test_positions_of_rope_cached_count_from_the_end_when_negative(run_operator) -> None:
    x, (cos, sin) = noise(2, 4), tables(np.arange(6), 4)
    (found,) = run_operator("rope_cached", [x, cos, sin, np.array([-1, 0])])
    (expected,) = run_operator("rope_cached", [x, cos, sin, np.array([5, 0])])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("place", [6, -7])
def test_a_position_without_a_row_is_an_error(run_operator, place: int) -> None:
    x, (cos, sin) = noise(2, 4), tables(np.arange(6), 4)
    with pytest.raises(OutOfRangeError, match=f"rope_cached.*{place}") as caught:
        run_operator("rope_cached", [x, cos, sin, np.array([0, place])])
    assert caught.value.code == "out-of-range"


@pytest.mark.parametrize(
    ("op", "shapes", "settings", "said"),
    [
        ("rope", [(4,), (4,)], {}, "at least two dims"),
        ("rope", [(3, 4), (4,)], {}, r"pos is i64\[4\], expected shape \[3\]"),
        ("rope", [(3, 5), (3,)], {}, "5 elements .* cannot be rotated in pairs"),
        ("rope", [(3, 4), (3,)], {"rotary_dim": 6}, "6 elements .* at most D"),
        ("rope", [(3, 4), (3,)], {"seq_axis": 1}, "taken by the elements"),
        ("rope", [(3, 4), (3,)], {"base": -1.0}, "base is -1.0"),
    ],
)
def test_rope_refuses_what_does_not_fit(run_operator, op: str, shapes: Any, settings: Any, said: str) -> None:
    with pytest.raises(OpTypeError, match=said):
        run_operator(op, [noise(*shapes[0]), np.zeros(shapes[1], np.int64)], **settings)
