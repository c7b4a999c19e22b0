"""OpenInfer as a backend of ONNX (`onnx.backend.base.Backend`), so that ONNX's own tests run against the importer.

An input whose value the importer has to know, such as a shape, is fixed when the model runs: the model is imported for
that value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from onnx.backend.base import Backend, BackendRep

from openinfer.array_types import storage_dtype
from openinfer.errors import ModelImportError
from openinfer.importers.imported import ImportOptions
from openinfer.importers.onnx_files.elements import stored_form
from openinfer.importers.onnx_files.loading import imported
from openinfer.importers.onnx_files.reading import model_of
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx

    from openinfer.importers.imported import ImportedModel
    from openinfer.importers.onnx_files.source import Array, SourceModel

DEVICES = {"CPU": "cpu"}
"""Devices of OpenInfer by the names of ONNX."""


class PreparedModel(BackendRep):
    """A model that is ready to run."""

    def __init__(self, source: SourceModel, device: str, environment: Environment) -> None:
        """Import a model.

        Raises:
            ModelImportError: it cannot be imported, whatever the values of its inputs.
        """
        self._source = source
        self._device = device
        self._environment = environment
        self._fixed: tuple[str, ...] = ()
        self._imported: ImportedModel | None = None
        try:
            self._imported = self._import({})
        except ModelImportError as error:
            if not error.inputs:
                raise
            self._fixed = error.inputs

    def _import(self, values: Mapping[str, Array]) -> ImportedModel:
        return imported(self._source, ImportOptions(values=values, feeds={}), self._environment)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Return the outputs for inputs in the order of the model, or by name.

        Raises:
            ModelImportError: the model cannot be imported for these values.
            ExecutionError: a step failed.
        """
        names = [info.name for info in self._source.graph.inputs]
        by_name = isinstance(inputs, dict)
        given = cast("dict[str, Any]", inputs) if by_name else dict(zip(names, inputs, strict=False))
        found = self._for_values(given)
        sizes = found.model.sizevars
        simulator = Simulator(found.model, found.graph, device=self._device, environment=self._environment, sizes=sizes)
        with simulator.make_executor() as executor:
            types = {name: declared.dtype for name, declared in found.graph.vars.items()}
            for name, ours in found.report.inputs.items():
                executor.insert({ours: stored_form(np.asarray(given[name]), types[ours])})
            executor.step()
            results = executor.outputs()
            outputs = found.report.outputs.values()
            return tuple(np.asarray(results[name], storage_dtype(executor.result(name).dtype)) for name in outputs)

    def _for_values(self, given: Mapping[str, Any]) -> ImportedModel:
        """Return the program for these inputs; inputs whose values the importer needs are fixed one after another."""
        if self._imported is not None:
            return self._imported
        fixed = self._fixed
        while True:
            try:
                return self._import({name: given[name] for name in fixed})
            except ModelImportError as error:
                if not set(error.inputs) - set(fixed):
                    raise
                fixed = (*fixed, *error.inputs)


class OpenInferBackend(Backend):
    """The backend."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Import a model.

        Raises:
            ModelImportError: it cannot be imported.
        """
        environment = kwargs.get("environment") or Environment.default()
        return PreparedModel(model_of(model, None, model.graph.name), DEVICES.get(device, device), environment)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Sequence[Any], device: str = "CPU", **kwargs: Any) -> Any:
        """Import a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device of ONNX, or of OpenInfer, is there."""
        name = device.partition(":")[0]
        return DEVICES.get(name, name) in Environment.default().devices


prepare = OpenInferBackend.prepare
run_model = OpenInferBackend.run_model
supports_device = OpenInferBackend.supports_device
