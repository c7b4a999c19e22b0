"""Outputs that are inputs in the next step: they become persistent memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import ModelImportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.values import Program, Value

ENDINGS = ("n", "N", "_n", "_out", "_next")
"""What the name of an output has behind that of the input that it is in the next step."""


def with_states(program: Program, feeds: Mapping[str, str] | None) -> None:
    """Take inputs and outputs that carry state out of a program's own.

    Args:
        feeds: output name to input name; None for the pairs that names imply.

    Raises:
        ModelImportError: there is no such output or input, or their types differ.
    """
    inputs = {value.name: value for value in program.inputs}
    outputs = dict(program.outputs)
    pairs = _by_names(inputs, outputs) if feeds is None else dict(feeds)
    for name in pairs.values():
        if list(pairs.values()).count(name) > 1:
            fed = ", ".join(repr(output) for output, given in pairs.items() if given == name)
            raise ModelImportError(f"the outputs {fed} are all fed to {name!r}: expected one", code="import-value")
    for output, name in pairs.items():
        if output not in outputs or name not in inputs:
            listed = f"outputs {', '.join(outputs)}; inputs {', '.join(inputs)}"
            raise ModelImportError(f"cannot feed {output!r} to {name!r}; there are: {listed}", code="import-value")
        if not _fits(inputs[name], outputs[output]):
            message = f"output {output!r} and input {name!r} have different types: a state keeps its shape"
            raise ModelImportError(message, code="import-value")
        program.states.append((inputs[name], output, outputs[output]))
    taken = set(pairs.values())
    program.inputs = [value for value in program.inputs if value.name not in taken]


def _by_names(inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in inputs.items():
        for ending in ENDINGS:
            next_value = outputs.get(name + ending)
            if next_value is not None and _fits(value, next_value):
                found.setdefault(name + ending, name)
                break
    # A program without inputs is nobody's model: what is left then is an input with a result of a similar name.
    return found if len(found) < len(inputs) else {}


def _fits(before: Value, after: Value) -> bool:
    return before.dtype is after.dtype and before.dims == after.dims
