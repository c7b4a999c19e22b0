"""The synth target `javascript`, and its kernels for the operators that only move what they are given."""

from collections.abc import Iterator

from openinfer.plugin import BUILTIN, KernelSpec, SynthTargetSpec, hookimpl

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
    )


@hookimpl
def openinfer_kernels(target: str) -> Iterator[KernelSpec]:
    """Offer copies: these operators have no definition."""
    if target == "javascript":
        for op in ("identity", "reshape", "flatten"):
            yield KernelSpec(op=op, kernel="copy", epilogue=False)
