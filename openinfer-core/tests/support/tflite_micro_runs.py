"""What TFLite Micro computes, where its package is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from openinfer.importers.imported import ImportOptions
from openinfer.importers.tflite_files.micro_originals import MicroOriginal, micro_runtime


def check_against_micro(path: Path, expected: Any, **inputs: Any) -> None:
    """Compare expected values with the first output of TFLite Micro, if that is installed."""
    runtime = micro_runtime()
    if runtime is None:
        return
    outputs = MicroOriginal(path, ImportOptions(), runtime).run(inputs)
    np.testing.assert_array_equal(next(iter(outputs.values())), expected)
