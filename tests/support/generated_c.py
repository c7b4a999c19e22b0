"""Programs as generated C under sanitizers, compared with the simulator: what tests of target c share."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.scratch import scratch_directory
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.synth.comparison import compare
from openinfer.testing.waiting import limit_s

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from openinfer.ir.graph import Graph
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth import Bundle, Synthesis

Array = npt.NDArray[Any]

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-ffp-contract=off")

SANITIZERS = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")

SANITISED = (*STRICT, "-O0", *SANITIZERS)
"""Without optimisation, because it removes accesses before they are checked, and takes up to five times as long."""


def sanitised_by(compiler: str) -> tuple[str, ...]:
    """Return flags for a program that every compiler compiles, one after the other.

    Where clang checks accesses too, gcc checks for undefined behaviour alone: both take it three times as long.
    """
    one = compiler == "gcc" and shutil.which("clang") is not None
    return (*STRICT, "-O0", "-fsanitize=undefined", *SANITIZERS[1:]) if one else SANITISED


STEPS = 20
"""How many steps `assert_steps_agree` runs where nothing else is said."""

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("gcc", "clang")
]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def noise(*shape: int, seed: int = 0, dtype: npt.DTypeLike = np.float32) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def fixed_sizes(model: Model, limits: Mapping[str, int] | None) -> dict[str, int]:
    """Return the sizes that are the same in every step: those without a limit."""
    return {name: size for name, size in model.sizevars.items() if name not in (limits or {})}


def synthesised(
    text: str,
    arrays: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    limits: Mapping[str, int] | None = None,
) -> tuple[Model, Graph, Synthesis]:
    """Return a model of the arrays and sizes, the program, and what target c makes of both."""
    model = Model.from_arrays(dict(arrays or {}), sizevars=dict(sizes or {}))
    program = graph(text)
    return model, program, Synthesizer("c", limits=limits).synthesize(model, program, sizes=fixed_sizes(model, limits))


def both(
    text: str,
    arrays: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    flags: Sequence[str] = SANITISED,
    **inputs: Any,
) -> tuple[dict[str, Array], dict[str, Array], ExecutionPlan]:
    """Run a step; return the outputs of the simulator on cpu, those of the compiled program, and the plan."""
    model, program, synthesis = synthesised(text, arrays, sizes)
    found = run_sanitised(synthesis, inputs, flags=flags)
    with Simulator(model, program, device="cpu").make_executor() as executor:
        executor.step(**inputs)
        return {name: expected_of(executor, name, array) for name, array in found.items()}, found, synthesis.plan


def assert_agree(
    text: str, arrays: Mapping[str, Array] | None = None, sizes: Mapping[str, int] | None = None, **inputs: Any
) -> ExecutionPlan:
    """Run a step in the simulator and as C, compare every output, and return the plan."""
    expected, found, plan = both(text, arrays, sizes, **inputs)
    assert found
    for name, array in found.items():
        assert array.shape == expected[name].shape
        difference = compare(name, expected[name], array)
        assert difference.within, difference
    return plan


def assert_steps_agree(
    text: str,
    arrays: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    limits: Mapping[str, int] | None = None,
    *,
    steps: int = STEPS,
    **inputs: Array,
) -> ExecutionPlan:
    """Do the same for some steps, whose inputs are stacked on a first axis."""
    model, program, synthesis = synthesised(text, arrays, sizes, limits)
    found = run_sanitised(synthesis, inputs, steps=steps)
    assert found
    with Simulator(model, program, device="cpu").make_executor() as executor:
        for step in range(steps):
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
            for name, stacked in found.items():
                expected = expected_of(executor, name, stacked[step])
                assert expected.shape == stacked[step].shape, step
                difference = compare(name, expected, stacked[step])
                assert difference.within, (step, difference)
    return synthesis.plan


def run_sanitised(
    synthesis: Synthesis,
    inputs: Mapping[str, Any],
    *,
    steps: int | None = None,
    flags: Sequence[str] = SANITISED,
    timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return the outputs of the program that the bundle holds, compiled with the sanitizers or other flags."""
    with compiler_for(synthesis.bundle, flags):
        ran = synthesis.target.build_and_run(
            synthesis.plan, synthesis.bundle, inputs, steps=steps, flags=flags, timeout=timeout_s or limit_s(60)
        )
    return ran.outputs


@contextmanager
def compiler_for(bundle: Bundle, flags: Sequence[str]) -> Generator[None]:
    """Have clang compile with these sanitizers, and gcc without them for its warnings, unless ``CC`` names a compiler.

    Large programs take gcc with both sanitizers three times as long as clang, and 15 times as long as without them.
    """
    if "CC" in os.environ or SANITIZERS[0] not in flags or shutil.which("clang") is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", "clang")
        yield
    assert_gcc_has_no_warning(bundle, [flag for flag in flags if flag not in SANITIZERS])


def assert_gcc_has_no_warning(bundle: Bundle, flags: Sequence[str]) -> None:
    """Compile the C files of a bundle: all warnings of gcc, which the flags make errors.

    What runs the model is read only, which takes a tenth of the time: most of it is the same in every bundle, and what
    differs are tables.
    """
    models = [name for name in bundle.files if name.endswith(".c") and name != "main.c"]
    with scratch_directory() as directory:
        for name, data in bundle.files.items():
            (directory / name).write_bytes(data)
        for arguments in (("-S", *models), ("-fsyntax-only", "main.c")):
            run_tool(["gcc", *flags, *arguments], directory, limit_s(60), "gcc")


def expected_of(executor: Any, name: str, like: Array) -> Array:
    return np.asarray(executor.result(name).array, like.dtype)


def printed_by(caller: str, bundle: Bundle, compiler: str, flags: Sequence[str] = SANITISED) -> str:
    """Return what a C program that calls the functions of the bundle prints, compiled with the sanitizers."""
    with scratch_directory() as directory:
        for name, data in bundle.files.items():
            (directory / name).write_bytes(data)
        (directory / "main.c").write_text(f"{dedent(caller).strip()}\n")
        command = [compiler, *flags, "-o", "run", "main.c", "model.c", "-lm"]
        run_tool(command, directory, limit_s(60), "the compiler")
        return run_tool([str(directory / "run")], directory, limit_s(60), "the program")
