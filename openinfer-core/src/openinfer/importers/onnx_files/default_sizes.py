"""Sizes that a container gives to size variables: 1 where the program is legal so."""

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
    graph: Graph, weights: Mapping[str, Payload], tried: Mapping[str, int], environment: Environment
) -> Model:
    """Return the weights of a program with sizes at which it is legal: all 1, or those at which shapes were tried.

    Raises:
        ModelImportError: the program is not legal at either.
    """
    choices = [dict.fromkeys(tried, 1), dict(tried)] if tried else [dict[str, int]()]
    for number, sizes in enumerate(choices, start=1):
        model = Model(WeightStore(weights, sizes), "imported")
        try:
            resolve(graph, model, environment=environment)
        except ValidationError as error:
            if number == len(choices):
                message = f"the program that was made of the model is not legal: {error}"
                raise ModelImportError(message, code="import-unsupported") from error
            continue
        return model
    raise AssertionError
