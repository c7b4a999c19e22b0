"""Checking a whole container, every byte of it, and printing what it holds."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal, TextIO, cast

import numpy as np

from .checksums import checksum_findings
from .errors import CheckLevel, Finding, Findings, OinfError
from .failures import Failure, finding_json
from .limits import Limits
from .metadata import Bitset, TypedValue
from .progress import advance, expect
from .quant import QuantParams
from .reader import OinfFile, check_all_values, open_oinf
from .source import Openable
from .statistics import Statistics, statistics_of
from .tensor import StoredTensor
from .textform import Style, metadata_text, tensor_lines

_JSON_ELEMENTS = 64


@dataclass(frozen=True, kw_only=True)
class TensorSummary:
    """What a report says of a tensor; `statistics` only if they were requested and there are values."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    has_data: bool
    offset: int
    nbytes: int
    quant: QuantParams | None
    statistics: Statistics | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A container that was found valid: what it holds, what is odd about it, and the text form."""

    path: str
    version: int
    file_size: int
    sizevars: dict[str, int]
    metadata: dict[str, TypedValue]
    tensors: tuple[TensorSummary, ...]
    warnings: tuple[Finding, ...] = ()
    text: str = field(default="", repr=False)

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`; NaN and infinities are strings."""
        return {
            "path": self.path,
            "valid": True,
            "version": self.version,
            "file_size": self.file_size,
            "sizevars": dict(self.sizevars),
            "metadata": {name: typed_json(typed) for name, typed in self.metadata.items()},
            "tensors": [_tensor_json(tensor) for tensor in self.tensors],
            "findings": [finding_json(finding) for finding in self.warnings],
        }


def verify_oinf(
    path: Openable,
    *,
    file: TextIO | Literal[False] | None = None,
    stats: bool = True,
    style: Style = "current",
    values: bool = True,
    exact: bool = False,
    deep: bool = False,
    check: CheckLevel = "strict",
    limits: Limits | None = None,
) -> Report:
    """Check a file completely, payload values included, then print its summary.

    Prints to `file` (standard output if None, nothing if False): size variables, metadata, and each tensor with a
    preview (unless `values=False`) and statistics (unless `stats=False`; `exact` computes the median of any size).
    `deep` compares tensors with the checksums of the file, if it has them.
    `style="reference"` prints what the reference verifier does. Raises `OinfError` with all findings.
    """
    if style not in ("current", "reference"):
        raise ValueError(f"style={style!r}: expected `current` or `reference`")
    label = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    with open_oinf(path, check=check, limits=limits, verify="off") as opened:
        warnings = _check_values(opened, check, label, deep=deep)
        report, blocks = _summarise(opened, label, warnings, stats=stats, style=style, values=values, exact=exact)
    if file is not False:
        out = sys.stdout if file is None else file
        out.write(blocks)
    return report


def _check_values(opened: OinfFile, check: CheckLevel, label: str, *, deep: bool) -> tuple[Finding, ...]:
    findings = Findings(check)
    try:
        check_all_values(opened, findings)
        if deep:
            findings.extend(checksum_findings(opened))
        findings.raise_errors()
    except OinfError as error:
        raise OinfError(*opened.warnings, *error.findings, source=label) from None
    return opened.warnings + findings.warnings()


def _summarise(
    opened: OinfFile,
    label: str,
    warnings: tuple[Finding, ...],
    *,
    stats: bool,
    style: Style,
    values: bool,
    exact: bool,
) -> tuple[Report, str]:
    metadata = {name: opened.metadata.typed(name) for name in opened.metadata}
    summaries: list[TensorSummary] = []
    tensor_text: list[str] = []
    expect(opened.file_size)
    for tensor in opened.tensors():
        statistics = _statistics(tensor, exact=exact) if stats else None
        summaries.append(_summary(tensor, statistics))
        lines = tensor_lines(tensor, statistics, style=style, values=values)
        tensor_text.append("\n".join(lines) + "\n\n")
        advance(tensor.nbytes)
    text = "".join([*_table_text(opened, metadata), *tensor_text])
    report = Report(
        path=label,
        version=opened.version,
        file_size=opened.file_size,
        sizevars=dict(opened.sizevars),
        metadata=metadata,
        tensors=tuple(summaries),
        warnings=warnings,
        text=text,
    )
    return report, text


def _table_text(opened: OinfFile, metadata: dict[str, TypedValue]) -> Iterator[str]:
    yield from (f"{name} := {value}\n" for name, value in opened.sizevars.items())
    if opened.sizevars:
        yield "\n"
    yield from (f"{metadata_text(name, typed)}\n" for name, typed in metadata.items())
    if metadata:
        yield "\n"


def _statistics(tensor: StoredTensor, *, exact: bool) -> Statistics | None:
    if not tensor.has_data or tensor.size == 0:
        return None
    kind = tensor.value_type
    return statistics_of(
        tensor.number_blocks, whole_numbers=kind.kind != "float", bools=kind.kind == "bool", exact=exact
    )


def _summary(tensor: StoredTensor, statistics: Statistics | None) -> TensorSummary:
    return TensorSummary(
        name=tensor.name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        has_data=tensor.has_data,
        offset=tensor.offset,
        nbytes=tensor.nbytes,
        quant=tensor.quant,
        statistics=statistics,
    )


def _finite_json(value: object) -> object:
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def typed_json(typed: TypedValue) -> dict[str, object]:
    """A metadata value as plain data: arrays with their shape and at most 64 elements."""
    value = typed.value
    if isinstance(value, Bitset):
        return {"dtype": typed.dtype, "bits": len(value), "value": value.stored().hex()}
    if not isinstance(value, np.ndarray):
        return {"dtype": typed.dtype, "value": _finite_json(value)}
    shown = value.reshape(-1)[:_JSON_ELEMENTS]
    plain = cast("list[object]", shown.astype(np.float32).tolist() if shown.dtype.kind == "V" else shown.tolist())
    return {"dtype": typed.dtype, "shape": list(value.shape), "value": [_finite_json(each) for each in plain]}


def quant_json(quant: QuantParams | None) -> dict[str, object] | None:
    """Quantisation parameters as plain data; values of channels are counted, not listed."""
    if quant is None:
        return None
    parts: dict[str, object] = {"scheme": quant.scheme}
    for name, part in (("scale", quant.scale), ("zero_point", quant.zero_point)):
        if part is None:
            parts[name] = None
        elif part.axis is None:
            parts[name] = _finite_json(part.values[0].item())
        else:
            parts[name] = {"axis": part.axis, "count": part.values.size}
    return parts


def _tensor_json(tensor: TensorSummary) -> dict[str, object]:
    statistics = None
    if tensor.statistics is not None:
        numbers = asdict(tensor.statistics)
        histogram = numbers.pop("histogram")
        statistics = {name: _finite_json(value) for name, value in numbers.items()} | {"histogram": histogram}
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "has_data": tensor.has_data,
        "offset": tensor.offset,
        "nbytes": tensor.nbytes,
        "quant": quant_json(tensor.quant),
        "statistics": statistics,
    }


def invalid_json(path: str, failure: Failure) -> str:
    """What `oinf verify --json` says of a file that is not valid, or that cannot be read."""
    findings = [finding_json(finding) for finding in failure.findings]
    error = {name: value for name, value in failure.to_json().items() if name != "findings"}
    return json.dumps({"path": path, "valid": False, "error": error, "findings": findings}, indent=1)
