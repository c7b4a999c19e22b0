"""Programs as bundles of target vulkan, compared with the simulator: what its tests share."""

from __future__ import annotations

import os
import shutil
import subprocess
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from generated_c import fixed_sizes

from openinfer.model import Model
from openinfer.programs import graph
from openinfer.scratch import scratch_directory
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer, write_bundle
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.synth.comparison import compare
from openinfer.testing.waiting import limit_s

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from openinfer.synth import Bundle, Synthesis

Array = npt.NDArray[Any]

LAYER = "VK_LAYER_KHRONOS_validation"

VALIDATED = {
    "VK_INSTANCE_LAYERS": LAYER,
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
}
"""Environment in which the loader puts the validation layer, with checks of synchronisation, around every device."""


def missing_packages() -> str | None:
    """Return what is missing to build bundles here, or None."""
    tools = {"cc": "gcc", "make": "make", "glslangValidator": "glslang-tools"}
    missing = [package for name, package in tools.items() if shutil.which(name) is None]
    if not missing:
        found = subprocess.run(
            ["cc", "-E", "-"], input=b"#include <vulkan/vulkan.h>\n", capture_output=True, check=False
        )
        missing = [] if found.returncode == 0 else ["libvulkan-dev"]
    return f"bundles of target vulkan cannot be built: apt install {' '.join(missing)}" if missing else None


needs_headers = pytest.mark.skipif(missing_packages() is not None, reason=missing_packages() or "")


def synthesised(
    text: str,
    arrays: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    **options: Any,
) -> tuple[Model, Synthesis]:
    """Return a model of the arrays and sizes, and what target vulkan makes of it and the program."""
    model = Model.from_arrays(dict(arrays or {}), sizevars=dict(sizes or {}))
    return model, Synthesizer("vulkan", **options).synthesize(
        model, text, sizes=fixed_sizes(model, options.get("limits"))
    )


def assert_steps_agree(
    text: str,
    arrays: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    **inputs: Array,
) -> Synthesis:
    """Run steps, whose inputs are stacked on a first axis, in the simulator and as a bundle; compare every output."""
    model, synthesis = synthesised(text, arrays, sizes, **(options or {}))
    steps = len(next(iter(inputs.values())))
    found = synthesis.run(inputs, steps=steps, timeout=limit_s(60)).outputs
    assert found
    with Simulator(model, graph(text), device="cpu").make_executor() as executor:
        for step in range(steps):
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
            for name, stacked in found.items():
                expected = np.asarray(executor.result(name).array, stacked[step].dtype)
                assert expected.shape == stacked[step].shape, step
                difference = compare(name, expected, stacked[step])
                assert difference.within, (step, difference)
    return synthesis


def made(bundle: Bundle, directory: Path) -> None:
    """Write a bundle to a directory and build it as its page says."""
    write_bundle(bundle, directory)
    run_tool(["make"], directory, limit_s(60), "make")


def validated(program: str, arguments: list[str], directory: Path) -> str:
    """Return all that a program prints under the validation layer."""
    ran = subprocess.run(
        [str(directory / program), *arguments],
        cwd=directory,
        env={**os.environ, **VALIDATED},
        capture_output=True,
        text=True,
        timeout=limit_s(120),
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def printed_by(caller: str, bundle: Bundle) -> str:
    """Return what a C program that calls the functions of the bundle prints, under the validation layer."""
    with scratch_directory() as directory:
        write_bundle(bundle, directory / "bundle")
        (directory / "bundle" / "main.c").write_text(f"{dedent(caller).strip()}\n")
        run_tool(["make"], directory / "bundle", limit_s(60), "make")
        return validated("model", [], directory / "bundle")


def has_validation() -> bool:
    """Return whether the validation layer is installed."""
    try:
        found = subprocess.run(["vulkaninfo", "--summary"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return False
    return LAYER in found.stdout
