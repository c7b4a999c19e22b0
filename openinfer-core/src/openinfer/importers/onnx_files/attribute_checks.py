"""Whether the attributes of a node are those that its operator has."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openinfer.importers.onnx_files.package import onnx_module

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import SourceNode


def attribute_fault(node: SourceNode) -> str | None:
    """Return what is wrong with the types of a node's attributes; None where nothing is, or ONNX has no schema.

    Only types are compared: a whole node cannot be checked by ``onnx``, since large numbers have been left in the file.
    """
    schema = _schema(node.op, node.opset, node.domain)
    if schema is None:
        return None
    for name, wanted in schema.attributes.items():
        if wanted.required and name not in node.attributes:
            return f"the attribute {name} is missing"
    for given in node.proto.attribute:
        wanted = schema.attributes.get(given.name)
        if wanted is not None and given.type != wanted.type.value:
            kinds = onnx_module().AttributeProto.AttributeType
            found = kinds.Name(given.type).lower() if given.type in kinds.values() else str(given.type)
            return f"the attribute {given.name} is of type {found}, expected {wanted.type.name.lower()}"
    return None


@lru_cache(maxsize=512)
def _schema(op: str, opset: int, domain: str) -> Any:
    onnx = onnx_module()
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
