"""What differs between two containers: entries, types, shapes, quantisation and values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .arrays import widened
from .metadata import TypedValue
from .progress import advance, expect
from .reader import OinfFile
from .tensor import StoredTensor
from .textform import metadata_text, quant_line

Kind = Literal["added", "removed", "changed"]


@dataclass(frozen=True)
class ValueDifference:
    """How far two tensors of one shape are apart; NaN equals NaN, and `largest_relative` is against the first.

    `differing` counts elements that are not within the tolerances. The maxima are over all elements that differ
    at all; NaN where a value meets a NaN or an infinity it does not equal. `dequantised` where a tensor is quantised,
    so that real values were compared, not stored ones.
    """

    differing: int
    size: int
    largest: float
    largest_relative: float
    dequantised: bool = False


@dataclass(frozen=True)
class Difference:
    """One entry that is not the same in both files; `values` where values were compared."""

    table: str
    name: str
    kind: Kind
    detail: str
    values: ValueDifference | None = None

    def __str__(self) -> str:
        mark = {"added": "+", "removed": "-", "changed": "~"}[self.kind]
        return f"{mark} {self.table} {self.name}: {self.detail}"

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`; NaN and infinities are strings."""
        plain: dict[str, object] = {"table": self.table, "name": self.name, "kind": self.kind, "detail": self.detail}
        if self.values is not None:
            numbers = self.values.largest, self.values.largest_relative
            largest, relative = (number if math.isfinite(number) else str(number) for number in numbers)
            plain["values"] = {
                "differing": self.values.differing,
                "size": self.values.size,
                "largest": largest,
                "largest_relative": relative,
                "dequantised": self.values.dequantised,
            }
        return plain


def differences(
    first: OinfFile, second: OinfFile, *, values: bool = False, rtol: float = 0.0, atol: float = 0.0
) -> Iterator[Difference]:
    """Everything that differs, table by table and by name.

    Stored bytes are compared first. Where they differ, `values` compares element by element, and elements with
    `|a - b| <= atol + rtol * |a|` count as equal: without `values` any differing byte is a difference.
    """
    expect(first.file_size)
    yield from _plain("sizevars", _sizevar_texts(first), _sizevar_texts(second))
    yield from _plain("metadata", _metadata_texts(first), _metadata_texts(second))
    for name in sorted({*first, *second}):
        if name not in second:
            yield Difference("tensors", name, "removed", signature(first.tensor(name)))
        elif name not in first:
            yield Difference("tensors", name, "added", signature(second.tensor(name)))
        else:
            yield from _tensor(first.tensor(name), second.tensor(name), values=values, rtol=rtol, atol=atol)


_Texts = Mapping[str, tuple[str, bytes]]


def _sizevar_texts(file: OinfFile) -> _Texts:
    return {name: (str(value), b"") for name, value in file.sizevars.items()}


def _metadata_texts(file: OinfFile) -> _Texts:
    """Each value as text, with its payload to tell apart what text does not."""
    return {name: (_brief(name, file.metadata.typed(name)), file.metadata.payload(name)) for name in file.metadata}


def _brief(name: str, typed: TypedValue) -> str:
    return " ".join(metadata_text(name, typed).removeprefix(f"{name}: ").split())


def _plain(table: str, first: _Texts, second: _Texts) -> Iterator[Difference]:
    for name in sorted({*first, *second}):
        if name not in second:
            yield Difference(table, name, "removed", first[name][0])
        elif name not in first:
            yield Difference(table, name, "added", second[name][0])
        elif first[name] != second[name]:
            yield Difference(table, name, "changed", f"{first[name][0]} -> {second[name][0]}")


def signature(tensor: StoredTensor) -> str:
    """Type and shape of a tensor, and whether it has data."""
    return f"{tensor.dtype}{list(tensor.shape)}" + ("" if tensor.has_data else " without data")


def _tensor(
    first: StoredTensor, second: StoredTensor, *, values: bool, rtol: float, atol: float
) -> Iterator[Difference]:
    name = first.name
    if signature(first) != signature(second):
        yield Difference("tensors", name, "changed", f"{signature(first)} -> {signature(second)}")
    if first.quant_payload() != second.quant_payload():
        texts = [quant_line(each.quant)[9:] if each.quant else "none" for each in (first, second)]
        yield Difference("tensors", name, "changed", f"quantisation {texts[0]} -> {texts[1]}")
    if first.shape != second.shape or not (first.has_data and second.has_data):
        return
    same_bytes = first.dtype == second.dtype and _same_bytes(first, second)
    if same_bytes and not (values and first.quant_payload() != second.quant_payload()):
        return
    if not values:
        if first.dtype == second.dtype:
            yield Difference("tensors", name, "changed", "values differ")
        return
    found = compare_values(first, second, rtol=rtol, atol=atol)
    if found.differing:
        kind = "dequantised values" if found.dequantised else "values"
        detail = (
            f"{found.differing} of {found.size} {kind} differ, at most by {found.largest:.6g} "
            f"(relative {found.largest_relative:.6g})"
        )
        yield Difference("tensors", name, "changed", detail, found)


def _same_bytes(first: StoredTensor, second: StoredTensor) -> bool:
    for one, other in zip(first.byte_blocks(), second.byte_blocks(), strict=True):
        if one != other:
            return False
        advance(len(one))
    return True


def compare_values(first: StoredTensor, second: StoredTensor, *, rtol: float, atol: float) -> ValueDifference:
    """Compare two tensors of one shape in float64, block by block; types may differ.

    Quantised tensors are compared by the real values that their integers stand for.
    """
    differing, largest, relative = 0, 0.0, 0.0
    for one, other in zip(first.real_blocks(), second.real_blocks(), strict=True):
        advance(first.value_type.stored_nbytes(one.size))
        left, right = widened(one), widened(other)
        # Whole numbers beyond 2**53 are told apart before they are widened.
        unequal = ~((one == other) | (np.isnan(left) & np.isnan(right)))
        if not unequal.any():
            continue
        left, right = left[unequal], right[unequal]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            apart = np.abs(left - right)
            within = np.isfinite(left) & np.isfinite(right) & (apart <= atol + rtol * np.abs(left)) & (atol + rtol > 0)
            differing += int((~within).sum())
            largest = float(np.maximum(largest, apart.max()))
            relative = float(np.maximum(relative, (apart / np.abs(left)).max()))
    return ValueDifference(differing, first.size, largest, relative, dequantised=first.has_quant or second.has_quant)
