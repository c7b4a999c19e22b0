"""Programs without an operating system: built by a cross compiler, run on a board that QEMU emulates, and measured."""

from __future__ import annotations

import re
import shutil
import struct
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import SynthesisError
from openinfer.plan.places import ALIGNMENT
from openinfer.synth.arrays import file_form, from_bytes
from openinfer.synth.c_host.ports import items
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.synth.target import BoardRun, MemoryUse, RunResult
from openinfer_synth_c.compiler_flags import BARE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanOutput
    from openinfer.synth.target import Array
    from openinfer_synth_c.boards import Board, Family
    from openinfer_synth_c.instance import Instance

_SECTION = re.compile(r"^ (\.[^\s(]+)(?:\n)?\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)
"""A line of a map file, or two: a section, its size, and the file that it is from."""

_WRITABLE = (".data", ".bss", ".sdata", ".sbss")
_CODE = (".text",)
_CONSTANT = (".rodata", ".srodata")

OBJECT = "model.o"
"""The object of the model, whatever its prefix."""


def missing_tool(family: Family) -> str | None:
    """Return the first tool of a family of boards, or the C library, that is not installed; None: all are."""
    tools = (family.compiler, f"{family.prefix}size", family.emulator)
    missing = next((tool for tool in tools if shutil.which(tool) is None), None)
    return _missing_library(family) if missing is None else missing


def _missing_library(family: Family) -> str | None:
    """Return the C library, which Debian has in packages of its own, if the compiler does not find its specs."""
    names = (
        flag.removeprefix("--specs=") for flag in (*family.flags, *family.libraries) if flag.startswith("--specs=")
    )
    for name in names:
        asked = [family.compiler, f"-print-file-name={name}"]
        # The compiler prints the path of a file that it finds, and the bare name of another.
        if run_tool(asked, Path.cwd(), 20.0, "the cross compiler").strip() == name:
            return f"the C library of {family.compiler} ({name})"
    return None


def build(
    board: Board, flags: Sequence[str], directory: Path, prefix: str, *, sources: Sequence[str], timeout: float
) -> None:
    """Build ``measured.elf`` and its map from the files in a directory.

    Args:
        flags: of the bundle; the program around the model is compiled without its warnings.

    Raises:
        SynthesisError: the compiler or the linker failed; what does not fit the memories is an error of the linker.
    """
    compiler, base = board.family.compiler, [*flags, *board.family.flags, *BARE]
    run_tool([compiler, *base, "-c", "-o", OBJECT, f"{prefix}.c"], directory, timeout, "the cross compiler")
    linked = ["-T", "board.ld", "-nostartfiles", *board.family.libraries, "-Wl,--gc-sections", "-Wl,-Map=measured.map"]
    plain = [flag for flag in base if not flag.startswith("-W")]
    arguments = [compiler, *plain, *linked, "-o", "measured.elf", *sources, OBJECT, "-lm"]
    hint = (
        "the program has to fit the memories of the device, with the caller's inputs and results, and the stack; "
        f"QEMU's board {board.machine.split()[0]} has {board.code[1]:,} bytes for code and weights"
    )
    run_tool(arguments, directory, timeout, "the cross compiler", hint)


def run(
    plan: ExecutionPlan,
    board: Board,
    instance: Instance,
    directory: Path,
    inputs: Mapping[str, Array],
    steps: int | None,
    initial: Mapping[str, Array],
    timeout: float,
) -> RunResult:
    """Run ``measured.elf`` in a directory and return its results and what was measured.

    Raises:
        SynthesisError: it fails, takes too long, or the linker placed what the plan does not have.
    """
    turns = 1 if steps is None else steps
    _write_inputs(plan, directory, inputs, steps, initial, turns)
    said = run_tool([*board.command, "measured.elf"], directory, timeout, "the program on the emulated board")
    report = (directory / "report.bin").read_bytes()
    counts = struct.unpack(f"<{len(report) // 8}Q", report)
    if counts[0] != turns:
        raise SynthesisError(f"the program on the emulated board ran {counts[0]} steps of {turns}: {said.strip()}")
    outputs = {port.name: _output(directory / f"output{n}.bin", port, steps) for n, port in enumerate(plan.outputs)}
    measured = BoardRun(
        board=f"QEMU {board.machine.split()[0]} ({board.core})",
        compiler=_compiler(board, directory),
        instructions=board.tick * counts[1] / turns,
        stack_nbytes=counts[2],
        memories=_memories(plan, instance, directory),
        code_nbytes=_linked((directory / "measured.map").read_text(encoding="utf-8", errors="replace"), _CODE),
        steps={number: board.tick * ticks / turns for number, ticks in enumerate(counts[3:]) if ticks},
    )
    return RunResult(outputs, float("nan"), measured)


def _compiler(board: Board, directory: Path) -> str:
    version = run_tool([board.family.compiler, "-dumpfullversion"], directory, 20.0, "the cross compiler")
    return f"{board.family.compiler} {version.strip()}"


def _write_inputs(
    plan: ExecutionPlan,
    directory: Path,
    inputs: Mapping[str, Array],
    steps: int | None,
    initial: Mapping[str, Array],
    turns: int,
) -> None:
    sizes = {register.number: register.most for register in plan.registers if register.size is not None}
    counts: list[int] = []
    for number, port in enumerate(plan.inputs):
        if port.name not in inputs:
            counts.append(0)
            continue
        array = inputs[port.name]
        data = file_form(array, port.type, steps)
        (directory / f"input{number}.bin").write_bytes(data.tobytes())
        counts.append(items(port.type) if port.type.dtype.is_packed else data.size // turns)
        shape = array.shape[array.ndim - len(port.type.shape) :]
        for extent, wanted in zip(shape, port.extents or (), strict=False):
            if not isinstance(wanted, int) and wanted.number in sizes:
                sizes[wanted.number] = extent
    for number, state in enumerate(plan.states):
        if state.name in initial:
            data = file_form(initial[state.name], state.type, None)
            (directory / f"initial{number}.bin").write_bytes(data.tobytes())
    words = (turns, *sizes.values(), *counts)
    (directory / "sizes.bin").write_bytes(struct.pack(f"<{len(words)}I", *words))


def _output(file: Path, port: PlanOutput, steps: int | None) -> Array:
    data = file.read_bytes()
    if port.extents is None:
        return from_bytes(data, port.type, steps)
    rank, width = len(port.type.shape), max(port.type.dtype.bits // 8, 1)
    arrays: list[Array] = []
    while data:
        shape = struct.unpack_from(f"<{rank}I", data)
        end = 4 * rank + width * prod(shape)
        arrays.append(from_bytes(data[4 * rank : end], type(port.type)(port.type.dtype, shape), None))
        data = data[end:]
    if steps is None:
        return arrays[0]
    stacked = np.empty(steps, dtype=object)
    stacked[:] = arrays
    return stacked


def _linked(text: str, prefixes: Sequence[str], name: str = "") -> int:
    """Return the bytes that a map file has of sections of the model's object."""
    kept = text.partition("Linker script and memory map")[2]
    return sum(
        int(size, 16)
        for section, size, file in _SECTION.findall(kept)
        if file == OBJECT and section.startswith(tuple(f"{prefix}{name}" for prefix in prefixes))
    )


def _memories(plan: ExecutionPlan, instance: Instance, directory: Path) -> tuple[MemoryUse, ...]:
    """Compare what the linker placed with the plan.

    Raises:
        SynthesisError: the model has variables of its own, or an array has another size.
    """
    text = (directory / "measured.map").read_text(encoding="utf-8", errors="replace")
    hidden = _linked(text, _WRITABLE)
    if hidden:
        raise SynthesisError(f"the linker placed {hidden} bytes of variables of the model, which has none by the plan")
    banks = dict[str, int]()
    for memory in instance.memories:
        banks[memory.bank] = banks.get(memory.bank, 0) + memory.nbytes
    planned = {bank.name: bank.arena_nbytes + bank.states_nbytes for bank in plan.banks}
    sections = dict.fromkeys(banks, 0)
    for section, size, _ in _SECTION.findall(text.partition("Linker script and memory map")[2]):
        name = section.removeprefix(".bss.")
        if name in sections:
            sections[name] += int(size, 16)
    rows = [MemoryUse(name=name, planned_nbytes=planned[name], linked_nbytes=sections[name]) for name in banks]
    symbol = re.search(r"^ \.bss\.model\s+0x[0-9a-f]+\s+0x([0-9a-f]+)", text, re.MULTILINE)
    linked = instance.nbytes if symbol is None else int(symbol[1], 16)
    rows.append(MemoryUse(name="struct", planned_nbytes=instance.nbytes, linked_nbytes=linked))
    weights = _linked(text, _CONSTANT, ".w_")
    rows.append(MemoryUse(name="weights", planned_nbytes=plan.weights_nbytes, linked_nbytes=weights))
    for row in rows[:-1]:
        # Arrays of one memory begin at multiples of the alignment.
        if not 0 <= row.linked_nbytes - row.planned_nbytes < ALIGNMENT * len(instance.memories) + 1:
            message = f"the linker placed {row.linked_nbytes} bytes in {row.name}, the plan has {row.planned_nbytes}"
            raise SynthesisError(message)
    return tuple(rows)
