"""Numbers in place of inputs: each becomes a constant, whose type follows from the other inputs."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.dtypes import BUILTIN
from openinfer.errors import OpenInferError
from openinfer.ir.graph import MemoryKind, VarDecl
from openinfer.ir.nodes import Loop, Op
from openinfer.ir.resolved import Filled, ResolvedVar, Storage
from openinfer.ir.text import ref_text
from openinfer.ir.types import TensorType
from openinfer.ir.values import Attrs, BoolValue, IntValue, Number, UIntValue, VarValue
from openinfer.scalars import check_fits, converted
from openinfer.validate.signature import as_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from openinfer.dtypes import DType
    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.ops.schema import InputSpec, OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.scalars import Scalar


class NumberTypeError(OpenInferError):
    """A number has no type, or does not fit it; ``hint`` says what to do."""

    default_code = "number-type"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def name_numbers(graph: Graph, environment: Environment) -> Graph:
    """Return a graph in which every number has the name of a constant, one that no program can write.

    A setting whose name is that of an input gives the input.
    """
    if not any(_written(node, environment) for _, node in graph.nodes()):
        return graph
    blocks = {
        name: replace(block, nodes=_named_nodes(block.nodes, environment)) for name, block in graph.blocks.items()
    }
    return replace(graph, blocks=MappingProxyType(blocks))


def _named_nodes(nodes: Sequence[Node], environment: Environment) -> tuple[Node, ...]:
    return tuple(_named(node, environment) for node in nodes)


def _named(node: Node, environment: Environment) -> Node:
    kind = node.kind
    if isinstance(kind, Loop):
        return replace(node, kind=replace(kind, body=_named_nodes(kind.body, environment)))
    if not isinstance(kind, Op) or not _written(node, environment):
        return node
    inputs = tuple(_constant(ref, node, position) for position, ref in enumerate(kind.inputs))
    by_name = _number_settings(kind, environment)
    numbers: Mapping[str, AttrValue] = {
        name: VarValue(_constant(number, node, name)) for name, number in by_name.items()
    }
    return replace(node, kind=replace(kind, inputs=inputs, settings=Attrs({**kind.settings, **numbers})))


def _constant(ref: Ref, node: Node, argument: int | str) -> Ref:
    return replace(ref, name=f"number@{node.index}.{argument}") if isinstance(ref, Number) else ref


def _written(node: Node, environment: Environment) -> bool:
    kind = node.kind
    if not isinstance(kind, Op):
        return False
    return any(isinstance(ref, Number) for ref in kind.inputs) or bool(_number_settings(kind, environment))


def _number_settings(op: Op, environment: Environment) -> dict[str, Number]:
    """Return the numbers that are given to inputs by name."""
    schema = environment.ops.get(environment.op_aliases.get(op.op, op.op)) if op.settings else None
    if schema is None:
        return {}
    written = {name: as_number(value) for name, value in op.settings.items() if schema.input(name) is not None}
    return {name: number for name, number in written.items() if number is not None}


def numbers_of(node: Node) -> Iterator[Number]:
    """Yield the numbers of a statement, in place and by name, once they are named."""
    if not isinstance(node.kind, Op):
        return
    named = (value.ref for value in node.kind.settings.values() if isinstance(value, VarValue))
    yield from (ref for ref in (*node.kind.inputs, *named) if isinstance(ref, Number))


def number_names(graph: Graph) -> Set[str]:
    """Return the names of the constants that hold the numbers of a graph, once they are named."""
    return {number.name for _, node in graph.nodes() for number in numbers_of(node)}


def number_element(
    position: int, schema: OpSchema, inputs: Sequence[Ref | None], types: Sequence[TensorType | None]
) -> tuple[DType, Scalar]:
    """Return type and value of the number at a position of an operator's inputs.

    Args:
        types: those of the inputs; of other numbers they are ignored.

    Raises:
        NumberTypeError: ``number-type``, the number has no type or does not fit it.
    """
    number = inputs[position]
    if not isinstance(number, Number):
        raise TypeError(f"input {position} of {schema.name} is not a number: {number!r}")
    dtype = _dtype(number, position, schema, inputs, types)
    misfit = check_fits(dtype, number.value.value)
    if misfit is not None:
        raise NumberTypeError(misfit)
    return dtype, converted(dtype, number.value.value)


def number_constant(number: Number, dtype: DType, element: Scalar) -> ResolvedVar:
    """Return the constant that holds a number of a statement: no text declares it, so that it has no place."""
    return ResolvedVar(
        name=number.name,
        storage=Storage.CONSTANT,
        type=TensorType(dtype),
        initial=Filled(element),
        decl=VarDecl(name=number.name, kind=MemoryKind.CONSTANT, dtype=dtype, init=element),
    )


def _dtype(
    number: Number,
    position: int,
    schema: OpSchema,
    inputs: Sequence[Ref | None],
    types: Sequence[TensorType | None],
) -> DType:
    spec = _spec(schema, position)
    others = [
        (other, type_.dtype)
        for other, (ref, type_) in enumerate(zip(inputs, types, strict=True))
        if type_ is not None and not isinstance(ref, Number)
    ]
    if spec.dtypes is None:
        shared = next((dtype for other, dtype in others if _spec(schema, other).dtypes is None), None)
        if shared is None:
            message = f"no other input says which type `{ref_text(number)}` has"
            raise NumberTypeError(message, _declared(number, None))
        return shared
    legal = [dtype for dtype in BUILTIN if dtype.name in spec.dtypes]
    shared = [dtype for dtype in legal if any(dtype is other for _, other in others)]
    if len(shared) == 1 or len(legal) == 1:
        return (shared or legal)[0]
    which = "the other inputs are of several types" if shared else f"input `{spec.name}` has a type of its own"
    listed = " or ".join(dtype.name for dtype in shared or legal)
    message = f"{which}: `{ref_text(number)}` could be {listed}"
    raise NumberTypeError(message, _declared(number, next(iter(shared), None)))


def _spec(schema: OpSchema, position: int) -> InputSpec:
    return schema.inputs[min(position, len(schema.inputs) - 1)]


def _declared(number: Number, dtype: DType | None) -> str:
    """Return how to declare a constant in place of a number."""
    literal_types: dict[type, str] = {BoolValue: "bool", IntValue: "i32", UIntValue: "u64"}
    usual = literal_types.get(type(number.value), "f32")
    shown = dtype.name if dtype is not None else usual
    return f"declare it: `NAME: {shown} @init({ref_text(number)});` under `constant`, and write NAME here"
