"""The synth target vulkan: bundles of GLSL and C99 source, built with the system's compilers and run on its device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import MissingDependencyError
from openinfer.scratch import scratch_directory
from openinfer.synth.arrays import given_arrays, initial_arrays
from openinfer.synth.c_host.running import run_program
from openinfer.synth.c_host.toolchain import compiler_command, run_tool
from openinfer_backend_vulkan.spirv.compiler import ADVICE, NAMES, compile_shader
from openinfer_backend_vulkan.spirv.compiler import find_compiler as find_glsl_compiler
from openinfer_backend_vulkan.target.devices import shader_target
from openinfer_backend_vulkan.target.project import FLAGS, bundle_of
from openinfer_backend_vulkan.target.spirv import header_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.bundle import Bundle
    from openinfer.synth.target import Array, RunResult


class VulkanTarget:
    """Writes plans out as compute shaders with a host program; see `openinfer.synth.SynthTarget`."""

    epilogues = False
    overlaps = False
    banks = False
    arrangements = False
    options = frozenset({"prefix", "project", "weights"})

    def emit(self, plan: ExecutionPlan) -> Bundle:
        """Return the source files; equal plans give equal bytes."""
        return bundle_of(plan, shader_target(plan.arch))

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
    ) -> RunResult:
        """Compile the bundle in a private temporary directory and run it on the Vulkan device that suits best.

        Kernels are compiled as the device's are, with the same store of compiled ones.
        """
        values, begin = given_arrays(plan, inputs, steps, repeat), initial_arrays(plan, initial)
        compiler = compiler_command(FLAGS)
        if find_glsl_compiler() is None:
            raise MissingDependencyError(f"no GLSL compiler ({' or '.join(NAMES)}) on PATH: {ADVICE}")
        with scratch_directory() as directory:
            for file, data in bundle.files.items():
                (directory / file).write_bytes(data)
                if file.endswith(".comp"):
                    name = file.removesuffix(".comp")
                    header = header_of(compile_shader(_code(data)), f"{name}_code")
                    (directory / f"{name}.h").write_text(header, encoding="ascii")
            prefix = plan.options.prefix
            arguments = [*compiler, "-o", prefix, "main.c", f"{prefix}.c", "-lvulkan", "-lm"]
            run_tool(arguments, directory, timeout, "the C compiler")
            return run_program(plan, directory, values, steps, repeat, timeout, begin)


def _code(file: bytes) -> str:
    """Return the source of a kernel without the lines of the program, which differ where the code does not."""
    return "".join(line for line in file.decode("ascii").splitlines(keepends=True) if not line.startswith("/*"))
