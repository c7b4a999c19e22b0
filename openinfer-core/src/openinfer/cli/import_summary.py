"""What `openinfer import` says of a program at the end: its size, its work, and the memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from openinfer.cli.terminal import table
from openinfer.diagnostics import counted
from openinfer.errors import MissingDependencyError, OpenInferError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.importers import ImportedModel, ImportReport
    from openinfer.plan.execution_plan import ExecutionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a plan of a program costs.

    Attributes:
        sizes: values of the sizes that it holds for.
        macs: multiply-accumulates of a step.
        arena_nbytes: bytes of intermediate results.
        state_nbytes: bytes that are kept from step to step.
        devices: devices with memories of their own that are estimated to have room for the program and its weights,
            with the bytes of their memories.
        too_small: such devices without.
    """

    sizes: Mapping[str, int]
    macs: int
    arena_nbytes: int
    state_nbytes: int
    devices: Mapping[str, int]
    too_small: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """The size of a program.

    Attributes:
        parameters: elements of all tensors.
        tensors: tensors of the container.
        weights_nbytes: bytes of all tensors.
        estimate: what a step costs; None where the program cannot be planned.
        unplanned: why it cannot be.
    """

    parameters: int
    tensors: int
    weights_nbytes: int
    estimate: Estimate | None
    unplanned: str = ""


def import_summary(imported: ImportedModel, limits: Mapping[str, int]) -> ImportSummary:
    """Return the size of a program, planned at its limits, and at the least value of sizes without any."""
    tensors = imported.model.tensors.values()
    estimate, unplanned = None, ""
    try:
        estimate = _estimate(imported, limits)
    except OpenInferError as error:
        unplanned = str(error)
    return ImportSummary(
        parameters=sum(prod(tensor.shape) for tensor in tensors),
        tensors=len(tensors),
        weights_nbytes=sum(tensor.nbytes for tensor in tensors),
        estimate=estimate,
        unplanned=unplanned,
    )


def summary_text(summary: ImportSummary, report: ImportReport) -> str:
    """Return the summary and what the import changed as a table."""
    return "\n".join(table(("", ""), list(_rows(summary, report))).splitlines()[1:])


def summary_document(summary: ImportSummary) -> dict[str, Any]:
    """Return the summary as an object of the document of ``--json``."""
    from openinfer.importers.planned import TARGET

    document: dict[str, Any] = {
        "parameters": summary.parameters,
        "tensors": summary.tensors,
        "weights_nbytes": summary.weights_nbytes,
    }
    estimate = summary.estimate
    if estimate is None:
        return {**document, "estimate": None, "unplanned": summary.unplanned}
    return {
        **document,
        "estimate": {
            "target": TARGET,
            "sizes": dict(estimate.sizes),
            "macs": estimate.macs,
            "arena_nbytes": estimate.arena_nbytes,
            "state_nbytes": estimate.state_nbytes,
            "devices": list(estimate.devices),
            "too_small": list(estimate.too_small),
        },
    }


def _rows(summary: ImportSummary, report: ImportReport) -> Iterator[tuple[str, str]]:
    count = f"{summary.parameters:,} in {counted(summary.tensors, 'tensor')}"
    yield "parameters", f"{count}, {summary.weights_nbytes:,} bytes"
    estimate = summary.estimate
    if estimate is None:
        yield "arena", f"unknown: {summary.unplanned}"
    else:
        sizes = ", ".join(f"{name}={size}" for name, size in estimate.sizes.items())
        at = f" at {sizes}" if sizes else ""
        yield "multiply-accumulates", f"{estimate.macs:,}{at}"
        yield "arena", f"{estimate.arena_nbytes:,} bytes{at}"
        if estimate.state_nbytes:
            yield "state", f"{estimate.state_nbytes:,} bytes{at}"
        for name, nbytes in estimate.devices.items():
            used = estimate.arena_nbytes + estimate.state_nbytes
            yield f"room on {name}", f"{used:,} of {nbytes:,} bytes of RAM"
        if estimate.too_small:
            yield "too large for", ", ".join(estimate.too_small)
    folded = [counted(report.folded, "node")] * bool(report.folded)
    folded += [counted(report.norms, "batch norm")] * bool(report.norms)
    folded += [counted(report.channel_constants, "channel constant")] * bool(report.channel_constants)
    yield from [("folded", ", ".join(folded))] * bool(folded)
    yield from [("rolled", f"{report.layers} layers into a loop")] * bool(report.layers)
    names = [f"{number} {op}" for op, number in report.recognised.items()]
    yield from [("recognised", ", ".join(names))] * bool(names)


def _estimate(imported: ImportedModel, limits: Mapping[str, int]) -> Estimate:
    """Return what a step costs.

    Raises:
        OpenInferError: the program cannot be planned, such as for a cache without a limit.
    """
    from openinfer.estimate import estimate
    from openinfer.importers.planned import planned
    from openinfer.plugins.environment import Environment

    plan = planned(imported, limits, Environment.default())
    memories = _memories()
    fitting = {name: sum(banks) for name, (banks, flash) in memories.items() if _fits(plan, banks, flash)}
    return Estimate(
        sizes={**imported.model.sizevars, **limits},
        macs=int(estimate(plan).at(plan.given_sizes).macs),
        arena_nbytes=plan.arena_nbytes,
        state_nbytes=plan.state_nbytes,
        devices=fitting,
        too_small=tuple(name for name in memories if name not in fitting),
    )


def _memories() -> dict[str, tuple[list[int], int]]:
    """Return the bytes of each memory, and of all flash, of the devices whose memories the installed target knows."""
    from openinfer.importers.planned import TARGET
    from openinfer.plugins.environment import Environment
    from openinfer.synth.profiles import profiles

    memories: dict[str, tuple[list[int], int]] = {}
    environment = Environment.default()
    for name, make in profiles(TARGET, environment).items() if TARGET in environment.targets else ():
        try:
            banks = make().memories
        except MissingDependencyError:  # The profile of this machine asks a compiler.
            continue
        if banks:
            flash = sum(bank.nbytes for bank in banks if bank.kind == "flash")
            memories[name] = [bank.nbytes for bank in banks if bank.kind != "flash"], flash
    return memories


def _fits(plan: ExecutionPlan, banks: list[int], flash: int) -> bool:
    """Whether values are estimated to find room: a plan for the device itself may place and fuse in another way."""
    from openinfer.plan.values import ArenaMemory

    largest = max((value.stored.nbytes for value in plan.values if isinstance(value.memory, ArenaMemory)), default=0)
    in_ram = plan.arena_nbytes + plan.state_nbytes
    return in_ram <= sum(banks) and largest <= max(banks) and (not flash or plan.weights_nbytes <= flash)
