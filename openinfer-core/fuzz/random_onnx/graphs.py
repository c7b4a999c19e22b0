"""An ONNX graph with all that a run of it needs: data, from which the model is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A value that no node writes.

    Attributes:
        is_known: whether it is an initialiser, and not an input of the graph.
    """

    array: Array
    is_known: bool


@dataclass(frozen=True, slots=True, eq=False)
class OnnxGraph:
    """A drawn graph.

    Attributes:
        sources: inputs and initialisers by name.
        outputs: names of values that the graph returns.
        calm: whether floats are small, so that sums of them hardly depend on the order.
    """

    opset: int
    sources: Mapping[str, Source]
    nodes: tuple[onnx.NodeProto, ...]
    outputs: tuple[str, ...]
    calm: bool = True

    def inputs(self) -> dict[str, Array]:
        """Return the values of the inputs."""
        return {name: source.array for name, source in self.sources.items() if not source.is_known}

    def model(self, results: Mapping[str, Array]) -> onnx.ModelProto:
        """Return the model; ``results`` are what nodes write, of which the types of outputs are taken."""
        return model_of(self.opset, self.nodes, self.sources, {name: results[name] for name in self.outputs})

    def text(self) -> str:
        """Return the nodes and what they are run with."""
        lines = [f"opset {self.opset}"]
        for name, source in self.sources.items():
            lines.append(f"{'initializer' if source.is_known else 'input'} {name}: {shown(source.array)}")
        lines += [str(helper.printable_node(node)) for node in self.nodes]
        return "\n".join([*lines, f"outputs {', '.join(self.outputs)}"])


def model_of(
    opset: int, nodes: Iterable[onnx.NodeProto], sources: Mapping[str, Source], outputs: Mapping[str, Array | None]
) -> onnx.ModelProto:
    """Return a model; an output that is None has no type."""
    inputs = [_info(name, source.array) for name, source in sources.items() if not source.is_known]
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(source.array).reshape(source.array.shape), name)
        for name, source in sources.items()
        if source.is_known
    ]
    results = [_info(name, array) for name, array in outputs.items()]
    imports = [helper.make_opsetid("", opset)]
    graph = helper.make_graph(list(nodes), "drawn", inputs, results, tensors)
    return helper.make_model(graph, opset_imports=imports, ir_version=max(helper.find_min_ir_version_for(imports), 4))


def check(model: onnx.ModelProto) -> None:
    """Check a model and infer its shapes; raises what ``onnx`` does where it is not valid."""
    checker: Any = onnx.checker
    checker.check_model(model, full_check=True)


def _info(name: str, array: Array | None) -> onnx.ValueInfoProto:
    if array is None:
        return helper.make_empty_tensor_value_info(name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def fractions(random: np.random.Generator, like: Array) -> Array:
    """Return random numbers from 0 to 1, as many as an array has."""
    return random.random(int(like.size)).reshape(like.shape)


def shown(array: Array) -> str:
    """Return an array as text, its first elements alone."""
    values = array.reshape(-1)[:32].tolist()
    more = ", ..." if array.size > 32 else ""
    return f"{array.dtype}{list(array.shape)} [{', '.join(map(str, values))}{more}]"
