"""A tensor that is never whole in memory: `python streamed_embedding.py [FILE] [ROWS]`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from openinfer_oinf import OinfWriter, open_oinf, verify_oinf

COLUMNS, BLOCK = 256, 1024


def blocks(rows: int) -> Iterator[np.ndarray]:
    """Rows a block at a time, as training code or another file would give them."""
    for first in range(0, rows, BLOCK):
        rng = np.random.default_rng(first)
        yield rng.normal(size=(min(BLOCK, rows - first), COLUMNS)).astype(np.float32)


def main(path: str, rows: int) -> None:
    with OinfWriter(path, align=64, checksums=True) as writer:
        writer.sizevar("V", rows)
        writer.sizevar("D", COLUMNS)
        writer.declare("embedding", "bf16", (rows, COLUMNS))
        print(f"the file will have {writer.plan().file_size} bytes")
        writer.write("embedding", blocks(rows))
    verify_oinf(path, file=False, deep=True)
    with open_oinf(path) as file:
        # Only the bytes of these elements are read; bf16 comes as f32, which holds it exactly.
        print(f"row 7 begins with {file.tensor('embedding').numbers(7 * COLUMNS, 7 * COLUMNS + 3).tolist()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/streamed_embedding.oinf"
        main(path, int(sys.argv[2]) if len(sys.argv) > 2 else 5000)
