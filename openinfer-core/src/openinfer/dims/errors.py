"""Errors of sizes that are known at run time only."""

from __future__ import annotations

from openinfer.errors import OpenInferError


class NeedsNumberError(OpenInferError):
    """A rule needs the number of a size that is known at run time only.

    Attributes:
        sizes: the names of the sizes that would have to be numbers.
    """

    default_code = "unsupported"

    def __init__(self, message: str, *, sizes: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.sizes = sizes
