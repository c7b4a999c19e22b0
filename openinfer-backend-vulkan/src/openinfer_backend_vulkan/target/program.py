"""A plan written out: its blocks, segments and kernels, before they are put into files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.accesses import walk
from openinfer.plan.steps import ReturnStep
from openinfer_backend_vulkan.target.blocks import BlockWriter
from openinfer_backend_vulkan.target.host_names import HostNames
from openinfer_backend_vulkan.target.kernel_files import KernelFiles
from openinfer_backend_vulkan.target.kernel_writer import Program
from openinfer_backend_vulkan.target.places import Places

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Procedure
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget
    from openinfer_backend_vulkan.target.blocks import Block, Segment

RESET, FETCH = "block_of_reset", "block_of_results"
"""Functions that no block of a program is called like."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a plan becomes.

    Attributes:
        entry: function that runs a step; ``fetch``: one that fetches its results, "" where entry does; ``reset``: one
            that gives states their initial values, "" for none.
        index_functions: functions that integer expressions call.
        may_fail: whether a kernel has a test that can fail.
    """

    program: Program
    blocks: tuple[Block, ...]
    segments: tuple[Segment, ...]
    entry: str
    fetch: str
    reset: str
    index_functions: frozenset[str]
    numbers_nbytes: int
    may_fail: bool


def written(plan: ExecutionPlan, target: ShaderTarget) -> Written:
    """Return a plan as blocks of C, segments of commands, and kernels.

    Raises:
        SynthesisError: a step has no form in GLSL or C; the message names the line.
    """
    places = Places(plan)
    names = HostNames(plan, places)
    largest = None if plan.arch is None else plan.arch.limits.max_storage_buffer_range_bytes
    program = Program(plan, places, names, KernelFiles(), target, largest)
    writer = BlockWriter(program)
    blocks: list[Block] = []
    reset = RESET if plan.reset else ""
    if reset:
        blocks.append(writer.block(reset, "initial values", plan.reset))
    *others, entry = plan.procedures
    blocks += [writer.block(names.blocks[p.name], f"block {p.name}", p.steps) for p in others]
    returns = _returns_early(entry)
    blocks.append(
        writer.block(names.blocks[entry.name], f"block {entry.name}", entry.steps, uploads=True, downloads=not returns)
    )
    if returns:
        blocks.append(writer.block(FETCH, "results", (), downloads=True))
    return Written(
        program=program,
        blocks=tuple(blocks),
        segments=tuple(writer.segments),
        entry=names.blocks[entry.name],
        fetch=FETCH if returns else "",
        reset=reset,
        index_functions=frozenset(writer.index_functions),
        numbers_nbytes=writer.numbers_nbytes,
        may_fail=writer.may_fail,
    )


def _returns_early(entry: Procedure) -> bool:
    steps = list(walk(entry.steps))
    return any(isinstance(step, ReturnStep) for step in steps if step is not entry.steps[-1])
