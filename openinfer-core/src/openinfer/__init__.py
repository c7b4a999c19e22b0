"""Inference written down explicitly: language, graph, simulator and synthesizer front end.

Importing this package imports none of its parts: a public name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer.arch import DeviceArch, DeviceCustom
    from openinfer.batch import run_batch
    from openinfer.dsl import load_graph
    from openinfer.dsl.builder import GraphBuilder
    from openinfer.errors import (
        CacheIndexError,
        CacheLimitError,
        CalibrationError,
        DeadlockError,
        DepthError,
        DeviceError,
        DslSyntaxError,
        DTypeError,
        DynamicUnsetError,
        ExecutionError,
        FeatureMissingError,
        GraphError,
        KernelMissingError,
        MissingDependencyError,
        ModelError,
        ModelImportError,
        OpenInferError,
        PluginError,
        PluginStepError,
        RaceError,
        SerializationError,
        ShapeError,
        StepStateError,
        SynthesisError,
        UnsupportedError,
        ValidationError,
    )
    from openinfer.ir.graph import Graph
    from openinfer.model import Model, ModelLoader
    from openinfer.plugins.environment import Environment
    from openinfer.programs import graph
    from openinfer.serialize import GraphDeserialize, GraphSerialize, trace_to_json, trace_to_perfetto
    from openinfer.simulate import Device, Executor, Random, Simulator, format_truncated
    from openinfer.synth import Synthesizer

__version__ = "0.2.0"

__all__ = [
    "CacheIndexError",
    "CacheLimitError",
    "CalibrationError",
    "DTypeError",
    "DeadlockError",
    "DepthError",
    "Device",
    "DeviceArch",
    "DeviceCustom",
    "DeviceError",
    "DslSyntaxError",
    "DynamicUnsetError",
    "Environment",
    "ExecutionError",
    "Executor",
    "FeatureMissingError",
    "Graph",
    "GraphBuilder",
    "GraphDeserialize",
    "GraphError",
    "GraphSerialize",
    "KernelMissingError",
    "MissingDependencyError",
    "Model",
    "ModelError",
    "ModelImportError",
    "ModelLoader",
    "OpenInferError",
    "PluginError",
    "PluginStepError",
    "RaceError",
    "Random",
    "SerializationError",
    "ShapeError",
    "Simulator",
    "StepStateError",
    "SynthesisError",
    "Synthesizer",
    "UnsupportedError",
    "ValidationError",
    "__version__",
    "format_truncated",
    "graph",
    "load_graph",
    "run_batch",
    "trace_to_json",
    "trace_to_perfetto",
]

_MODULES = {
    "CacheIndexError": "openinfer.errors",
    "CacheLimitError": "openinfer.errors",
    "CalibrationError": "openinfer.errors",
    "DTypeError": "openinfer.errors",
    "DeadlockError": "openinfer.errors",
    "DepthError": "openinfer.errors",
    "Device": "openinfer.simulate",
    "DeviceArch": "openinfer.arch",
    "DeviceCustom": "openinfer.arch",
    "DeviceError": "openinfer.errors",
    "DslSyntaxError": "openinfer.errors",
    "DynamicUnsetError": "openinfer.errors",
    "Environment": "openinfer.plugins.environment",
    "ExecutionError": "openinfer.errors",
    "Executor": "openinfer.simulate",
    "FeatureMissingError": "openinfer.errors",
    "Graph": "openinfer.ir.graph",
    "GraphBuilder": "openinfer.dsl.builder",
    "GraphDeserialize": "openinfer.serialize",
    "GraphError": "openinfer.errors",
    "GraphSerialize": "openinfer.serialize",
    "KernelMissingError": "openinfer.errors",
    "MissingDependencyError": "openinfer.errors",
    "Model": "openinfer.model",
    "ModelError": "openinfer.errors",
    "ModelImportError": "openinfer.errors",
    "ModelLoader": "openinfer.model",
    "OpenInferError": "openinfer.errors",
    "PluginError": "openinfer.errors",
    "PluginStepError": "openinfer.errors",
    "RaceError": "openinfer.errors",
    "Random": "openinfer.simulate",
    "SerializationError": "openinfer.errors",
    "ShapeError": "openinfer.errors",
    "Simulator": "openinfer.simulate",
    "StepStateError": "openinfer.errors",
    "SynthesisError": "openinfer.errors",
    "Synthesizer": "openinfer.synth",
    "UnsupportedError": "openinfer.errors",
    "ValidationError": "openinfer.errors",
    "format_truncated": "openinfer.simulate",
    "graph": "openinfer.programs",
    "load_graph": "openinfer.dsl",
    "run_batch": "openinfer.batch",
    "trace_to_json": "openinfer.serialize",
    "trace_to_perfetto": "openinfer.serialize",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
