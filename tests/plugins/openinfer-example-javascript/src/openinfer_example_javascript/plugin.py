"""The synth target `javascript`."""

from collections.abc import Iterator

from openinfer.plugin import BUILTIN, SynthTargetSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_synth_targets() -> Iterator[SynthTargetSpec]:
    """Offer the target."""
    yield SynthTargetSpec(
        name="javascript",
        summary="an example: one JavaScript module, run by node",
        target="openinfer_example_javascript.target:JavaScriptTarget",
        expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
        computations=True,
        loop_programs=True,
        state=True,
    )
