"""The error of loop programs."""

from openinfer.errors import OpenInferError


class LoopProgramError(OpenInferError):
    """A loop program is written wrongly: a mistake in what made it."""

    default_code = "expression"
