"""Operators that ONNX defines by functions of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.importers.onnx_files.elements import number_of
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.source import SourceGraph


def expanded(node: Node, opsets: Mapping[str, int]) -> SourceGraph | None:
    """Return the body of the function that defines a node; None where ONNX defines it otherwise."""
    onnx = onnx_module()
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, node.source.domain)
    except onnx.defs.SchemaError:
        return None
    body = _body(onnx, schema, node)
    if body is None:
        return None
    from openinfer.importers.onnx_files.reading import model_of

    model = _as_model(onnx, schema, body, node, opsets)
    return model_of(model, None, node.op).graph


def _body(onnx: Any, schema: Any, node: Node) -> Any:
    versions = [version for version in schema.function_opset_versions if version <= node.opset]
    if versions:
        return schema.get_function_with_opset_version(max(versions))
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    if not dependent:
        return None
    types = [_type(onnx, value).SerializeToString() if value is not None else b"" for value in node.inputs]
    proto = node.source.proto.SerializeToString()
    made = schema.get_context_dependent_function_with_opset_version(max(dependent), proto, types)
    function = onnx.FunctionProto()
    function.ParseFromString(made)
    return function


def _type(onnx: Any, value: Any) -> Any:
    shape = [dim if is_number(dim) else None for dim in value.dims]
    return onnx.helper.make_tensor_type_proto(number_of(onnx, value.dtype), shape)


def _as_model(onnx: Any, schema: Any, body: Any, node: Node, opsets: Mapping[str, int]) -> Any:
    """Return a model that calls a function on the inputs of a node, inlined."""
    function = onnx.FunctionProto()
    if isinstance(body, bytes):
        function.ParseFromString(body)
    else:
        function.CopyFrom(body)
    function.domain, function.name = "openinfer.function", node.op
    names = [f"in{position}" if value is not None else "" for position, value in enumerate(node.inputs)]
    results = [f"out{position}" if name else "" for position, name in enumerate(node.source.outputs)]
    call = onnx.NodeProto(op_type=node.op, domain="openinfer.function", input=names, output=results)
    call.attribute.extend(node.source.proto.attribute)
    given = {attribute.name for attribute in call.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name and name in function.attribute:
            call.attribute.append(attribute.default_value)
    infos = [
        onnx.helper.make_tensor_value_info(name, number_of(onnx, value.dtype), None) if value is not None else None
        for name, value in zip(names, node.inputs, strict=True)
    ]
    graph = onnx.helper.make_graph(
        [call],
        node.op,
        [info for info in infos if info is not None],
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in results if name],
    )
    versions = {o.domain: o.version for o in function.opset_import} or dict(opsets)
    # Definitions in other domains than ONNX's own say nothing of its version: they are written in the newest.
    versions.setdefault("", onnx.defs.onnx_opset_version())
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]
    imports.append(onnx.helper.make_opsetid("openinfer.function", 1))
    return onnx.helper.make_model(graph, opset_imports=imports, functions=[function])
