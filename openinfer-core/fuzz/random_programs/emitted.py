"""Projects that a synth target writes, built with their own Makefile around a program that runs a sample's steps."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from openinfer.plugins.environment import Environment
from openinfer.synth import Synthesizer
from openinfer.testing.random_programs.running import Step
from openinfer.testing.random_programs.sample import Sample
from random_programs.c_batches import LONGEST_BUILD, SHOWN, Given, run_built
from random_programs.c_units import Written, caller_of, driver_of


def run_emitted(sample: Sample, target: str, environment: Environment) -> tuple[Written, tuple[Step, ...] | str]:
    """Write a program for a target, build and run it; return its plan, and the steps or why there are none.

    Raises:
        OpenInferError: the target refuses it.
    """
    synthesizer = Synthesizer(target, environment=environment, limits=sample.limits)
    synthesis = synthesizer.synthesize(sample.model(), sample.graph, sizes=sample.fixed_sizes)
    files = driver_of(1)
    program = Written(synthesis.plan, "")
    with tempfile.TemporaryDirectory(prefix="openinfer-") as name:
        folder = Path(name)
        synthesis.emit(folder)
        (folder / "batch.h").write_text(files["batch.h"], encoding="ascii")
        main = f'#include "model.h"\n{caller_of(0, synthesis.plan, "")}{files["batch.c"]}'
        (folder / "main.c").write_text(main, encoding="ascii")
        said = _made(folder)
        if said is not None:
            return program, f"does not compile: {said}"
        (folder / synthesis.plan.options.prefix).rename(folder / "batch")
        (outcome,) = run_built([Given(program, sample)], folder)
    return program, outcome


def _made(folder: Path) -> str | None:
    """Build a project; return what the compiler says where it fails."""
    try:
        done = subprocess.run(
            ["make", "-s"],  # noqa: S607 - as a user calls it
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_BUILD,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the compiler took more than {LONGEST_BUILD:g} s"
    return None if done.returncode == 0 else (done.stderr or done.stdout)[:SHOWN]
