"""What is wrong with a schedule."""

from __future__ import annotations

from openinfer.errors import OpenInferError


class ScheduleError(OpenInferError):
    """A schedule does not fit its stage or its target."""

    default_code = "expression"
