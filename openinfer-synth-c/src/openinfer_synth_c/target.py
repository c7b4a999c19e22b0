"""The synth target c: bundles of C99 source, compiled and run with the system's compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.errors import MissingDependencyError, SynthesisError
from openinfer.plan.parallel import has_threads
from openinfer.plan.report import numbered_steps
from openinfer.plan.steps import CallStep, LoopStep
from openinfer.scratch import scratch_directory
from openinfer.synth.arrays import given_arrays, initial_arrays
from openinfer.synth.c_host.blob import OBJECT_NAME
from openinfer.synth.c_host.running import run_program
from openinfer.synth.c_host.toolchain import compiler_command, run_tool
from openinfer_synth_c.board_files import START_NAME
from openinfer_synth_c.boards import board_of
from openinfer_synth_c.compiler_flags import compiler_flags
from openinfer_synth_c.emulation import build, missing_tool, run
from openinfer_synth_c.frama_c import prove
from openinfer_synth_c.project import MEASURED_NAME, PROGRAM_NAME, bundle_of, measured_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.bundle import Bundle
    from openinfer.synth.proof import Proof
    from openinfer.synth.target import Array, RunResult
    from openinfer_synth_c.boards import Board


class CTarget:
    """Writes plans out as C99; see `openinfer.synth.SynthTarget`."""

    epilogues = True
    overlaps = True
    banks = True
    arrangements = True
    options = frozenset({"prefix", "project", "weights", "io", "threads"})

    def emit(self, plan: ExecutionPlan) -> Bundle:
        """Return the source files; equal plans give equal bytes."""
        return bundle_of(plan)

    def prove(self, plan: ExecutionPlan, *, timeout: float = 60.0) -> tuple[Proof, Bundle]:
        """Return what Frama-C says of a plan's program, and the bundle that records it.

        Raises:
            SynthesisError: it has threads, which the analyser does not follow.
        """
        if has_threads(plan.procedures):
            raise SynthesisError("the analyser does not follow threads: prove the program without them")
        proof = prove(plan, timeout=timeout)
        return proof, bundle_of(plan, proof)

    def profile(self, plan: ExecutionPlan, inputs: Mapping[str, Array], *, timeout: float = 60.0) -> RunResult:
        """Return what one step yields on the emulated board of the device, with the instructions of each step.

        Raises:
            MissingDependencyError: the compiler or the emulator of the board is not installed.
            SynthesisError: no board of the device is emulated, or building or running failed.
        """
        board = board_of(plan)
        if board is None:
            name = "no device" if plan.arch is None else plan.arch.name or "the device"
            raise SynthesisError(f"no board of {name} is emulated: choose a profile such as cortex-m4")
        missing = missing_tool(board.family)
        if missing is not None:
            message = f"{missing} is not installed: `apt-get install {board.family.packages}`"
            raise MissingDependencyError(message, code="no-compiler")
        given = given_arrays(plan, inputs, None, 1)
        return _emulated(plan, board, given, None, {}, timeout, _marks(plan))

    def build_and_run(
        self,
        plan: ExecutionPlan,
        bundle: Bundle,
        inputs: Mapping[str, Array],
        *,
        steps: int | None = None,
        repeat: int = 1,
        timeout: float = 60.0,
        initial: Mapping[str, Array] | None = None,
        flags: Sequence[str] | None = None,
    ) -> RunResult:
        """Compile the bundle in a private temporary directory and run it, with ``flags`` or those of its Makefile."""
        given, begin = given_arrays(plan, inputs, steps, repeat), initial_arrays(plan, initial)
        board = board_of(plan) if flags is None else None
        missing = None if board is None else missing_tool(board.family)
        if board is not None and missing is None and not has_threads(plan.procedures):
            return _emulated(plan, board, given, steps, begin, timeout)
        if board is not None:
            plan = _hosted(plan)
            result = self.build_and_run(
                plan, bundle_of(plan), inputs, steps=steps, repeat=repeat, timeout=timeout, initial=initial
            )
            return replace(result, instead=_instead(board, missing))
        if PROGRAM_NAME not in bundle.files:
            # Bundles of frameworks have no program that reads files.
            plan = replace(plan, options=replace(plan.options, project="make"))
            bundle = bundle_of(plan)
        compiler = compiler_command(compiler_flags(plan) if flags is None else flags)
        with scratch_directory() as directory:
            for file, data in bundle.files.items():
                (directory / file).write_bytes(data)
            arguments = [
                *compiler,
                "-o",
                plan.options.prefix,
                PROGRAM_NAME,
                f"{plan.options.prefix}.c",
                *(file for file in bundle.files if file == OBJECT_NAME),
                *(("-pthread",) if has_threads(plan.procedures) else ()),
                "-lm",
            ]
            run_tool(arguments, directory, timeout, "the C compiler", _flags_hint(plan) if flags is None else None)
            return run_program(plan, directory, given, steps, repeat, timeout, begin)


def _emulated(
    plan: ExecutionPlan,
    board: Board,
    inputs: Mapping[str, Array],
    steps: int | None,
    initial: Mapping[str, Array],
    timeout: float,
    marks: Mapping[int, int] | None = None,
) -> RunResult:
    source = measured_source(plan, board, marks=marks)
    with scratch_directory() as directory:
        for file, data in source.files.items():
            (directory / file).write_bytes(data)
        further = [START_NAME, MEASURED_NAME, *(file for file in source.files if file == OBJECT_NAME)]
        build(board, compiler_flags(plan), directory, plan.options.prefix, sources=further, timeout=timeout)
        return run(plan, board, source.instance, directory, inputs, steps, initial, timeout)


def _marks(plan: ExecutionPlan) -> dict[int, int]:
    """Return the numbers of the steps that do something of their own, by their identity."""
    return {id(step): number for number, step in numbered_steps(plan) if not isinstance(step, LoopStep | CallStep)}


def _hosted(plan: ExecutionPlan) -> ExecutionPlan:
    """Return a plan whose source is that of a board, with the flags for its core left out."""
    if plan.arch is None:
        return plan
    flags = tuple(flag for flag in plan.arch.compiler.flags if not flag.startswith("-m"))
    compiler = replace(plan.arch.compiler, flags=flags)
    return replace(plan, arch=replace(plan.arch, compiler=compiler), options=replace(plan.options, project="make"))


def _instead(board: Board, missing: str | None) -> str:
    """Return why a program for a board ran on this machine."""
    if missing is None:
        return "programs with threads are not run on an emulated board: the same C ran on this machine"
    install = f"`apt-get install {board.family.packages}`"
    return f"{missing} is not installed ({install}): the same C was compiled for this machine and ran here"


def _flags_hint(plan: ExecutionPlan) -> str | None:
    """Return what to do where the compiler fails with the flags of a device, which may be another machine."""
    flags = () if plan.arch is None else plan.arch.compiler.flags
    if not flags:
        return None
    given = f"the flags {' '.join(flags)} are those of the device file, and --verify runs the program on this machine"
    return f"{given}: to verify the code for another machine, give `--target c` without --arch"
