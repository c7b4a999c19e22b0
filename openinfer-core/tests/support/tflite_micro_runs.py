"""What TFLite Micro computes, where its package is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.importers.imported import ImportOptions
from openinfer.importers.tflite_files.micro_originals import MicroOriginal, micro_runtime


def micro(path: Path, **inputs: Any) -> list[Any]:
    """Return the outputs of a model in order; skip a test where nothing runs it."""
    runtime = micro_runtime()
    if runtime is None:
        pytest.skip("the original runs by TFLite Micro, the package tflite-micro")
    original = MicroOriginal(path, ImportOptions(), runtime)
    return [np.asarray(value) for value in original.run(inputs).values()]
