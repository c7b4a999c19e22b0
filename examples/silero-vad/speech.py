"""A WAV file made by NumPy: noise, then vowels of a voice that rises and falls, then noise."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

RATE = 16_000
FORMANTS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240), "e": (530, 1840, 2480)}
WORDS = ("a", "i", "u", "e", "a", "u", "i", "e")


def write(path: Path) -> None:
    """Write 16-bit samples of one channel at 16 kHz."""
    samples = np.concatenate([_noise(0.8, 1), _voice(), _noise(0.8, 2)])
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def read(path: Path) -> npt.NDArray[np.float32]:
    """Return the samples of such a file, from -1 to 1."""
    with wave.open(str(path), "rb") as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def _noise(seconds: float, seed: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, 0.002, int(seconds * RATE))


def _voice() -> npt.NDArray[np.float64]:
    """Return pulses of the vocal cords through three resonances of the mouth, a vowel after the other."""
    length = int(0.28 * RATE)
    parts = []
    for number, vowel in enumerate(WORDS):
        time = np.arange(length) / RATE
        pitch = 115 + 25 * np.sin(2 * np.pi * (number + time / time[-1]) / len(WORDS) * 2) + 4 * np.sin(35 * time)
        pulses = (np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0) > 0).astype(np.float64)
        sound = sum(_resonance(pulses, formant, 70 + 25 * n) / (1 + n) for n, formant in enumerate(FORMANTS[vowel]))
        envelope = np.sin(np.pi * time / time[-1]) ** 0.5
        parts.append(sound * envelope)
    voice = np.concatenate(parts)
    return 0.4 * voice / np.abs(voice).max() + _noise(len(voice) / RATE, 3)


def _resonance(source: npt.NDArray[np.float64], frequency: float, width: float) -> npt.NDArray[np.float64]:
    """Return a source filtered by a resonance of a centre frequency and a bandwidth in Hz."""
    time = np.arange(1024) / RATE
    response = np.exp(-np.pi * width * time) * np.sin(2 * np.pi * frequency * time)
    return np.convolve(source, response)[: len(source)]
