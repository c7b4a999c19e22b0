"""What quantising a program changed: the error of each layer, the size of the weights, the accuracy."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.quantization.layers import Left


@dataclass(frozen=True, slots=True)
class LayerReport:
    """A layer that runs on 8-bit integers.

    Attributes:
        line: of the statement in the program before.
        dtype: element type of what the layer reads.
        zero_point: the code of zero in it.
        bound: largest magnitude that this holds; of several iterations of a loop the largest.
        clipped: share of the values of the samples beyond the bound.
        snr_db: power of what the layer made before over that of the difference, in decibels; NaN: of the samples
            that count, none reaches it.
    """

    line: int
    op: str
    weight: str
    output: str
    dtype: str
    zero_point: int
    bound: float
    clipped: float
    snr_db: float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How many samples an output gives the right class for, before and after."""

    output: str
    samples: int
    before: int
    after: int

    def __str__(self) -> str:
        shares = (f"{count / self.samples:.2%}" for count in (self.before, self.after))
        return "accuracy of `{}` over {} samples: {} before, {} after".format(self.output, self.samples, *shares)


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """The result of quantising a program.

    Attributes:
        outputs: power of each output over that of its difference, in decibels.
        apart: how many of the samples take other branches or loop iterations than in the original program; they
            do not count in decibels.
        weight_bytes: bytes of the tensors before and after.
        samples: how many samples the scales follow from.
    """

    layers: tuple[LayerReport, ...]
    left: tuple[Left, ...]
    outputs: Mapping[str, float]
    weight_bytes: tuple[int, int]
    samples: int
    accuracy: Accuracy | None = None
    apart: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON: ratios that are not finite are the strings ``inf``, ``-inf`` and ``nan``."""
        found = asdict(self)
        for layer in found["layers"]:
            layer["snr_db"] = _finite(layer["snr_db"])
        found["outputs"] = {name: _finite(value) for name, value in self.outputs.items()}
        return found

    def __str__(self) -> str:
        rows = [("line", "operator", "weight", "input", "SNR")]
        for layer in self.layers:
            clipped = f", {layer.clipped:.2%} clipped" if layer.clipped else ""
            least = "from 0 " if layer.zero_point else ""
            seen = f"{layer.dtype} {least}to {layer.bound:.4g}{clipped}"
            rows.append((str(layer.line), layer.op, layer.weight, seen, f"{layer.snr_db:.1f} dB"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [f"line {left.line}: {left.op} >> {left.output} stays: {left.reason}" for left in self.left]
        lines += [f"output {name}: {value:.1f} dB over {self.samples} samples" for name, value in self.outputs.items()]
        if self.apart:
            shown = f"{self.apart} of {self.samples} samples take another branch, or other iterations, than before"
            lines.append(f"{shown}: no SNR counts them")
        lines.append("weights: {:,} bytes before, {:,} after".format(*self.weight_bytes))
        return "\n".join([*lines, *([str(self.accuracy)] if self.accuracy else [])])


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
