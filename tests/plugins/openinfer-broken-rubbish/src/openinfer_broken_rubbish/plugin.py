"""Yields rubbish after its first object."""

from collections.abc import Iterator

from openinfer.plugin import AttributeSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_attributes() -> Iterator[object]:
    """Offer one attribute, then something else."""
    yield AttributeSpec(name="half_rubbish", summary="stays out with the rest")
    yield "an attribute"
