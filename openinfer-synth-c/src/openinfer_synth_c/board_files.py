"""What a program needs to run on a board: what runs before ``main``, and where its parts lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.synth.c_text import comment
from openinfer_synth_c.boards import memory_map
from openinfer_synth_c.rendering import render

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer_synth_c.boards import Board

START_NAME, LINKER_NAME = "board.c", "board.ld"
"""Files of a program for a board: what runs before ``main``, and the script of the linker."""

STACK_NBYTES = 2048
"""Least room for the stack after the variables: a step takes some hundred bytes, as its arrays lie in the instance,
and the rest is for the program around it and for interrupts."""


def device_text(plan: ExecutionPlan) -> str:
    """Return the name of a plan's device, as printable ASCII that ends no comment."""
    name = "" if plan.arch is None else plan.arch.name
    return comment(name or "the device")[3:-3]


def board_files(plan: ExecutionPlan, board: Board) -> dict[str, str]:
    """Return the files by name; the script has the memories of the device, at addresses of the emulated board."""
    arch = plan.arch
    context = {
        "device": device_text(plan),
        "board": board,
        "stack": STACK_NBYTES,
        "map": memory_map(board, () if arch is None else arch.memories),
    }
    return {START_NAME: render(board.family.start, {}), LINKER_NAME: render("board.ld.j2", context)}
