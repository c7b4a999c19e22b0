"""Declarations for the temporaries of the earlier syntax, which had none.

The type of a result follows from the operator and the types of its inputs. Shapes are names at this point: the
operator's rule is asked about two sets of different numbers in their place, and a dim of the result that is the same
dim of an input both times is written as that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import Diagnostic, Source, summary
from openinfer.errors import DslSyntaxError, OpenInferError
from openinfer.ir.nodes import Assign, Op
from openinfer.ir.types import TensorType
from openinfer.ir.values import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    IntListValue,
    IntValue,
    StrValue,
    VarValue,
)
from openinfer.ops.calls import call_of
from openinfer.symbolic import DivisionError, evaluate, names
from openinfer.symbolic import text as dim_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr

    Types: TypeAlias = dict[str, "_Type"]

_FIRST_SIZES = (1_009, 20_011)
"""Sizes count from these, far apart from each other and from literal dims."""


@dataclass(frozen=True, slots=True)
class _Type:
    """An element type with dims that may hold names."""

    dtype: DType
    dims: tuple[IntExpr, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(dim_text, self.dims))}]" if self.dims else f"{self.dtype}"


def with_assigns(
    text: str, built: Graph, candidates: frozenset[str], environment: Environment, name: str
) -> tuple[str, tuple[str, ...]]:
    """Return the text with an ``assign`` in front of each statement that gives an undeclared candidate its first value,
    and what is declared there, such as ``t: f32[B]``.

    Raises:
        DslSyntaxError: the type of one does not follow from its operator; the finding tells what to write.
    """
    types: Types = {decl.name: _Type(decl.dtype, decl.dims) for decl in built.vars.values()}
    assigned: list[tuple[int, str]] = []
    problems: list[Diagnostic] = []
    for block, node in built.nodes():
        if isinstance(node.kind, Assign):
            types[node.kind.name] = _Type(node.kind.dtype, node.kind.dims)
        if not isinstance(node.kind, Op) or node.span is None:
            continue
        missing = [output for output in node.kind.outputs if output in candidates and output not in types]
        found = _results(node.kind, types, environment) if block.name == "entry" else {}
        for output in missing:
            if output not in found:
                problems.append(_unclear(output, node, Source(name, text), in_entry=block.name == "entry"))
            else:
                types[output] = found[output]
                assigned.append((node.span.start, f"{output}: {found[output]}"))
    if problems:
        raise DslSyntaxError(summary(problems), diagnostics=problems)
    for start, declaration in sorted(assigned, key=lambda item: item[0], reverse=True):
        text = f"{text[:start]}assign {declaration}; {text[start:]}"
    return text, tuple(declaration for _, declaration in assigned)


def _unclear(output: str, node: Node, source: Source, *, in_entry: bool) -> Diagnostic:
    span = None if node.span is None else source.span(node.span.start, node.span.end)
    if in_entry:
        hint = f"write `assign {output}: DTYPE[DIMS];` in front of it, with the type that the operator yields"
    else:
        hint = f"declare `{output}: DTYPE[DIMS];` under `volatile {{ … }}`: only block entry has `assign`"
    return Diagnostic(code="syntax", message=f"the type of temporary `{output}` is not clear", span=span, hint=hint)


def _results(op: Op, types: Mapping[str, _Type], environment: Environment) -> dict[str, _Type]:
    """Return the types of an operator's outputs; none where they cannot be told."""
    try:
        schema = environment.op(op.op)
        inputs = _inputs(op, schema, types)
        settings = {name: _setting(value) for name, value in op.settings.items() if schema.input(name) is None}
        first, second = (_inferred(schema, inputs, settings, start) for start in _FIRST_SIZES)
        outputs = zip(op.outputs, first, second, strict=False)
        return {name: _named(one, other, inputs) for name, one, other in outputs}
    except (OpenInferError, KeyError, DivisionError):
        return {}


def _inputs(op: Op, schema: OpSchema, types: Mapping[str, _Type]) -> list[_Type | None]:
    """Return the types of the inputs, also of those that are given by name.

    Raises:
        KeyError: one is not known, or is an index of a loop.
    """
    given = {name: value for name, value in op.settings.items() if schema.input(name) is not None}
    named = {name: value.ref for name, value in given.items() if isinstance(value, VarValue)}
    refs: list[Ref | None] = [*op.inputs]
    refs += [named.get(spec.name) for spec in schema.inputs[len(op.inputs) :]]
    while refs and refs[-1] is None:
        refs.pop()
    return [None if ref is None else types[ref.name] for ref in refs]


def _setting(value: AttrValue) -> SettingValue:
    """Return a literal setting as operators take it.

    Raises:
        KeyError: it is known only when the program runs.
    """
    match value:
        case IntValue() | DoubleValue() | BoolValue() | StrValue():
            return value.value
        case IntListValue() | DoubleListValue():
            return value.values
        case DTypeValue():
            return value.dtype
        case DTypeListValue():
            return value.dtypes
        case _:
            raise KeyError(value)


def _inferred(
    schema: OpSchema, inputs: Sequence[_Type | None], settings: Mapping[str, SettingValue], start: int
) -> tuple[TensorType, ...]:
    sizes = _sizes(inputs, start)
    return call_of(schema, [None if one is None else _numbered(one, sizes) for one in inputs], settings).outputs


def _sizes(inputs: Sequence[_Type | None], start: int) -> dict[str, int]:
    used = sorted({name for one in inputs if one is not None for dim in one.dims for name in names(dim)})
    return dict(zip(used, count(start, 101), strict=False))


def _numbered(one: _Type, sizes: Mapping[str, int]) -> TensorType:
    return TensorType(one.dtype, tuple(evaluate(dim, sizes.__getitem__) for dim in one.dims))


def _named(first: TensorType, second: TensorType, inputs: Sequence[_Type | None]) -> _Type:
    """Return a type whose dims are those of inputs.

    Raises:
        KeyError: a dim is none of them.
    """
    known = {pair: dim for dim, pair in _dims(inputs)}
    return _Type(first.dtype, tuple(known[pair] for pair in zip(first.shape, second.shape, strict=True)))


def _dims(inputs: Sequence[_Type | None]) -> Iterator[tuple[IntExpr, tuple[int, int]]]:
    sizes = [_sizes(inputs, start) for start in _FIRST_SIZES]
    for one in inputs:
        for dim in one.dims if one is not None else ():
            first, second = (evaluate(dim, each.__getitem__) for each in sizes)
            yield dim, (first, second)
