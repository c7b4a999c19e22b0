"""The text that the verifier prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, cast

import numpy as np

from .arrays import Array, plain_numbers
from .errors import printable
from .metadata import Bitset, TypedValue
from .quant import QuantParams
from .statistics import Statistics
from .tensor import StoredTensor
from .valuetypes import value_type

Style = Literal["current", "reference"]

_SHOWN = 5
_BITSET_BYTES = 4

Pick = Callable[[int, int], Array]


def number_text(value: object) -> str:
    """A number or bool: six significant digits for floats, `true` and `false`."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return f"{float(cast('float', value)):.6g}"
    return str(value)


def _row(pick: Pick, first: int, last: int) -> str:
    """Elements in braces; of more than ten the first and the last five."""
    count = last - first
    if count <= 2 * _SHOWN:
        shown = [number_text(value) for value in pick(first, last).tolist()]
    else:
        head = [number_text(value) for value in pick(first, first + _SHOWN).tolist()]
        tail = [number_text(value) for value in pick(last - _SHOWN, last).tolist()]
        shown = [*head, "...", *tail]
    return f"{{ {', '.join(shown)} }}"


def values_text(pick: Pick, shape: tuple[int, ...]) -> str:
    """A preview of the values of a shape, read through `pick(first, last)`."""
    count = int(np.prod(shape, dtype=object))
    if len(shape) < 2:
        return _row(pick, 0, count)
    rows = min(shape[0], len(shape), _SHOWN)
    per_row = count // shape[0] if shape[0] else 0
    lines = ["{ ", *(f"{_row(pick, row * per_row, (row + 1) * per_row)} ," for row in range(rows))]
    if rows < shape[0]:
        lines.append("...")
    return "\n".join([*lines, "}"])


def _dims(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(str(dim) for dim in shape)}]"


def metadata_text(name: str, typed: TypedValue) -> str:
    """One metadata value: `NAME: TYPE = VALUE`."""
    value = typed.value
    if isinstance(value, str):
        return f'{name}: str = "{printable(value)}"'
    if isinstance(value, Bitset):
        shown = " ".join(f"{byte:02x}" for byte in value.stored()[:_BITSET_BYTES])
        return f"{name}: bitset[{len(value)}] = {shown}".rstrip(" ")
    if isinstance(value, np.ndarray):
        return f"{name}: {typed.dtype}{_dims(value.shape)} = {values_text(_picker(typed, value), value.shape)}"
    return f"{name}: {typed.dtype} = {number_text(value)}"


def _picker(typed: TypedValue, array: Array) -> Pick:
    kind = value_type(typed.dtype)
    flat = array.reshape(-1)

    def pick(first: int, last: int) -> Array:
        part = flat[first:last]
        return part if kind.is_packed else plain_numbers(part.view(np.uint8), kind)

    return pick


def tensor_lines(tensor: StoredTensor, statistics: Statistics | None, *, style: Style, values: bool) -> Iterator[str]:
    """The lines of one tensor: signature and preview, statistics, quantisation."""
    single = tensor.size == 1
    yield _signature(tensor, style=style, values=values)
    if statistics is not None and tensor.size > 1:
        yield statistics_line(statistics, _shown_nbytes(tensor, style))
        yield histogram_line(statistics)
    quant = tensor.quant
    if quant is not None and (style == "current" or (tensor.size > 1 and not single)):
        yield quant_line(quant)


def _signature(tensor: StoredTensor, *, style: Style, values: bool) -> str:
    head = f"{tensor.name}: {tensor.dtype}"
    if not tensor.has_data:
        return f"{head}{_dims(tensor.shape)} -- uninitialized"
    if tensor.size == 0:
        return f"{head}{_dims(tensor.shape)} -- {'empty' if style == 'current' else 'uninitialized'}"
    if not values:
        return head + (_dims(tensor.shape) if tensor.ndim else "")
    if tensor.ndim == 0 or (tensor.size == 1 and style == "reference"):
        return f"{head} = {number_text(tensor.numbers(0, 1)[0].item())}"
    return f"{head}{_dims(tensor.shape)} = {values_text(tensor.numbers, tensor.shape)}"


def _shown_nbytes(tensor: StoredTensor, style: Style) -> int:
    if style == "current":
        return tensor.nbytes
    # The older text counts the decoded array: four bytes for bf16 and f8, one for packed types.
    if tensor.dtype in ("bf16", "f8"):
        return tensor.size * 4
    return tensor.size if tensor.is_packed else tensor.nbytes


def statistics_line(statistics: Statistics, nbytes: int) -> str:
    parts = [f"nbytes: {nbytes}"]
    for name, value in (
        ("min", statistics.minimum),
        ("max", statistics.maximum),
        ("mean", statistics.mean),
        ("median", statistics.median),
        ("std", statistics.std),
    ):
        parts.append(f"{name}: {'skipped' if value is None else f'{value:.6g}'}")
    if statistics.nan or statistics.inf:
        parts.append(f"nan: {statistics.nan}, inf: {statistics.inf}")
    return f"- [{', '.join(parts)}]"


def histogram_line(statistics: Statistics) -> str:
    bins = ", ".join(f"([{each.low:.6g}, {each.high:.6g}], {each.count})" for each in statistics.histogram)
    return f"- hist: {{{bins}}}"


def quant_line(quant: QuantParams) -> str:
    scale, zero_point = quant.scale, quant.zero_point
    zero = "none" if zero_point is None else _part_text(zero_point.axis, zero_point.values)
    return f"- quant: scheme={quant.scheme}, scale={_part_text(scale.axis, scale.values)}, zero_point={zero}"


def _part_text(axis: int | None, values: Array) -> str:
    if axis is None:
        return f"per_tensor({number_text(values[0].item())})"
    return f"per_channel(axis={axis}, count={values.size})"
