"""The evaluator of definitions for devices: what a device has no kernel of is computed on the host, from its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.compute import Computation
from openinfer.compute.elementwise import array_expression
from openinfer.compute.evaluate import compiled
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.loops.interpret import interpret
from openinfer.packing import pack, unpack
from openinfer.simulate.devices.backend import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.types import TensorType
    from openinfer.loops import Kernel

    Array: TypeAlias = npt.NDArray[Any]
    Evaluate: TypeAlias = Callable[[Sequence[Array], Sequence[Array]], None]

B = TypeVar("B", bound=Buffer)
B_contra = TypeVar("B_contra", bound=Buffer, contravariant=True)


class Accessible(Protocol[B_contra]):
    """A device as far as the evaluator needs it: `DeviceBackend` has both methods."""

    def read(self, buffer: B_contra) -> Array: ...

    def write(self, buffer: B_contra, array: Array) -> None: ...


def bind_evaluator(
    backend: Accessible[B], definition: Computation | Kernel, inputs: Sequence[B], outputs: Sequence[B]
) -> BoundCall:
    """Return a call that reads inputs from a device, evaluates a definition with NumPy, and writes the outputs back.

    It evaluates every definition of every element type, as the specification defines results. Stages are evaluated for
    many elements at once; a loop program is interpreted element by element, which is slow.

    The call raises an `openinfer.errors.OpenInferError`, ``out-of-range``, where it meets an element that is refused;
    outputs are then not written.

    Args:
        backend: its `read` and `write` are called whenever the call is made.
        definition: stages or a loop program, without sizes that are known at run time only.
        inputs: in the order of the definition, with its shapes.
        outputs: likewise. An output may be one of the inputs: all of them are read first.
    """
    evaluate = _stages(definition) if isinstance(definition, Computation) else _loops(definition)

    def run() -> None:
        elements = [_elements(backend.read(buffer), buffer.type) for buffer in inputs]
        results = [np.zeros(buffer.type.shape, storage_dtype(buffer.type.dtype)) for buffer in outputs]
        evaluate(elements, results)
        for buffer, result in zip(outputs, results, strict=True):
            dtype = buffer.type.dtype
            backend.write(buffer, pack(result, dtype) if dtype.is_packed else result)

    return run


def _elements(stored: Array, kind: TensorType) -> Array:
    return unpack(stored, kind.dtype, kind.shape) if kind.dtype.is_packed else stored


def _stages(computation: Computation) -> Evaluate:
    expr = array_expression(computation)
    if expr is not None:
        run = compile_program(linearise(expr))
        return lambda inputs, outputs: run(inputs, outputs[0])
    of_stages = compiled(computation)
    names = [tensor.name for tensor in (*computation.inputs, *computation.outputs)]
    return lambda inputs, outputs: of_stages(dict(zip(names, (*inputs, *outputs), strict=True)), {})


def _loops(kernel: Kernel) -> Evaluate:
    names = [buffer.name for buffer in kernel.buffers]

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        flat = (array.reshape(-1) for array in (*inputs, *outputs))
        interpret(kernel, dict(zip(names, flat, strict=True)))

    return run
