"""Check a model file and print what it holds: `python verify_oinf.py FILE`; also a module to import from."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("openinfer_oinf") is None:
    # Run from a checkout in which the package is not installed.
    sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from openinfer_oinf import (
    OinfError,
    Report,
    verify_oinf,
)

__all__ = ["OinfError", "Report", "main", "verify_oinf"]


def main() -> int:
    """Run `oinf verify` on the arguments of the process."""
    from openinfer_oinf.cli import main as run

    return run(["verify", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
