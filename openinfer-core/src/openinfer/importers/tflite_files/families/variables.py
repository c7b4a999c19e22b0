"""Resource variables: values that are kept from one inference to the next."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import I32
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node


def _handle(node: Node) -> Value:
    number = node.graph.variables.handle(str(node.option("Container", "")), str(node.option("SharedName", "")))
    shape = tuple(1 if extent is None else extent for extent in node.results[0].dims)
    if any(extent != 1 for extent in shape):
        node.refuse(f"several variables, {list(shape)}")
    return known(np.full(shape, number, np.int32), I32)


def _read(node: Node) -> Value:
    tensor = node.results[0]
    dims = tuple(1 if extent is None else extent for extent in tensor.dims)
    variables = node.graph.variables
    return variables.read(variables.resource(node.numbers(0)[0], tensor.dtype, dims))


def _assign(node: Node) -> Sequence[Value]:
    value = node.given(1)
    node.graph.keep(node, node.graph.variables.resource(node.numbers(0)[0], value.dtype, value.dims), value)
    return ()


def _call_once(node: Node) -> Sequence[Value]:
    """Run the subgraph that gives variables what they hold before the first inference."""
    node.graph.initialise(node.source.subgraphs[0])
    return ()


TRANSLATORS = MappingProxyType(
    {"ASSIGN_VARIABLE": _assign, "CALL_ONCE": _call_once, "READ_VARIABLE": _read, "VAR_HANDLE": _handle}
)
