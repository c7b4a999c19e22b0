"""Repairing files whose quantisation parameters lie elsewhere than their index says.

One writer of version 2 computed offsets for the order data, quant, data, quant, ..., then wrote all data first and all
quantisation parameters after. Sizes and order are known from the index, so the true offsets can be derived.
"""

from __future__ import annotations

from dataclasses import replace

from .errors import Finding, Findings, OinfError, naming_source
from .header import read_header
from .layout import up8
from .limits import Limits
from .payloads import check_metadata, check_placement, check_quant_headers
from .reader import OinfFile, open_oinf
from .rewrite import rewrite_file
from .source import ByteSource, Openable, open_source
from .tables import Index, TensorEntry, read_tables
from .writer import WriteTarget


def salvage_oinf(source: Openable, target: WriteTarget) -> int:
    """Rewrite a file of grouped payloads with a corrected index; returns how many tensors were misplaced.

    Raises `OinfError`: E_SALVAGE for a file that is valid, or damaged in another way (with the findings if its
    payloads are taken as grouped), and `OSError`.
    """
    with naming_source(source):
        return _salvaged(source, target)


def _salvaged(source: Openable, target: WriteTarget) -> int:
    if _is_sound(source):
        raise _rejected("the file is sound; canonicalize writes it again")
    data = open_source(source, "auto")
    try:
        findings, limits = Findings(), Limits()
        header = read_header(data, limits, findings)
        stated = read_tables(bytes(data.view(0, header.offset_data)), header, limits, findings)
        findings.raise_errors()
        index = _grouped(stated)
        file = _opened(index, data, limits)
        rewrite_file(file, target)
    finally:
        data.close()
    return sum(first != second for first, second in zip(stated.tensors, index.tensors, strict=True))


def _is_sound(source: Openable) -> bool:
    try:
        with open_oinf(source, verify="eager"):
            return True
    except OinfError:
        return False


def _rejected(message: str, *findings: Finding) -> OinfError:
    return OinfError(Finding(code="E_SALVAGE", message=message), *findings)


def _grouped(index: Index) -> Index:
    """The index with offsets of payloads that lie one after the other: data of all tensors, then their quantisation."""
    starts = [entry.offset for entry in index.tensors if entry.nbytes]
    starts += [entry.quant_offset for entry in index.tensors if entry.quant_nbytes]
    place = min(starts, default=index.header.offset_data)
    tensors: list[TensorEntry] = []
    for entry in index.tensors:
        tensors.append(entry._replace(offset=place) if entry.nbytes else entry)
        place = up8(place + entry.nbytes)
    for at, entry in enumerate(tensors):
        if entry.quant_nbytes:
            tensors[at] = entry._replace(quant_offset=place)
            place = up8(place + entry.quant_nbytes)
    if place > index.header.file_size:
        raise _rejected("the payloads do not fit the file in any order")
    return replace(index, tensors=tuple(tensors))


def _opened(index: Index, data: ByteSource, limits: Limits) -> OinfFile:
    """The file as the new index has it, when that makes all of it sound."""
    findings = Findings()
    check_metadata(index, data, limits, findings)
    check_quant_headers(index, data, findings)
    gaps = check_placement(index, data, findings)
    try:
        findings.raise_errors()
        file = OinfFile(index, gaps, data, limits=limits, check="strict", verify="lazy")
        for tensor in file.tensors():
            findings.extend(tensor.gap_findings())
            findings.extend(tensor.quant_findings())
            tensor.check_values()
        findings.raise_errors()
    except OinfError as error:
        raise _rejected("the file is broken in another way than by grouped payloads", *error.findings) from error
    return file
