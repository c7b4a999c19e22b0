"""What LiteRT computes, where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.importers.imported import ImportOptions
from openinfer.importers.tflite_files.originals import opened


def litert(path: Path, **inputs: Any) -> list[Any]:
    """Return the outputs of a model in order; skip a test where nothing runs it."""
    pytest.importorskip("ai_edge_litert", reason="the original runs by LiteRT, the package ai-edge-litert")
    return [np.asarray(value) for value in opened(path, ImportOptions()).run(inputs).values()]
