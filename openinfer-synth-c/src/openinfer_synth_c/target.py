"""The synth target c: bundles of C99 source, compiled and run with the system's compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.plan.parallel import has_threads
from openinfer.scratch import scratch_directory
from openinfer.synth.arrays import given_arrays, initial_arrays
from openinfer.synth.c_host.blob import OBJECT_NAME
from openinfer.synth.c_host.running import run_program
from openinfer.synth.c_host.toolchain import compiler_command, run_tool
from openinfer_synth_c.frama_c import prove
from openinfer_synth_c.project import bundle_of, compiler_flags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.bundle import Bundle
    from openinfer.synth.proof import Proof
    from openinfer.synth.target import Array, RunResult


class CTarget:
    """Writes plans out as C99; see `openinfer.synth.SynthTarget`."""

    epilogues = True
    overlaps = True
    banks = True
    arrangements = True
    options = frozenset({"prefix", "project", "weights", "threads"})

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
        compiler = compiler_command(compiler_flags(plan) if flags is None else flags)
        with scratch_directory() as directory:
            for file, data in bundle.files.items():
                (directory / file).write_bytes(data)
            arguments = [
                *compiler,
                "-o",
                plan.options.prefix,
                "main.c",
                f"{plan.options.prefix}.c",
                *(file for file in bundle.files if file == OBJECT_NAME),
                *(("-pthread",) if has_threads(plan.procedures) else ()),
                "-lm",
            ]
            run_tool(arguments, directory, timeout, "the C compiler", _flags_hint(plan) if flags is None else None)
            return run_program(plan, directory, given, steps, repeat, timeout, begin)


def _flags_hint(plan: ExecutionPlan) -> str | None:
    """Return what to do where the compiler fails with the flags of a device, which may be another machine."""
    flags = () if plan.arch is None else plan.arch.compiler.flags
    if not flags:
        return None
    given = f"the flags {' '.join(flags)} are those of the device file, and --verify runs the program on this machine"
    return f"{given}: to verify the code for another machine, give `--target c` without --arch"
