"""Products of matrices."""

from __future__ import annotations

import numpy as np

from random_onnx.calls import Call, ImpossibleError
from random_onnx.recipe_registry import draws


def _factors(call: Call, first: str, second: str) -> None:
    """Draw two inputs that `matmul` multiplies."""
    array = call.take(first, ranks=(1, 2, 2, 3, 4))
    lead = [1 if call.chance(0.3) else extent for extent in array.shape[:-2]]
    lead = lead[call.random.randint(0, len(lead)) if call.chance(0.4) else 0 :]
    if not lead and call.chance(0.3):
        call.take(second, shape=(array.shape[-1],))
    else:
        call.take(second, shape=(*lead, array.shape[-1], call.extent(least=0 if call.chance(0.1) else 1)))


@draws("MatMul")
def _matmul(call: Call) -> None:
    _factors(call, "A", "B")


@draws("MatMulInteger")
def _matmul_integer(call: Call) -> None:
    _factors(call, "A", "B")
    call.maybe("a_zero_point", shape=(), fresh=True)
    if "a_zero_point" in call.inputs:
        call.maybe("b_zero_point", shape=(), fresh=True)


@draws("Gemm")
def _gemm(call: Call) -> None:
    array = call.take("A", ranks=(2,))
    is_transposed, is_right = call.flag("transA"), call.flag("transB")
    rows, inner = array.shape[::-1] if is_transposed else array.shape
    columns = call.extent()
    call.take("B", shape=(columns, inner) if is_right else (inner, columns))
    shapes = ((columns,), (rows, columns), (1, columns), (rows, 1), (), (1,), (1, 1))
    if call.schema.since_version < 11 or call.chance(0.6):
        call.take("C", shape=call.random.choice(shapes))
    for name in ("alpha", "beta"):
        call.set(name, call.random.choice((0.5, 2.0, 0.0, 1.0, -0.75)), 0.4)


EQUATIONS = (
    ("ij,jk->ik", "ij jk"),
    ("ij->ji", "ij"),
    ("ij->", "ij"),
    ("ij,ij->i", "ij ij"),
    ("bij,bjk->bik", "bij bjk"),
    ("bij,bjk", "bij bjk"),
    ("i,j->ij", "i j"),
    ("ii->i", "ii"),
    ("...ij,...jk->...ik", "bij bjk"),
    ("bhid,bhjd->bhij", "bhid bhjd"),
    ("ij,jk,kl->il", "ij jk kl"),
    (" i j , j k -> k i ", "ij jk"),
)
"""Equations, and the indices of their operands."""


@draws("Einsum")
def _einsum(call: Call) -> None:
    equation, operands = call.random.choice(EQUATIONS)
    extents = {letter: call.extent(most=5) for letter in sorted(set(operands) - {" "})}
    for operand in operands.split():
        call.take("Inputs", shape=tuple(extents[letter] for letter in operand))
    call.attributes["equation"] = equation


@draws("Det")
def _det(call: Call) -> None:
    rows = call.random.choice((1, 2, 3, 3, 4))
    lead = call.shape((0, 1, 2))
    call.take("X", shape=(*lead, rows, rows))


@draws("QLinearMatMul")
def _qlinear_matmul(call: Call) -> None:
    call.prefer("a_scale" if call.schema.since_version >= 21 else "a", np.float32, np.int8, np.uint8)
    _factors(call, "a", "b")
    for operand in ("a", "b", "y"):
        call.add(f"{operand}_scale", np.array(call.random.choice((0.5, 0.25, 0.1, 0.031)), np.float32))
        call.take(f"{operand}_zero_point", shape=(), fresh=True)


@draws("Attention")
def _attention(call: Call) -> None:
    batch, queries, keys, width = (call.extent(most=4) for _ in range(4))
    shared = call.random.choice((1, 2))
    heads = shared * call.random.choice((1, 2))
    if call.chance(0.5):
        call.take("Q", shape=(batch, heads, queries, width))
        call.take("K", shape=(batch, shared, keys, width))
        call.take("V", shape=(batch, shared, keys, call.extent(most=4)))
    else:
        call.take("Q", shape=(batch, queries, heads * width))
        call.take("K", shape=(batch, keys, shared * width))
        call.take("V", shape=(batch, keys, shared * width))
        call.attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
    if call.chance(0.4):
        shapes = ((queries, keys), (1, 1, queries, keys), (batch, heads, queries, keys))
        call.prefer("attn_mask", np.bool_, np.float32)
        call.take("attn_mask", shape=call.random.choice(shapes), fresh=True)
    call.flag("is_causal")
    call.set("scale", 0.5, 0.3)
    call.set("softcap", 2.0, 0.2)


@draws("RotaryEmbedding")
def _rotary(call: Call) -> None:
    batch, heads, length, half = (call.extent(most=3) for _ in range(4))
    width = 2 * half
    if call.chance(0.5):
        call.take("X", shape=(batch, heads, length, width))
    else:
        call.take("X", shape=(batch, length, heads * width))
        call.attributes["num_heads"] = heads
    if call.chance(0.5):
        positions = length + 2
        call.take("cos_cache", shape=(positions, half))
        call.take("sin_cache", shape=(positions, half))
        generator = np.random.default_rng(call.random.randrange(1 << 32))
        call.add("position_ids", generator.integers(0, positions, (batch, length)))
    else:
        call.take("cos_cache", shape=(batch, length, half))
        call.take("sin_cache", shape=(batch, length, half))
    call.flag("interleaved")


@draws("MeanVarianceNormalization")
def _mean_variance(call: Call) -> None:
    array = call.take("X", ranks=(4,))
    if not array.size:
        raise ImpossibleError("statistics of no elements")
