"""Author a model file from a dataclass: `python dataclass_to_oinf.py --input module:Class --output FILE`.

Also a module to import `SizeVar`, `TensorSpec`, `write_oinf` and the rest of the authoring names from.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("openinfer_oinf") is None:
    # Run from a checkout in which the package is not installed.
    sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from openinfer_oinf import (
    Bitset,
    OinfError,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    SizeVar,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    write_oinf,
)

__all__ = [
    "Bitset",
    "OinfError",
    "QuantParams",
    "QuantScale",
    "QuantZeroPoint",
    "ScalarValue",
    "SizeVar",
    "TensorSpec",
    "UninitializedTensor",
    "dataclass_to_oinf",
    "main",
    "write_oinf",
]


def main() -> int:
    """Run the command on the arguments of the process."""
    from openinfer_oinf.authoring import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
