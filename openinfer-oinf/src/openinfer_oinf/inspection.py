"""A table of what a container holds, from its index alone: no tensor payload is touched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise

from .failures import finding_json
from .layoutpicture import layout_picture
from .metadata import Bitset
from .reader import OinfFile, open_oinf
from .sizes import size_text
from .source import Openable
from .tensor import StoredTensor
from .textform import metadata_text
from .verify import typed_json


def inspect_text(source: Openable, names: Iterable[str] = (), *, offsets: bool = False) -> str:
    """The table as text; `names` restricts it, `offsets` adds places of sections, metadata and tensors in bytes.

    Raises `OinfError` for an invalid index, `AbsentNameError` for a name that no table has.
    """
    with open_oinf(source) as opened:
        wanted = _wanted(opened, names)
        lines = [repr(opened)[1:-1]]
        if offsets:
            for part in opened.parts:
                lines += ["", *_section_lines(part), "", *layout_picture(part.index)]
        sizevars = [[name, ":=", str(value)] for name, value in opened.sizevars.items() if name in wanted]
        if sizevars:
            lines += ["", "size variables", *aligned(sizevars)]
        metadata = [name for name in opened.metadata if name in wanted]
        if metadata:
            lines += ["", "metadata", *(f"  {_metadata_line(opened, name, offsets=offsets)}" for name in metadata)]
        rows = [_tensor_row(tensor, offsets=offsets) for tensor in opened.tensors() if tensor.name in wanted]
        if rows:
            lines += ["", "tensors", *aligned(rows)]
        if opened.warnings:
            lines += ["", "warnings", *(f"  {finding}" for finding in opened.warnings)]
    return "\n".join(lines) + "\n"


def inspect_json(source: Openable, names: Iterable[str] = ()) -> dict[str, object]:
    """The same as plain data, offsets included. Raises as `inspect_text` does."""
    with open_oinf(source) as opened:
        wanted = _wanted(opened, names)
        return {
            "path": os.fspath(source) if isinstance(source, str | os.PathLike) else "",
            "version": opened.version,
            "file_size": opened.file_size,
            "sections": _sections_json(opened),
            "sizevars": {name: value for name, value in opened.sizevars.items() if name in wanted},
            "metadata": {
                name: typed_json(opened.metadata.typed(name)) | {"offset": opened.metadata.entry(name).offset}
                for name in opened.metadata
                if name in wanted
            },
            "tensors": [_tensor_json(tensor) for tensor in opened.tensors() if tensor.name in wanted],
            "findings": [finding_json(finding) for finding in opened.warnings],
        }


def _sections_json(opened: OinfFile) -> dict[str, int] | None:
    """Where the sections begin; None for a model in shards, whose files each have their own."""
    if opened.parts != (opened,):
        return None
    header = opened.index.header
    return {
        "sizevars": header.offset_sizevars,
        "metadata": header.offset_metadata,
        "tensors": header.offset_tensors,
        "data": header.offset_data,
    }


def _wanted(opened: OinfFile, names: Iterable[str]) -> set[str]:
    every = {*opened.sizevars, *opened.metadata, *opened}
    asked = list(names)
    for name in asked:
        if name not in every:
            opened.tensor(name)  # raises with a suggestion
    return set(asked) or every


def _section_lines(opened: OinfFile) -> list[str]:
    header = opened.index.header
    starts = [
        ("header", 0),
        ("sizevars", header.offset_sizevars),
        ("metadata", header.offset_metadata),
        ("tensors", header.offset_tensors),
        ("data", header.offset_data),
        ("", header.file_size),
    ]
    rows = [[name, f"{start}..{end}", size_text(end - start)] for (name, start), (_, end) in pairwise(starts)]
    return ["sections", *aligned(rows)]


def _metadata_line(opened: OinfFile, name: str, *, offsets: bool) -> str:
    typed = opened.metadata.typed(name)
    place = f"  @{opened.metadata.entry(name).offset}" if offsets else ""
    if typed.is_array or isinstance(typed.value, Bitset):
        return metadata_text(name, typed).split(" = ")[0] + place
    return metadata_text(name, typed) + place


def _tensor_row(tensor: StoredTensor, *, offsets: bool) -> list[str]:
    row = [tensor.name, tensor.dtype, str(list(tensor.shape))]
    row.append(size_text(tensor.nbytes) if tensor.has_data else "no data")
    if offsets:
        row.append(f"@{tensor.offset}..{tensor.offset + tensor.nbytes}" if tensor.has_data else "")
    if tensor.has_quant:
        row.append(f"quant @{tensor.quant_offset}" if offsets else "quant")
    return row


def _tensor_json(tensor: StoredTensor) -> dict[str, object]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "has_data": tensor.has_data,
        "offset": tensor.offset,
        "nbytes": tensor.nbytes,
        "quant_offset": tensor.quant_offset,
        "quant_nbytes": tensor.quant_nbytes,
    }


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines with two blanks before and between columns."""
    columns = max(len(row) for row in rows)
    widths = [max((len(row[at]) for row in rows if at < len(row)), default=0) for at in range(columns)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))).rstrip() for row in rows
    ]
