"""Programs that a place may refuse although device cpu runs them: they are drawn by the rules of the language alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from openinfer.errors import FeatureMissingError, OpenInferError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

REFUSALS = frozenset({"kernel-missing", "unsupported", "size-limit", "no-outputs", "branch-cycle", "cache-limit"})
"""Codes with which a device or target may refuse a program before its first step."""

ILL_SHAPED = frozenset({"shape-mismatch", "bad-dim"})
"""Codes with which a target, which plans for the greatest sizes, refuses shapes that are legal for smaller sizes."""


class ProgramRefusedError(Exception):
    """A device or target does not take a program, and says so before its first step."""


def is_refusal(error: OpenInferError, fits: Callable[[], bool]) -> bool:
    """Whether a place refuses a program with an error from before its first step.

    Args:
        fits: whether the shapes of the program are legal at its greatest sizes.
    """
    if isinstance(error, FeatureMissingError) or error.code in REFUSALS:
        return True
    return error.code in ILL_SHAPED and not fits()


@contextmanager
def refusals_told(fits: Callable[[], bool]) -> Generator[None]:
    """Tell refusals from other errors, around what a place does before the first step of a program.

    Raises:
        ProgramRefusedError: the place refuses the program.
        OpenInferError: another error of the place.
    """
    try:
        yield
    except OpenInferError as error:
        if is_refusal(error, fits):
            raise ProgramRefusedError(str(error)) from error
        raise
