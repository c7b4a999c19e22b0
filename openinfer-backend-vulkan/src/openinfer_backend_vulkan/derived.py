"""Kernels made from an operator's definition: elementwise expressions and sequential folds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dtypes import U32
from openinfer.errors import ShapeError
from openinfer.expr.glsl_math import REMAINDER_TURNS
from openinfer.expr.glsl_renderer import glsl_type, helper_source, render
from openinfer.expr.linear import Instruction, Program, linearise
from openinfer.ops.strides import broadcast_walk, contiguous, merged
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.expr.tree import Expr
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Fold
    from openinfer_backend_vulkan.shaders import Fault


_FEATURES = {"i64": "shaderInt64", "u64": "shaderInt64", "f64": "shaderFloat64"}


def expression_shader(
    expr: Expr,
    inputs: Mapping[int, TensorType],
    output: TensorType,
    *,
    refused: tuple[Expr, Fault] | None = None,
) -> Shader:
    """Return the kernel of an elementwise expression; ``inputs`` has the types of what it reads, by number ascending.

    ``refused`` tells which elements of the output are a fault, over the same inputs.

    Raises:
        ExprError: GLSL cannot hold a type of the expression.
        ValueError: an input does not broadcast to the output.
    """
    numbers = list(inputs)
    program = linearise(expr)
    names = {n: f"a{n}" for n in numbers}
    fragment = render(program, names)
    test = None if refused is None else linearise(refused[0])
    refusal = None if test is None else render(test, names)
    fragments = [fragment] if refusal is None else [fragment, refusal]
    walk = broadcast_walk(output.shape, [inputs[n].shape for n in numbers])
    types = [glsl_type(inputs[n].dtype) for n in numbers]
    source = rendered(
        "expression.comp.j2",
        extensions=_united(f.requires for f in fragments),
        helpers=helper_source(_united(f.helpers for f in fragments)),
        words=[glsl_word(inputs[n].dtype) for n in numbers],
        target_word=glsl_word(output.dtype),
        type=glsl_type(expr.dtype),
        arguments=[f"{kind} a{n}" for n, kind in zip(numbers, types, strict=True)],
        operands=[f"{kind}(source{at}[offset{at}])" for at, kind in enumerate(types)],
        offsets=[f"offset{at}" for at in range(len(numbers))],
        fragment=fragment,
        refusal=refusal,
        rank=walk.rank,
    )
    parameters = (output.count, *walk.extents, *(step for strides in walk.strides for step in strides))
    features = needed_features(program) if test is None else needed_features(program, test)
    return Shader(source, parameters, output.count, features, faults=() if refused is None else (refused[1],))


def fold_shader(
    axes: tuple[int, ...], fold: Fold, source: TensorType, output: TensorType, *, most_turns: int | None = None
) -> Shader:
    """Return the kernel of a reduction of ``source`` over ``axes``: a thread for each kept position.

    Where it takes more than ``most_turns`` turns, accumulators are kept between several runs.

    Raises:
        ExprError: GLSL cannot hold a type of the fold.
        ShapeError: there is nothing to fold and the fold has no start.
    """
    steps = contiguous(source.shape)
    kept = [axis for axis in range(len(source.shape)) if axis not in axes]
    outer = merged([source.shape[a] for a in kept], [[steps[a] for a in kept]])
    inner = merged([source.shape[a] for a in axes], [[steps[a] for a in axes]])
    count = math.prod(source.shape[a] for a in axes)
    if count == 0 and fold.start is None and output.count:
        raise ShapeError(f"a slice over axes {list(axes)} of shape {list(source.shape)} is empty")
    finish = counting_in_32_bits(linearise(fold.finish))
    turns = Turns(count, 1 + inner_turns(linearise(fold.element), linearise(fold.combine)), at=2)
    divided = most_turns is not None and turns.steps * turns.each > most_turns
    glsl = _fold_source(fold, finish, source, output, (outer.rank, inner.rank), divided=divided)
    walks = (*outer.extents, *outer.strides[0], *inner.extents, *inner.strides[0])
    return Shader(
        glsl,
        (output.count, count, 0, count, *walks),
        output.count,
        needed_features(linearise(fold.element), linearise(fold.combine), finish),
        turns,
        scratch_nbytes=max(fold.combine.dtype.bits // 8, 4) * output.count if divided else 0,
    )


def _fold_source(
    fold: Fold, finish: Program, source: TensorType, output: TensorType, ranks: tuple[int, int], *, divided: bool
) -> str:
    accumulator = glsl_type(fold.combine.dtype)
    parts = {"element": linearise(fold.element), "combine": linearise(fold.combine), "finish": finish}
    if fold.start is not None:
        parts["start"] = linearise(fold.start)
    fragments = {name: render(program, _arguments(program)) for name, program in parts.items()}
    return rendered(
        "fold.comp.j2",
        extensions=_united(f.requires for f in fragments.values()),
        helpers=helper_source(_united(f.helpers for f in fragments.values())),
        source_word=glsl_word(source.dtype),
        target_word=glsl_word(output.dtype),
        source_type=glsl_type(source.dtype),
        mapped_type=glsl_type(fold.element.dtype),
        accumulator_type=accumulator,
        kept_type="uint" if accumulator == "bool" else accumulator,
        divided=divided,
        result_type=glsl_type(output.dtype),
        kept_rank=ranks[0],
        folded_rank=ranks[1],
        **{"start": None, **fragments},
    )


def _arguments(program: Program) -> dict[int, str]:
    """Return the names of a function's arguments; one of 64 bits is converted from the 32 that are handed over."""
    return {step.index: f"{glsl_type(step.dtype)}(a{step.index})" for step in program.instructions if step.index >= 0}


def _united(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for several in names for name in several))


def counting_in_32_bits(finish: Program) -> Program:
    """Return a fold's last expression with the number of elements as u32, if it is only ever cast.

    Devices without 64-bit integers can then compute it; the number is below 2^32 here.
    """
    steps = finish.instructions
    number = next((n for n, step in enumerate(steps) if step.function == "input" and step.index == 1), None)
    if number is None or any(number in step.operands and step.function != "cast" for step in steps):
        return finish
    counted = Instruction("input", U32, index=1)
    return Program((*steps[:number], counted, *steps[number + 1 :]))


def inner_turns(*programs: Program) -> int:
    """Return how many turns of loops the functions of programs take at most."""
    steps = (step for program in programs for step in program.instructions)
    return sum(REMAINDER_TURNS for step in steps if step.function == "rem" and step.dtype.is_float)


def needed_features(*programs: Program) -> frozenset[str]:
    """Return the optional device features that the element types of programs need."""
    names = {step.dtype.name for program in programs for step in program.instructions}
    return frozenset(feature for name, feature in _FEATURES.items() if name in names)
