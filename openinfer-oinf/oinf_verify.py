"""Earlier module name: what `verify_oinf` has, and `parse_file`."""

from __future__ import annotations

import os

from verify_oinf import OinfError, Report, verify_oinf

__all__ = ["OinfError", "Report", "parse_file", "verify_oinf"]


def parse_file(path: str | os.PathLike[str]) -> Report:
    """Check a file completely and describe what it holds, printing nothing. Raises `OinfError` with all findings."""
    return verify_oinf(path, file=False, stats=False)
