"""Operators that read or write at places that indices name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from openinfer.dtypes import BOOL, I64
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Value
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size


@translates("embedding")
def _embedding(node: Node) -> Value:
    return node.call("embedding", node.tensor("indices"), node.tensor("weight"))


@translates("index_select")
def _index_select(node: Node) -> Value:
    index = node.tensor("index")
    if not index.rank:
        index = node.call("unsqueeze", index, axes=(0,))
    return node.call("gather", node.tensor(), index, axis=node.axis())


@translates("gather", "take_along_dim")
def _gather(node: Node) -> Value:
    """Elements at places of one dim; of the others only as much as indices have."""
    x, index, axis = node.tensor(), node.tensor("indices" if node.op == "take_along_dim" else "index"), node.axis()
    return node.call("gather_elements", _fitted(node, x, index, axis), index, axis=axis)


def _fitted(node: Node, x: Value, index: Value, axis: int) -> Value:
    """Return a value of which other dims than one are cut to those of indices."""
    for place, (extent, wanted) in enumerate(zip(x.dims, index.dims, strict=True)):
        if place != axis and is_number(extent) and is_number(wanted) and extent != wanted:
            x = node.call("narrow", x, axis=place, start=0, length=wanted)
    return x


@translates(
    "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add", "scatter_reduce.two"
)
def _scatter(node: Node) -> Value:
    x, index, axis = node.tensor(), node.tensor("index"), node.axis()
    if node.get("value") is not None:
        update = node.call("expand", node.of_type(node.operand("value"), x.dtype), shape=index.dims)
    else:
        update = _cut(node, node.tensor("src"), index)
    reduction = "add" if node.op == "scatter_add" else _reduction(node)
    if node.op == "scatter_reduce" and not node.flag("include_self"):
        node.refuse("include_self=False")
    for place, (extent, wanted) in enumerate(zip(x.dims, index.dims, strict=True)):
        if place != axis and extent != wanted:
            node.refuse("indices of fewer rows than the tensor has")
    return node.call("scatter", x, index, update, axis=axis, **({} if reduction is None else {"reduction": reduction}))


def _cut(node: Node, source: Value, index: Value) -> Value:
    for place, (extent, wanted) in enumerate(zip(source.dims, index.dims, strict=True)):
        if extent != wanted:
            source = node.call("narrow", source, axis=place, start=0, length=wanted)
    return source


def _reduction(node: Node) -> str | None:
    reduction = node.get("reduce")
    if reduction is None:
        return None
    names = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}
    if reduction not in names:
        node.refuse(f"reduce={reduction}")
    return names[reduction]


@translates("index.Tensor", "_unsafe_index.Tensor")
def _index(node: Node) -> Value:
    """Indices broadcast against one another; neighbours take the place of the first of their dims."""
    x, indices, axes = _indexed(node)
    if len(indices) == 1:
        return _by_one(node, x, indices[0], axes[0])
    shape = _broadcast(indices)
    order = (*axes, *(axis for axis in range(x.rank) if axis not in axes))
    made = node.call("gather_nd", node.transposed(x, order), _places(node, indices, shape))
    if axes[-1] - axes[0] != len(axes) - 1:
        return made
    first, rank = axes[0], len(shape)
    # The dims before the indexed ones come back in front.
    return node.transposed(made, (*range(rank, rank + first), *range(rank), *range(rank + first, made.rank)))


def _by_one(node: Node, x: Value, index: Value, axis: int) -> Value:
    if index.payload is not None and not index.rank:
        return node.call("select", x, axis=axis, index=int(index.array()))
    return node.call("gather", x, index, axis=axis)


def _indexed(node: Node) -> tuple[Value, list[Value], list[int]]:
    """Return the tensor, and the indices with the dims that they are for; masks are refused."""
    x = node.tensor()
    given: Sequence[Any] = cast("Sequence[Any]", node.get("indices") or ())
    pairs = [(value, axis) for axis, value in enumerate(given) if isinstance(value, Value)]
    if any(value.dtype is BOOL for value, _ in pairs):
        node.refuse("a mask as an index, whose result has as many rows as the mask has true elements: use torch.where")
    if not pairs:
        node.refuse("no index")
    return x, [value for value, _ in pairs], [axis for _, axis in pairs]


def _broadcast(indices: Sequence[Value]) -> tuple[Size, ...]:
    rank = max(value.rank for value in indices)
    shape: list[Size] = [1] * rank
    for value in indices:
        for place, dim in enumerate(value.dims, rank - value.rank):
            if not (is_number(dim) and dim == 1):
                shape[place] = dim
    return tuple(shape)


def _places(node: Node, indices: Sequence[Value], shape: tuple[Size, ...]) -> Value:
    """Return indices of several dims as tuples in a last dim."""
    columns = [node.converted(value, I64) for value in indices]
    columns = [value if value.dims == shape else node.call("expand", value, shape=shape) for value in columns]
    return node.call("stack", *columns, axis=len(shape))


@translates("index_put", "_unsafe_index_put")
def _index_put(node: Node) -> Value:
    given: Any = node.get("indices")
    mask = given[0] if len(given) == 1 and isinstance(given[0], Value) and given[0].dtype is BOOL else None
    values = node.converted(node.tensor("values"), node.dtype)
    if mask is not None:
        return _masked_put(node, mask, values)
    x, indices, axes = _indexed(node)
    if any(not (value.dtype.is_integer) for value in indices):
        node.refuse("indices of another type than integers")
    order = (*axes, *(axis for axis in range(x.rank) if axis not in axes))
    shape = _broadcast(indices)
    moved = node.transposed(x, order)
    # As what the same indices read: neighbours take the place of the first of their dims.
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    rest = moved.dims[len(axes) :]
    wanted = (*rest[:first], *shape, *rest[first:])
    updates = values if values.dims == wanted else node.call("expand", values, shape=wanted)
    places = range(first, first + len(shape))
    updates = node.transposed(updates, (*places, *(axis for axis in range(len(wanted)) if axis not in places)))
    settings = {"reduction": "add"} if node.flag("accumulate") else {}
    made = node.call("scatter_nd", moved, _places(node, indices, shape), updates, **settings)
    back = tuple(order.index(axis) for axis in range(x.rank))
    return node.transposed(made, back)


def _masked_put(node: Node, mask: Value, values: Value) -> Value:
    x = node.tensor()
    if values.rank or node.flag("accumulate"):
        node.refuse("values where a mask is true, other than one number")
    wide = node.reshaped(mask, (*mask.dims, *[1] * (x.rank - mask.rank)))
    return node.call("where", wide, values, x)


@translates("index_copy", "index_add")
def _index_copy(node: Node) -> Value:
    """Slices along a dim replaced, or added to."""
    x, index, axis = node.tensor(), node.tensor("index"), node.axis()
    source = node.tensor("source")
    if node.op == "index_add" and node.get("alpha") not in (None, 1):
        source = node.call("mul", source, node.number(node.real("alpha"), source.dtype))
    order = (axis, *(place for place in range(x.rank) if place != axis))
    places = node.call("unsqueeze", index, axes=(1,))
    settings = {"reduction": "add"} if node.op == "index_add" else {}
    made = node.call("scatter_nd", node.transposed(x, order), places, node.transposed(source, order), **settings)
    return node.transposed(made, tuple(order.index(place) for place in range(x.rank)))


@translates("one_hot")
def _one_hot(node: Node) -> Value:
    x, classes = node.tensor(), node.integer("num_classes")
    if classes < 0:
        node.refuse("num_classes=-1, as many as the greatest index says: give a number")
    return node.emit.typed("one_hot", I64, (*x.dims, classes), x, depth=classes)
