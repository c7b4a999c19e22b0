"""Programs whose products and convolutions run on 8-bit integers, with scales chosen from sample inputs.

Weights become i8 with a scale for each output; what they are multiplied with becomes u8 where it is never negative,
or i8 with the zero point -128, else i8, with one scale. Sums are exact in i32, biases stay as they are.
"""

from __future__ import annotations

from openinfer.quantization.quantizing import QuantizedProgram, quantize
from openinfer.quantization.ranges import Clipping
from openinfer.quantization.report import Accuracy, LayerReport, QuantizationReport

__all__ = ["Accuracy", "Clipping", "LayerReport", "QuantizationReport", "QuantizedProgram", "quantize"]
