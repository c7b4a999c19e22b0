"""Results that begin to overwrite an operand while the rest of it is still read, as both advance.

A convolution walks its image from the first row to the last. Once a row is read for the last time, rows of the result
may lie there: the result starts a little before its input, instead of in memory of its own (Blacker, Bridges and
Hadfield, "Diagonal Memory Optimisation for Machine Learning on Micro-controllers", arXiv:2010.01668).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.loops import Bind, For, If, Load, Store
from openinfer.plan.accesses import members, operand_reads, reads, walk, writes
from openinfer.plan.programs import loop_program
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.schedule.cost import FULL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.loops import Kernel, Statement
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue
    from openinfer.schedule import Schedule

NEVER = 1 << 60
"""An address that no buffer has."""

DEPTH, MOST_TURNS = 2, 1 << 12
"""Nested loops whose iterations are taken one by one, where there are no more iterations than that."""


def advancing(
    candidates: Sequence[Schedule],
    stage: Stage,
    layouts: Mapping[str, Layout],
    weights_nbytes: int,
    target: TargetInfo,
    *,
    is_full: bool = False,
) -> Schedule:
    """Return the schedule of a fold that visits its result from the first place to the last in the shortest steps.

    An image then is walked from its first row to its last once, instead of once for some channels at a time. Weights
    are read again for every few places: the first schedule is taken where the first cache cannot hold them.

    Args:
        candidates: schedules that take about the same time, the best first.
        is_full: whether the arena is fullest in this step: then parts of its outermost steps are short too.
    """
    best = candidates[0]
    if stage.fold is None or stage.is_sequential or weights_nbytes > FULL * target.l1_nbytes:
        return best
    address = layouts[stage.tensor].address(stage.at)
    if _outermost(best, stage, address) is None:
        return best
    alike = [schedule for schedule in candidates if schedule.lanes == best.lanes and schedule.stream == best.stream]
    outer = [made for made in (_outermost(schedule, stage, address) for schedule in alike) if made is not None]
    return min(outer, key=lambda schedule: _span(schedule, stage, address) if is_full else _step(schedule, address))


def _outermost(schedule: Schedule, stage: Stage, address: Index) -> Schedule | None:
    """Return a schedule with the serial loops outermost that move in the result, the farthest first."""
    inside = () if stage.fold is None else stage.fold.axes
    outer = [loop for loop in schedule.loops if loop.bind is Bind.SERIAL and loop.axis not in inside]
    if any(loop.partial for loop in schedule.loops) or schedule.loops[: len(outer)] != tuple(outer):
        return None
    walked = [loop for loop in outer if not isinstance(loop.axis.extent, int) or loop.axis.extent > loop.step]
    walked.sort(key=lambda loop: (-abs(address.coefficient(loop.axis) or 0), -loop.step))
    return replace(schedule, loops=(*walked, *(loop for loop in schedule.loops if loop not in walked)))


def _step(schedule: Schedule, address: Index) -> int:
    """Return how far the outermost loop moves in the result in one iteration."""
    return next((abs(address.coefficient(loop.axis) or 0) * loop.step for loop in schedule.loops), 0)


def _span(schedule: Schedule, stage: Stage, address: Index) -> int:
    """Return how many elements of the result lie between what is computed and what is finished.

    Outer loops whose iterations follow one another in memory leave the part that one iteration of the last of them
    computes.
    """
    left = {axis: axis.extent if isinstance(axis.extent, int) else 1 for axis in stage.axes}
    nbytes = _reach(address, left)
    for loop in schedule.loops:
        if loop.bind is not Bind.SERIAL or loop.axis not in left:
            break
        left[loop.axis] = loop.step
        inside = _reach(address, left)
        if inside > loop.step * abs(address.coefficient(loop.axis) or 0):
            break
        nbytes = inside
    return nbytes


def _reach(address: Index, left: Mapping[Var, int]) -> int:
    """Return how far places of axes reach in memory."""
    return 1 + sum((count - 1) * abs(address.coefficient(axis) or 0) for axis, count in left.items())


def distances(
    procedures: Sequence[Procedure], liveness: Liveness, values: Sequence[PlanValue], pairs: Collection[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Return for pairs (result, operand) how many bytes after the start of the result the operand must start at least.

    Pairs that must not overlap at all, because a step that reads one needs it afterwards, or because the order of
    accesses is not known, are left out.
    """
    wanted = {value for pair in pairs for value in pair}
    together = dict.fromkeys(wanted, 0)
    meetings: dict[tuple[int, int], list[Step]] = {pair: [] for pair in pairs}
    for procedure in procedures:
        for step in walk(procedure.steps):
            written = writes(step)
            needed = liveness.after(step) | written
            for result in members(written):
                if result not in wanted:
                    continue
                together[result] |= needed
                for operand in members(reads(step) & ~needed):
                    if (operand, result) in meetings:
                        together[result] |= 1 << operand
                    if (result, operand) in meetings:
                        meetings[result, operand].append(step)
    by_pair: dict[tuple[int, int], int] = {}
    for (result, operand), steps in meetings.items():
        if not steps or together[result] >> operand & 1 or together[operand] >> result & 1:
            continue
        if values[result].type.dtype is values[operand].type.dtype:
            for pair, nbytes in _farthest(steps, result, operand):
                by_pair[pair] = max(nbytes, by_pair.get(pair, 0))
    return by_pair


