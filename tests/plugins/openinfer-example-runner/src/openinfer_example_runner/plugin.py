"""The runner `threads`; it is imported when a batch begins."""

from collections.abc import Iterator

from openinfer.plugin import RunnerSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_runners() -> Iterator[RunnerSpec]:
    """Offer the runner."""
    yield RunnerSpec(
        name="threads",
        summary="an example: a session for each thread of this process",
        runner="openinfer_example_runner.runner:Threads",
    )
