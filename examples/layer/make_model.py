"""The model of the layer: two sizes and a matrix."""

from __future__ import annotations

import numpy as np

import openinfer as oi

W = np.sin(np.arange(256, dtype=np.float32)).reshape(64, 4)


def make() -> oi.Model:
    """Return the model, in memory."""
    return oi.Model.from_arrays({"w": W}, sizevars={"D": 64, "H": 4})
