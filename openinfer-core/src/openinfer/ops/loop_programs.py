"""Calls of operators that are defined by loop programs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.loops import Buffer, Kernel, LoopProgramError, Memory, verify
from openinfer.ops.computations import CallKey
from openinfer.ops.schema import Loops, OpTypeError

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import DefineLoops, OpSchema


def loop_program_of(schema: OpSchema, call: OpCall) -> Kernel:
    """Return the loop program of a call, verified.

    Raises:
        OpTypeError: the operator is not defined by a loop program.
        LoopProgramError: its definition is wrong.
    """
    if not isinstance(schema.definition, Loops):
        raise OpTypeError("is not defined by a loop program", of=schema.name)
    return _defined(schema.definition.define, CallKey(call))


@lru_cache(maxsize=1024)
def _defined(define: DefineLoops, key: CallKey) -> Kernel:
    """Return what a definition says; programs call an operator on the same types again and again."""
    kernel, call = define(key.call), key.call
    types = [given for given in (*call.inputs, *call.outputs) if given is not None]
    if len(kernel.buffers) != len(types) or kernel.parameters:
        found = ", ".join([*(buffer.name for buffer in kernel.buffers), *(var.name for var in kernel.parameters)])
        message = f"its operands are {found or 'none'}, expected {len(types)} buffers: given inputs, then outputs"
        raise LoopProgramError(f"{kernel.name}: {message}")
    for buffer, type_ in zip(kernel.buffers, types, strict=True):
        if (buffer.dtype, buffer.size, buffer.memory) != (type_.dtype, Index.of(type_.count), Memory.GLOBAL):
            message = f"{_text(buffer)} stands for {type_}, which has {type_.count} elements in global memory"
            raise LoopProgramError(f"{kernel.name}: {message}")
    verify(kernel)
    return kernel


def _text(buffer: Buffer) -> str:
    return f"{buffer.name}: {buffer.memory.value}[{buffer.dtype}, {buffer.size}]"
