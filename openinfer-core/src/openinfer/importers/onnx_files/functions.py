"""Functions that a model defines, in place of the nodes that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files import failures
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.function_sizes import check_inlined_size, with_inner
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.translators import translators

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STANDARD = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""


def inlined(proto: Any, name: str) -> tuple[Any, Sequence[str]]:
    """Return a model without functions of its own, and a note for each of those that shadow an operator.

    The package ``onnx`` inlines, but for default values of attributes, which are written into calls before.

    Raises:
        ModelImportError: functions call themselves or are too many, or one is of an opset that cannot be converted.
    """
    if not proto.functions:
        return proto, ()
    check_inlined_size(proto, name)
    notes = list(_shadows(proto))
    whole = type(proto)()
    whole.CopyFrom(proto)
    functions = {_key(function.domain, function.name): function for function in whole.functions}
    for nodes in (whole.graph.node, *(function.node for function in whole.functions)):
        _with_defaults(nodes, functions)
    try:
        return onnx_module("onnx.inliner").inline_local_functions(whole, True), notes
    except failures.of_onnx() as error:
        raise _fault(proto, name, error) from error


def _key(domain: str, name: str) -> tuple[str, str]:
    return "" if domain in STANDARD else domain, name


def _with_defaults(nodes: Any, functions: Mapping[tuple[str, str], Any]) -> None:
    """Write into each call of a function the attributes that it leaves out and that have a default value."""
    for node in with_inner(nodes):
        function = functions.get(_key(node.domain, node.op_type))
        if function is not None:
            written = {attribute.name for attribute in node.attribute}
            node.attribute.extend(a for a in function.attribute_proto if a.name not in written)


def _shadows(proto: Any) -> Iterator[str]:
    """Yield a note for each function that has the name of an operator."""
    onnx = onnx_module()
    for function in proto.functions:
        key = _key(function.domain, function.name)
        if key in translators() or (not key[0] and onnx.defs.has(function.name)):
            yield (
                f"the function {function.name!r} of the model takes the place of the operator of that name, "
                "which ONNX Runtime runs instead"
            )


def _fault(proto: Any, name: str, error: BaseException) -> ModelImportError:
    """Return the error of functions that cannot be inlined, most often since they are of another opset."""
    own, other = (
        {o.version for holder in holders for o in holder.opset_import if o.domain in STANDARD}
        for holders in ([proto], proto.functions)
    )
    if own == other or not own or not other:
        return broken(f"{name}: functions of the model cannot be inlined: {error}")
    versions = " and ".join(map(str, sorted(other)))
    message = f"{name}: functions of the model are of opset {versions}, the model of {max(own)}"
    advice = "export both in one opset"
    return ModelImportError(f"{message}, and onnx cannot convert them ({error}): {advice}", code="import-unsupported")
