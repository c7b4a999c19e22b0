"""Sizes that a container gives to size variables: the least that operators accept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import ModelImportError, ValidationError
from openinfer.importers.onnx_files.weights import WeightStore
from openinfer.model import Model
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.source import Payload
    from openinfer.ir.graph import Graph
    from openinfer.plugins.environment import Environment


def model_with_sizes(
    graph: Graph, weights: Mapping[str, Payload], sizes: Mapping[str, int], environment: Environment
) -> Model:
    """Return the weights of a program with sizes at which it is legal.

    Raises:
        ModelImportError: the program is not legal at these sizes.
    """
    model = Model(WeightStore(weights, dict(sizes)), "imported")
    try:
        resolve(graph, model, environment=environment)
    except ValidationError as error:
        message = f"the program that was made of the model is not legal: {error}"
        raise ModelImportError(message, code="import-unsupported") from error
    return model
