"""The model of the auto-dim example, two sizes and no tensor: `python make_model.py [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

from openinfer_oinf import save_file


def make(path: str | Path) -> None:
    """Write the model."""
    save_file({}, path, sizevars={"D": 2, "H": 3})


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("model.oinf"))
