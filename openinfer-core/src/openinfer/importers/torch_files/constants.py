"""Nodes whose values are known at import, such as masks that depend on constant extents alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from openinfer.importers.onnx_files.evaluating import MOST_FOLDED
from openinfer.importers.torch_files.package import torch_module

if TYPE_CHECKING:
    from collections.abc import Mapping

SHAPE_ONLY = ("full_like", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like")
"""Operators that read the type of their first argument, and perhaps its extents, but no element."""

CONVERSIONS = ("_to_copy", "to", "type_as")
"""Operators that change the element type: weights keep theirs, which may be the smaller one."""


def constants(program: Any, held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nodes that depend on constants alone, by the names of nodes.

    Args:
        held: parameters, buffers that nobody writes, and constants, by the names of their nodes. Large ones stay as
            they are: the container has what the module had.
    """
    torch = torch_module()
    values: dict[str, Any] = {name: value for name, value in held.items() if value.numel() <= MOST_FOLDED}
    computed: dict[str, Any] = {}
    with torch.no_grad():
        for node in program.graph.nodes:
            if node.op != "call_function" or not _is_pure(torch, node):
                continue
            sources = [source.name for source in _read(node)]
            is_weight_in_another_type = _overloaded(node) in CONVERSIONS and any(name in held for name in sources)
            if is_weight_in_another_type or not all(name in values for name in sources):
                continue
            value = _value(torch, node, values)
            if _count(value) <= MOST_FOLDED:
                values[node.name] = computed[node.name] = value
    return computed


def _read(node: Any) -> list[Any]:
    """Return the nodes whose elements a node reads: of some it reads the type and the extents only."""
    is_shape_only = _overloaded(node) in SHAPE_ONLY
    return [source for source in node.all_input_nodes if not (is_shape_only and source is node.args[0])]


def _value(torch: Any, node: Any, values: Mapping[str, Any]) -> Any:
    def held(source: Any) -> Any:
        return values[source.name] if source.name in values else source.meta["val"]

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), held)
    if _overloaded(node) in SHAPE_ONLY:
        made = node.meta["val"]
        args = (torch.empty(made.shape if "like" in _overloaded(node) else 0, dtype=args[0].dtype), *args[1:])
    return node.target(*args, **kwargs)


def _overloaded(node: Any) -> str:
    """Return the name of an operator without its overload."""
    return str(node.target).removeprefix("aten.").partition(".")[0]


def _is_pure(torch: Any, node: Any) -> bool:
    """Whether a node always has the same result for the same arguments, and no other effect."""
    if getattr(node.target, "__name__", "") == "getitem":
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable or not str(node.target).startswith("aten."):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or "empty" in str(node.target):
        return False
    return _is_fixed(node.meta.get("val"))


def _is_fixed(value: Any) -> bool:
    """Whether a result is tensors whose extents are numbers."""
    if isinstance(value, list | tuple):
        return all(map(_is_fixed, cast("list[Any]", value)))
    return hasattr(value, "shape") and all(type(extent) is int for extent in value.shape)


def _count(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(map(_count, cast("list[Any]", value)))
    return int(value.numel()) if hasattr(value, "numel") else MOST_FOLDED + 1
