"""Outputs that are inputs in the next step: they become persistent memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.caches import Growth, growth, pairs_by_names, with_caches
from openinfer.importers.onnx_files.copies import Copies

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from openinfer.importers.onnx_files.values import Program, Value

ENDINGS = ("n", "N", "_n", "_out", "_next")
"""Suffixes: an output that is the name of an input and one of these is that input in the next step."""


def with_states(program: Program, feeds: Mapping[str, str] | None, kept_inputs: Collection[str] = ()) -> None:
    """Take inputs and outputs that carry state out of a program's own.

    An output that is a copy of an input is not a state: it would never change.

    Args:
        feeds: output name to input name; None for the pairs that names imply.
        kept_inputs: inputs that stay inputs, although names imply that outputs are fed to them.

    Raises:
        ModelImportError: there is no such output or input, their types differ, or the output is a copy of the input.
    """
    inputs = {value.name: value for value in program.inputs}
    outputs = dict(program.outputs)
    copies = Copies(program)
    if feeds is None:
        implied = _by_names(inputs, outputs)
        _need_implied(kept_inputs, implied, inputs)
        pairs = {
            output: name
            for output, name in implied.items()
            if name not in kept_inputs and not copies.is_copy(outputs[output], inputs[name])
        }
    else:
        pairs = dict(feeds)
    for name in pairs.values():
        if list(pairs.values()).count(name) > 1:
            fed = ", ".join(repr(output) for output, given in pairs.items() if given == name)
            raise ModelImportError(f"the outputs {fed} are all fed to {name!r}: expected one", code="import-value")
    growing: list[Growth] = []
    for output, name in pairs.items():
        if output not in outputs or name not in inputs:
            listed = f"outputs {', '.join(outputs)}; inputs {', '.join(inputs)}"
            raise ModelImportError(f"cannot feed {output!r} to {name!r}; there are: {listed}", code="import-value")
        if copies.is_copy(outputs[output], inputs[name]):
            message = f"output {output!r} is a copy of input {name!r}, so that a state of the two would never change"
            raise ModelImportError(f"{message}: leave out --feed {output}={name}", code="import-value")
        grown = growth(program, inputs[name], output, outputs[output])
        if grown is not None:
            growing.append(grown)
        elif _fits(inputs[name], outputs[output]):
            program.states.append((inputs[name], output, outputs[output]))
        elif feeds is not None:
            message = f"output {output!r} and input {name!r} have different types"
            reason = "a state keeps its shape, and a cache grows along one dim by a Concat after the input"
            raise ModelImportError(f"{message}: {reason}", code="import-value")
    taken = {value.name for value, _, _ in program.states}
    program.inputs = [value for value in program.inputs if value.name not in taken]
    left = with_caches(program, growing)
    if left and feeds is not None:
        each = left[0]
        message = f"the caches that are as long as {each.before.name!r} cannot all be kept: another input has the size"
        raise ModelImportError(f"{message} {each.length!r} too, or they grow differently", code="import-value")


def _need_implied(kept: Collection[str], implied: Mapping[str, str], inputs: Mapping[str, Value]) -> None:
    """Refuse names of inputs that would not become states."""
    listed = ", ".join(implied.values()) or "none"
    for name in kept:
        if name not in implied.values():
            problem = "stays an input anyway" if name in inputs else "is not an input"
            message = f"{name!r} {problem}; inputs that are states by their names: {listed}"
            raise ModelImportError(message, code="import-value")


def _by_names(inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> dict[str, str]:
    found = pairs_by_names(inputs, outputs)
    for name, value in inputs.items():
        if name in found.values():
            continue
        for ending in ENDINGS:
            next_value = outputs.get(name + ending)
            if next_value is not None and (_fits(value, next_value) or value.rank == next_value.rank):
                found.setdefault(name + ending, name)
                break
    # A program without inputs is nobody's model: what is left then is an input with a result of a similar name.
    return found if len(found) < len(inputs) else {}


def _fits(before: Value, after: Value) -> bool:
    return before.dtype is after.dtype and before.dims == after.dims
