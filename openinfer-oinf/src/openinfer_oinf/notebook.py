"""What notebooks show of containers and tensors; every text from a file is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

from .errors import printable
from .reader import OinfFile
from .sizes import size_text
from .tensor import StoredTensor
from .textform import metadata_text

_ROWS = 100


def file_html(file: OinfFile) -> str:
    """A heading and tables of size variables, metadata and tensors, at most 100 rows each; no payload is touched."""
    sizevars = [[name, str(value)] for name, value in islice(file.sizevars.items(), _ROWS)]
    metadata = [[name, _brief(file, name)] for name in islice(file.metadata, _ROWS)]
    tensors = [_tensor_row(tensor) for tensor in islice(file.tensors(), _ROWS)]
    return "".join(
        [
            f"<p><b>oinf</b> version {file.version}, {escape(size_text(file.file_size))}</p>",
            _table(("size variable", "value"), sizevars, len(file.sizevars)),
            _table(("metadata", "value"), metadata, len(file.metadata)),
            _table(("tensor", "dtype", "shape", "size"), tensors, len(file)),
        ]
    )


def tensor_html(tensor: StoredTensor) -> str:
    """A table of one row."""
    return _table(("tensor", "dtype", "shape", "size"), [_tensor_row(tensor)], 1)


def _brief(file: OinfFile, name: str) -> str:
    typed = file.metadata.typed(name)
    return metadata_text(name, typed).removeprefix(f"{name}: ").split("\n")[0][:_ROWS]


def _tensor_row(tensor: StoredTensor) -> list[str]:
    size = size_text(tensor.nbytes) if tensor.has_data else "no data"
    quant = ", quantised" if tensor.has_quant else ""
    return [tensor.name, tensor.dtype, str(list(tensor.shape)), size + quant]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> str:
    if not rows:
        return ""
    more = f"<caption>the first {len(rows)} of {total}</caption>" if total > len(rows) else ""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f"<table>{more}<thead><tr>{_cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(kind: str, texts: Iterable[str]) -> str:
    return "".join(f"<{kind}>{escape(printable(text))}</{kind}>" for text in texts)
