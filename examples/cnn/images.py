"""Images that this script draws: ten shapes and textures in random colours, sizes and places, under noise.

`python images.py` writes `images.png`, a sheet of them.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]

CLASSES = (
    "disc",
    "ring",
    "square",
    "triangle",
    "cross",
    "star",
    "stripes",
    "checks",
    "dots",
    "waves",
)
NOISE = 0.08


def draw(rng: np.random.Generator, label: int, side: int) -> Image:
    """Return an image f32 [3, side, side] of a class, with values near 0 to 1."""
    turn = rng.uniform(-0.4, 0.4)
    y, x = (np.mgrid[0:side, 0:side] + 0.5) / side * 2 - 1
    centre = rng.uniform(-0.3, 0.3, 2)
    size = rng.uniform(0.5, 0.7)
    across = ((x - centre[0]) * np.cos(turn) + (y - centre[1]) * np.sin(turn)) / size
    along = ((y - centre[1]) * np.cos(turn) - (x - centre[0]) * np.sin(turn)) / size
    mask = _covered(CLASSES[label], across, along, rng)
    back, front = rng.uniform(0, 1, (2, 3))
    while np.abs(back - front).sum() < 1.0:
        back, front = rng.uniform(0, 1, (2, 3))
    image = np.where(mask, front[:, None, None], back[:, None, None])
    shade = 1 + 0.3 * (x * np.cos(turn) + y * np.sin(turn))
    return (image * shade + rng.normal(0, NOISE, image.shape)).astype(np.float32)


def _covered(name: str, x: Image, y: Image, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return where a shape of about the size 1 is, or a texture that goes over all of the image."""
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    period = rng.uniform(3.0, 4.5)
    match name:
        case "disc":
            return radius < 1
        case "ring":
            return (radius < 1) & (radius > 0.6)
        case "square":
            return np.maximum(np.abs(x), np.abs(y)) < 0.85
        case "triangle":
            return (y > -0.6) & (y < 1.2 - 1.8 * np.abs(x))
        case "cross":
            return (np.minimum(np.abs(x), np.abs(y)) < 0.28) & (np.maximum(np.abs(x), np.abs(y)) < 1)
        case "star":
            return radius < 0.7 + 0.35 * np.cos(5 * angle)
        case "stripes":
            return np.sin(period * np.pi * x) > 0
        case "checks":
            return np.sin(period * 2 * x) * np.sin(period * 2 * y) > 0
        case "dots":
            return np.cos(period * 2 * x) + np.cos(period * 2 * y) > 1
        case _:
            return np.sin(period * np.pi * (x + 0.25 * np.sin(4 * y))) > 0


def make(seed: int, count: int, side: int) -> tuple[Image, npt.NDArray[np.int64]]:
    """Return images f32 [count, 3, side, side] and their classes i64 [count], the same for each seed everywhere."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), count)
    return np.stack([draw(rng, int(label), side) for label in labels]), labels


def write_sheet(path: Path, side: int = 48, rows: int = 3) -> None:
    """Write a sheet with every class in a column as a PNG picture."""
    rng = np.random.default_rng(5)
    images = [[draw(rng, label, side) for label in range(len(CLASSES))] for _ in range(rows)]
    sheet = np.concatenate([np.concatenate(row, axis=2) for row in images], axis=1)
    pixels = (np.clip(sheet, 0, 1) * 255).round().astype(np.uint8).transpose(1, 2, 0)
    # Each line of a PNG begins with the number of its filter, here none.
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in chunks:
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


if __name__ == "__main__":
    write_sheet(Path(__file__).with_name("images.png"))
