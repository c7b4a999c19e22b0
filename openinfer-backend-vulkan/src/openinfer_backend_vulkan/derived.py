"""Kernels of elementwise expressions that refuse elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.glsl_renderer import glsl_type, helper_source, render
from openinfer.expr.linear import Program, linearise
from openinfer.ops.strides import broadcast_walk
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.expr.tree import Expr
    from openinfer.ir.types import TensorType
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


def _united(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for several in names for name in several))


def needed_features(*programs: Program) -> frozenset[str]:
    """Return the optional device features that the element types of programs need."""
    names = {step.dtype.name for program in programs for step in program.instructions}
    return frozenset(feature for name, feature in _FEATURES.items() if name in names)
