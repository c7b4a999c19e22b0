"""What the two networks see: spectrograms of made-up words, and pictures with and without a figure."""

from __future__ import annotations

import numpy as np

WORDS = 12
FRAMES, BANDS, SIDE = 49, 10, 96


def spectrograms(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` spectrograms of f32[49, 10], values about -1 to 1, and the word of each, 0 to 11.

    A word is two tones that rise, fall or stay, one after the other or together; the first word is silence.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(0, WORDS, count)
    time, band = np.arange(FRAMES)[:, None], np.arange(BANDS)[None, :]
    sounds = random.normal(0, 0.12, (count, FRAMES, BANDS))
    for number, label in enumerate(labels):
        if label == 0:
            continue
        start, length = random.integers(2, 12), random.integers(28, 36)
        along = (time - start) / length
        inside = (along >= 0) & (along <= 1)
        slope = (label % 3 - 1) * 5.0
        first = 2.0 + label // 3 * 1.6 + random.normal(0, 0.25)
        tone = first + slope * (along - 0.5)
        second = tone + (3.0 if label % 2 else -3.0)
        width = random.uniform(0.7, 1.1)
        louder = np.exp(-(((band - tone) / width) ** 2)) * inside
        later = np.exp(-(((band - second) / width) ** 2)) * inside * (along > 0.4)
        sounds[number] += random.uniform(0.7, 1.1) * (louder + 0.8 * later)
    return np.clip(sounds, -1, 1).astype(np.float32), labels


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` pictures of u8[96, 96, 3], and whether each has a figure: a head, a trunk and two legs."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    row, column = np.mgrid[:SIDE, :SIDE]
    images = np.empty((count, SIDE, SIDE, 3), np.uint8)
    for number, label in enumerate(labels):
        tint = random.uniform(60, 190, 3)
        shade = random.uniform(-0.6, 0.6) * (row - 48) + random.uniform(-0.6, 0.6) * (column - 48)
        picture = tint + shade[..., None] + random.normal(0, 9, (SIDE, SIDE, 3))
        for _ in range(random.integers(2, 5)):
            _paint(picture, _block(random, row, column), random)
        if label:
            _paint(picture, _figure(random, row, column), random)
        else:
            _paint(picture, _block(random, row, column), random)
        images[number] = np.clip(picture, 0, 255)
    return images, labels


def _paint(picture: np.ndarray, mask: np.ndarray, random: np.random.Generator) -> None:
    picture[mask] = random.uniform(0, 255, 3) + random.normal(0, 6, (int(mask.sum()), 3))


def _block(random: np.random.Generator, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    height, width = random.integers(10, 40, 2)
    top, left = random.integers(0, SIDE - height), random.integers(0, SIDE - width)
    if random.integers(2):
        return (row >= top) & (row < top + height) & (column >= left) & (column < left + width)
    down, across = (row - top - height / 2) / height, (column - left - width / 2) / width
    return down**2 + across**2 < 0.25


def _figure(random: np.random.Generator, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    size = random.uniform(46, 84)
    top, middle = random.uniform(2, SIDE - size - 2), random.uniform(24, SIDE - 24)
    down, across = (row - top) / size, (column - middle) / size
    head = (down - 0.11) ** 2 + across**2 < 0.105**2
    trunk = (down > 0.22) & (down < 0.58) & (abs(across) < 0.15)
    arms = (down > 0.24) & (down < 0.5) & (abs(across) > 0.19) & (abs(across) < 0.25)
    legs = (down >= 0.58) & (down < 1) & (abs(across) > 0.03) & (abs(across) < 0.13)
    return head | trunk | arms | legs
