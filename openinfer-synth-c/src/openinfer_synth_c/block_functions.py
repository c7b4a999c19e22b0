"""Blocks of a program as functions of the generated source, of which a long one is in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.synth.c_text import comment
from openinfer_synth_c.compact_text import with_names
from openinfer_synth_c.function_parts import in_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer_synth_c.function_parts import Part
    from openinfer_synth_c.names import Names

_PARAMETERS = {
    "model": "struct model *model",
    "inputs": "const struct model_inputs *inputs",
    "outputs": "const struct model_outputs *outputs",
}
_TASKS = {"tasks": "struct model_task *tasks"}


def block_function(
    names: Names, procedure: str, lines: Sequence[str], tasks: Mapping[str, int], short: Mapping[str, str]
) -> dict[str, object]:
    """Return what the template needs to write the function of a block, and those of its parts before it.

    Args:
        lines: the statements of the block.
        tasks: numbers of the calls that run on threads.
        short: other names for types and functions on vectors.
    """
    parameters = _PARAMETERS | (_TASKS if tasks else {})
    body = [line for text in with_names(lines, short) for line in text.split("\n")]
    left, parts = in_parts(body, tuple(parameters), lambda: names.part_of_block(procedure), of_block=True)
    return {
        "name": names.blocks[procedure],
        "tasks": tasks,
        "comment": comment(f"block {procedure}"),
        "lines": left,
        "parts": [_part(part, parameters, procedure) for part in parts],
    }


def _part(part: Part, parameters: Mapping[str, str], procedure: str) -> dict[str, object]:
    counters = [f"int64_t {name}" for name in part.names if name not in parameters]
    return {
        "name": part.name,
        "comment": comment(f"part of block {procedure}"),
        "parameters": ", ".join((*parameters.values(), *counters)),
        "has_status": part.has_status,
        "parameter_names": list(parameters),
        "lines": part.lines,
    }
