"""The errors of loop programs."""

from openinfer.errors import OpenInferError


class LoopProgramError(OpenInferError):
    """A loop program is written wrongly: a mistake in what made it."""

    default_code = "expression"


class UnprovedAccessError(LoopProgramError):
    """An access is not known to lie inside of its buffer."""
