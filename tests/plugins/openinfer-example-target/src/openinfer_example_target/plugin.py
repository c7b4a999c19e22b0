"""The synth target `listing`."""

from collections.abc import Iterator

from openinfer.plugin import BUILTIN, SynthTargetSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_synth_targets() -> Iterator[SynthTargetSpec]:
    """Offer the target."""
    yield SynthTargetSpec(
        name="listing",
        summary="an example: the steps of a plan and the map of its memory, as text",
        target="openinfer_example_target.target:ListingTarget",
        expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
    )