def _farthest(steps: Sequence[Step], result: int, operand: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield for (result, operand) and the other way round how many bytes after the first the second must start."""
    forward, after = zip(*(reach(step, result, operand) for step in steps), strict=True)
    for pair, distances in (((result, operand), forward), ((operand, result), after)):
        bounded = [distance for distance in distances if distance is not None]
        if len(bounded) == len(distances):
            yield pair, max(bounded)


def reach(step: Step, result: int, operand: int) -> tuple[int | None, int | None]:
    """Return how many bytes after the start of a result an operand must start at least, and the other way round.

    Either is enough for every element of the operand to be loaded for the last time before it is stored over. None:
    the order of accesses is not known, the step has no such result, or it runs in the other direction.
    """
    if not isinstance(step, ComputeStep) or result not in step.outputs:
        return None, None
    if any(operand_reads(o) >> operand & 1 for o in step.inputs if not isinstance(o, ValueRef)):
        return None, None
    computation = step.computation
    output = computation.outputs[step.outputs.index(result)].name
    pairs = zip(computation.inputs, step.inputs, strict=True)
    inputs = {tensor.name for tensor, operand_read in pairs if operand_read == ValueRef(operand)}
    if any(computation.tensor(name).dtype.bits % 8 for name in (output, *inputs)):
        return None, None
    mirrored = step.arrangement.backwards
    nbytes = distance(loop_program(step), output, inputs, mirrored=mirrored)
    return (None, nbytes) if mirrored else (nbytes, None)


def distance(kernel: Kernel, output: str, inputs: Collection[str], *, mirrored: bool = False) -> int | None:
    """Return how many bytes after the start of an output some inputs must start at least.

    Then no element of them is stored over before it is loaded for the last time. What one iteration of two nested loops
    does may happen in any order. The distance is negative where the inputs may even start before the output.

    Args:
        mirrored: how many bytes after the start of the inputs the output must start instead.

    Returns:
        None: some address, or the number of some iterations, is not known.
    """
    sizes = {buffer.name: buffer.dtype.bits // 8 for buffer in kernel.buffers if buffer.name in (output, *inputs)}
    turns = [_turns(statement, output, sizes, DEPTH, mirrored=mirrored) for statement in kernel.body]
    if not turns or any(turn is None for turn in turns):
        return None
    stored = np.maximum.accumulate(np.concatenate([turn.stored.ravel() for turn in turns if turn is not None]))
    loaded = np.concatenate([turn.loaded.ravel() for turn in turns if turn is not None])
    left = np.minimum.accumulate(loaded[::-1])[::-1]
    both = (stored > -NEVER) & (left < NEVER)
    return int((stored - left)[both].max()) + 1 if both.any() else None


@dataclass(frozen=True, slots=True)
class _Turns:
    """Of each iteration of nested loops the last byte that is stored to and the first one that is loaded from.

    Mirrored, addresses are negative: the first one that is stored to is the last.
    Both have an axis for each loop around the statement, the outermost first, and one for the iterations within.
    """

    stored: npt.NDArray[np.int64]
    loaded: npt.NDArray[np.int64]


def _turns(
    statement: Statement,
    output: str,
    sizes: Mapping[str, int],
    depth: int,
    around: tuple[Var, ...] = (),
    *,
    mirrored: bool,
) -> _Turns | None:
    """Return the turns of a statement inside of loops; iterations of loops below ``depth`` are one turn.

    Args:
        sizes: bytes of an element of the output and of each input, by name.
    """
    inside = (*around, statement.var) if isinstance(statement, For) and statement.bind is Bind.SERIAL else ()
    if isinstance(statement, For) and inside and depth and _count(inside) <= MOST_TURNS:
        parts = [_turns(inner, output, sizes, depth - 1, inside, mirrored=mirrored) for inner in statement.body]
        bounded = [part for part in parts if part is not None]
        if len(bounded) < len(parts):
            return None
        extents = [_trips(var) for var in around]
        # Statements of one iteration follow one another, then those of the next.
        return _Turns(
            np.concatenate([part.stored for part in bounded], axis=-1).reshape(*extents, -1),
            np.concatenate([part.loaded for part in bounded], axis=-1).reshape(*extents, -1),
        )
    extents = [_trips(var) for var in around]
    stored, loaded = np.full((*extents, 1), -NEVER, np.int64), np.full((*extents, 1), NEVER, np.int64)
    for name, address, is_store in accesses((statement,)):
        if name not in sizes or (name == output) != is_store:
            continue
        bounds = _bounds(address, around)
        if bounds is None:
            return None
        low, high = bounds[0] * sizes[name], (bounds[1] + 1) * sizes[name] - 1
        first, last = (-high, -low) if mirrored else (np.maximum(low, 0), high)
        if is_store:
            stored = np.maximum(stored, last)
        else:
            loaded = np.minimum(loaded, first)
    return _Turns(stored, loaded)


def _count(loops: Sequence[Var]) -> int:
    """Return how many iterations nested loops have; more than `MOST_TURNS` where that is known at run time only."""
    return prod(var.extent if isinstance(var.extent, int) else MOST_TURNS + 1 for var in loops)


def _trips(loop: Var) -> int:
    return loop.extent if isinstance(loop.extent, int) else 0


def _bounds(address: Index, around: Sequence[Var]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return the least and the greatest value of an address in each iteration of loops."""
    slopes = [address.coefficient(var) or 0 for var in around]
    rest = address.substituted({var: Index() for var, slope in zip(around, slopes, strict=True) if slope})
    low, high = rest.interval.low, rest.interval.high
    if low is None or high is None:
        return None
    move = np.zeros((1,), np.int64)
    for dim, (var, slope) in enumerate(zip(around, slopes, strict=True)):
        step = np.arange(_trips(var), dtype=np.int64) * slope
        move = move + step.reshape(-1, *(1 for _ in range(len(around) - dim)))
    return low + move, high + move


def accesses(body: Sequence[Statement]) -> Iterator[tuple[str, Index, bool]]:
    """Yield of statements the buffer and the address of each load and store, and whether it is a store."""
    for statement in body:
        if isinstance(statement, For | If):
            yield from accesses(statement.body)
            continue
        if isinstance(statement, Store):
            yield statement.buffer.name, statement.address, True
        value = getattr(statement, "value", None) or getattr(statement, "refused", None)
        for leaf in () if value is None else value.leaves:
            if isinstance(leaf, Load) and not any(test.is_void for test in leaf.guards):
                yield leaf.buffer.name, leaf.address, False
