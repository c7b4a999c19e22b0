"""Raises after its first object."""

from collections.abc import Iterator

from openinfer.plugin import AttributeSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_attributes() -> Iterator[AttributeSpec]:
    """Offer one attribute, then fail."""
    yield AttributeSpec(name="half_way", summary="stays out with the rest")
    raise RuntimeError("the second attribute is missing")
