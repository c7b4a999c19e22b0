"""What templates of build files say of a plan and its board."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from openinfer_synth_c.board_files import device_text
from openinfer_synth_c.boards import board_of
from openinfer_synth_c.compiler_flags import BARE, compiler_flags, library_flags, portable_flags
from openinfer_synth_c.projects import flags_of, platform_of

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

CONTRACTION = """\
/* A library of Arduino cannot have flags, and results depend on this one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("-ffp-contract=off")
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif"""
"""What keeps a compiler from fusing multiplications and additions where no flag says so."""


def build_context(plan: ExecutionPlan) -> dict[str, object]:
    """Return the flags as build files have them, and the board."""
    board = board_of(plan)
    return {
        "flags": " ".join(compiler_flags(plan)),
        "library_flags": " ".join(library_flags(plan)),
        "library_flag_list": json.dumps(library_flags(plan)),
        "portable_flags": " ".join(portable_flags(plan)),
        "board": board,
        "core_flags": () if board is None else flags_of(plan, board),
        "bare": BARE if board is None else (*BARE, *board.family.flags),
        "platform": platform_of(plan),
        "device": device_text(plan),
    }
