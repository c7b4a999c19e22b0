"""Layers with small integers: of the weights alone, or of weights and activations, with what makes bytes of sums."""

from __future__ import annotations

import math

import numpy as np
import onnx
from net_builder import Builder, convolution


class SmallWeights(Builder):
    """Products of reals with matrices of small integers. ONNX has the reals that these represent.

    Args:
        bits: of an integer.
        group: rows of a column that share a scale; 0: all of them.
    """

    def __init__(self, seed: int, bits: int, group: int = 0) -> None:
        super().__init__(seed)
        self._bits = bits
        self._group = group

    def title(self, name: str) -> str:
        return f"{name}, int{self._bits} weights"

    def linear(self, x: str, y: str, features: int, *, relu: bool = False, scale: float | None = None) -> str:
        if relu:
            raise ValueError(f"{y}: products with small integers have no relu of their own here")
        rows, depth = self.shapes[x]
        w, scales = self._quantised(f"{y}_w", self.rng.standard_normal((depth, features)) * (scale or 0.02))
        b = self.normal(f"{y}_b", 0.05, features)
        settings = f", group_size={self._group}" if self._group else ""
        self.line(f"op qmatmul({x}, {w}, {scales}, bias={b}{settings}) >> {y};", **{y: (rows, features)})
        self.node("Gemm", (x, w, b), y)
        self.multiply_adds += rows * depth * features
        return y

    def _quantised(self, name: str, array: np.ndarray) -> tuple[str, str]:
        """Add a matrix [K, N] and its scales: one a column, or one for each group of its rows."""
        depth, columns = array.shape
        parts = array.reshape(-1, self._group or depth, columns)
        largest = 2 ** (self._bits - 1) - 1
        scale = (np.abs(parts).max(axis=1) / largest).astype(np.float32)
        codes = np.rint(parts / scale[:, None]).clip(-largest, largest)
        self._weights[name] = np.ascontiguousarray(codes.reshape(depth, columns), np.int8)
        self._types[name] = f"i{self._bits}"
        self._weights[f"{name}_scale"] = scale if self._group else scale[0]
        self._initialisers[name] = (codes * scale[:, None]).reshape(depth, columns).astype(np.float32)
        return name, f"{name}_scale"


