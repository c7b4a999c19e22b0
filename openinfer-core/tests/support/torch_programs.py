"""Programs of `torch.export` as plain data, made by hand, and what they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openinfer import Simulator
from openinfer.dtypes import BY_NAME
from openinfer.importers import ImportedModel
from openinfer.importers.imported import ImportOptions
from openinfer.importers.onnx_files.elements import array_type
from openinfer.importers.onnx_files.source import Payload, TensorInfo
from openinfer.importers.torch_files.loading import imported
from openinfer.importers.torch_files.source import Argument, Buffer, Operator, Ref, TorchProgram, Weight
from openinfer.importers.torch_files.symbols import Range
from openinfer.plugins.environment import Environment

Dims = Sequence[int | str]


def info(name: str, dtype: str, dims: Dims) -> TensorInfo:
    """Return the type of a tensor."""
    return TensorInfo(name, BY_NAME[dtype], tuple(dims))


def op(op: str, name: str, kind: str, dims: Dims, /, **arguments: Argument) -> Operator:
    """Return an operator of ATen with one result; names as text that starts with % are values of others."""
    read = {key: _read(value) for key, value in arguments.items()}
    return Operator(f"aten.{op}", name, read, (info(name, kind, dims),), "")


def _read(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("%"):
        return Ref(value[1:])
    return tuple(map(_read, value)) if isinstance(value, tuple | list) else value


def integer(op: str, name: str, *arguments: Any) -> Operator:
    """Return a function of integers, such as the extent of a dim."""
    return Operator(op, name, {str(number): _read(value) for number, value in enumerate(arguments)})


def payload(array: Any) -> Payload:
    held = np.asarray(array)
    return Payload(array_type(held), held.shape, lambda: held)


def program(
    operators: Sequence[Operator],
    inputs: Sequence[TensorInfo],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
    buffers: Mapping[str, tuple[Any, str]] | None = None,
    ranges: Mapping[str, Range] | None = None,
) -> TorchProgram:
    """Return a program.

    Args:
        outputs: names of values; each is a result of the same name.
        weights: arrays by their path in the module, under which operators read them with ``_`` in place of dots.
        buffers: array and name of the next value, likewise.
    """
    return TorchProgram(
        name="made",
        producer="hand",
        operators=tuple(operators),
        inputs=tuple(inputs),
        outputs=tuple((name, Ref(name)) for name in outputs),
        weights={name.replace(".", "_"): Weight(name, payload(array)) for name, array in (weights or {}).items()},
        buffers={
            name.replace(".", "_"): Buffer(name, payload(array), Ref(after))
            for name, (array, after) in (buffers or {}).items()
        },
        ranges=ranges or {},
    )


def imported_program(source: TorchProgram, **values: Any) -> ImportedModel:
    """Return a program with its weights; ``values`` fix inputs and sizes."""
    return imported(source, ImportOptions(values=values), Environment.default())


def results(model: ImportedModel, steps: int = 1, **inputs: Any) -> dict[str, Any]:
    """Return what a program computes in the last of so many steps, by the names of the model."""
    with Simulator(model.model, model.graph).make_executor() as executor:
        for _ in range(steps):
            executor.step(**{model.report.inputs[name]: value for name, value in inputs.items()})
        outputs = executor.outputs()
    return {name: np.asarray(outputs[ours]) for name, ours in model.report.outputs.items()}