class QuantisedBuilder(Builder):
    """Layers on bytes: weights are i8, activations u8 after relu and i8 elsewhere, both with a scale for the tensor.

    A sum of integers times a factor for each channel, plus the bias, is rounded and clipped to bytes. Activations are
    taken to lie below 8, which they nearly do.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._scales: dict[str, float] = {}

    def title(self, name: str) -> str:
        return f"{name}, int8"

    def input(self, name: str, *shape: int) -> str:
        """Add an input of reals that is clipped to [0, 5.1] and rounded to bytes."""
        super().input(name, *shape)
        self._scales[f"{name}_bytes"] = 5.1 / 255
        gain = self.weight(f"{name}_gain", np.full(1, 255 / 5.1))
        self.line(f"op mul({name}, {gain}) >> {name}_scaled;", **{f"{name}_scaled": shape})
        self.node("Mul", (name, gain), f"{name}_scaled")
        return self._as_bytes(f"{name}_scaled", f"{name}_bytes", shape, signed=False)

    def conv(
        self,
        x: str,
        y: str,
        channels: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        *,
        depthwise: bool = False,
        relu: bool = True,
        padding: tuple[int, int, int, int] | None = None,
    ) -> str:
        found = convolution(self.shapes[x], channels, kernel, stride, padding, depthwise=depthwise)
        w, scale = self._bytes(f"{y}_w", math.sqrt(2 / found.taps), *found.weights)
        line = f"op conv_integer({x}, {w}, {found.settings}) >> {y}_total;"
        self._line_of(line, f"{y}_total", "i32", found.result)
        self.node("ConvInteger", (x, w), f"{y}_total", **found.attributes)
        self.multiply_adds += found.multiply_adds
        self._from_total(x, y, scale, found.result, (1, channels, 1, 1), relu=relu, is_last=False)
        return y

    def linear(self, x: str, y: str, features: int, *, relu: bool = False, scale: float | None = None) -> str:
        rows, depth = self.shapes[x]
        w, scale = self._bytes(f"{y}_w", scale or math.sqrt(2 / depth), depth, features)
        self._line_of(f"op matmul_integer({x}, {w}) >> {y}_total;", f"{y}_total", "i32", (rows, features))
        self.node("MatMulInteger", (x, w), f"{y}_total")
        self.multiply_adds += rows * depth * features
        self._from_total(x, y, scale, (rows, features), (1, features), relu=relu, is_last=not relu)
        return y

    def add(self, a: str, b: str, y: str, *, relu: bool = False) -> str:
        shape = self.shapes[a]
        scaled = [self._as_reals(x, f"{y}_{x}", 16 / 255) for x in (a, b)]
        self.line(f"op add({scaled[0]}, {scaled[1]}) >> {y}_sum;", **{f"{y}_sum": shape})
        self.node("Add", scaled, f"{y}_sum")
        return self._as_bytes(f"{y}_sum", y, shape, signed=not relu)

    def classes(self, x: str, count: int) -> None:
        """Append the mean of each channel in reals, a layer on bytes and softmax: the output."""
        channels = self.shapes[x][1]
        reals = self._as_reals(x, "last", self._scales[x])
        self.line(f"op global_avg_pool({reals}) >> pooled;", pooled=(1, channels, 1, 1))
        self.line(f"op reshape(pooled, shape=[1, {channels}]) >> means;", means=(1, channels))
        self.node("GlobalAveragePool", (reals,), "pooled")
        self.node("Flatten", ("pooled",), "means", axis=1)
        self._scales["features"] = self._scales[x]
        self.linear(self._as_bytes("means", "features", (1, channels), signed=False), "logits", count)
        self.line("op softmax(logits, axis=1) >> probabilities;", probabilities=(1, count))
        self.node("Softmax", ("logits",), "probabilities", axis=1)
        self.output("probabilities")

    def _bytes(self, name: str, scale: float, *shape: int) -> tuple[str, float]:
        """Add random weights as i8; return their name and their scale."""
        step = 4 * scale / 127
        codes = np.rint(self.rng.standard_normal(shape) * scale / step).clip(-127, 127).astype(np.int8)
        self._weights[name] = self._initialisers[name] = codes
        self._types[name] = "i8"
        return name, step

    def _from_total(
        self,
        x: str,
        y: str,
        scale: float,
        shape: tuple[int, ...],
        channels: tuple[int, ...],
        *,
        relu: bool,
        is_last: bool,
    ) -> None:
        """Append what makes a layer's result of its sums of integers: bytes, of the last layer reals."""
        result = 1.0 if is_last else 16 / 255 if not relu else 8 / 255
        factor = self.weight(f"{y}_m", np.full(channels, scale * self._scales[x] / result))
        bias = self.weight(f"{y}_b", self.rng.standard_normal(channels) * 0.05 / result)
        self.line(f"op cast({y}_total, to=f32) >> {y}_reals;", **{f"{y}_reals": shape})
        self.line(f"op mul({y}_reals, {factor}) >> {y}_scaled;", **{f"{y}_scaled": shape})
        biased = y if is_last else f"{y}_biased"
        self.line(f"op add({y}_scaled, {bias}) >> {biased};", **{biased: shape})
        self.node("Cast", (f"{y}_total",), f"{y}_reals", to=onnx.TensorProto.FLOAT)
        self.node("Mul", (f"{y}_reals", factor), f"{y}_scaled")
        self.node("Add", (f"{y}_scaled", bias), biased)
        if not is_last:
            self._as_bytes(biased, y, shape, signed=not relu)
            self._scales[y] = result

    def _as_reals(self, x: str, y: str, unit: float) -> str:
        """Append a value of bytes in reals, in units."""
        shape = self.shapes[x]
        factor = self.weight(f"{y}_m", np.full(1, self._scales[x] / unit))
        self.line(f"op cast({x}, to=f32) >> {y}_cast;", **{f"{y}_cast": shape})
        self.line(f"op mul({y}_cast, {factor}) >> {y};", **{y: shape})
        self.node("Cast", (x,), f"{y}_cast", to=onnx.TensorProto.FLOAT)
        self.node("Mul", (f"{y}_cast", factor), y)
        return y

    def _as_bytes(self, x: str, y: str, shape: tuple[int, ...], *, signed: bool) -> str:
        """Append reals rounded and clipped to bytes."""
        dtype, low, high = ("i8", -128.0, 127.0) if signed else ("u8", 0.0, 255.0)
        self._scales.setdefault(y, 16 / 255)
        self.line(f'op round({x}, mode="half_even") >> {y}_whole;', **{f"{y}_whole": shape})
        self._line_of(f"op cast({y}_whole, to={dtype}) >> {y};", y, dtype, shape)
        self.node("Round", (x,), f"{y}_whole")
        ends = (self.number(f"{y}_low", low), self.number(f"{y}_high", high))
        self.node("Clip", (f"{y}_whole", *ends), f"{y}_clipped")
        self.node("Cast", (f"{y}_clipped",), y, to=onnx.TensorProto.INT8 if signed else onnx.TensorProto.UINT8)
        return y

    def _line_of(self, text: str, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Append a statement that makes a value of a type."""
        self.shapes[name] = shape
        self._lines.append(f"assign {name}: {dtype}[{', '.join(map(str, shape))}];")
        self._lines.append(text)
