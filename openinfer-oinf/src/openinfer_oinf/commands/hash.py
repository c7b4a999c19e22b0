"""`oinf hash`: digests of files and of their contents."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..errors import shown

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("hash", help="print digests of files, and of their content in any layout")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--tensors", action="store_true", help="list a digest for each tensor, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0, or raises `OinfError` for an invalid file."""
    from ..progress import progress_bar

    with progress_bar("hashing", quiet=arguments.json):
        reports = [_digests(path, tensors=arguments.tensors) for path in arguments.files]
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(report) for report in reports], indent=1) + "\n")
        return 0
    for path, report in zip(arguments.files, reports, strict=True):
        sys.stdout.write(f"file     {report.file}  {shown(path)}\ncontent  {report.content}  {shown(path)}\n")
        for name, digest in (report.tensors or {}).items():
            sys.stdout.write(f"tensor   {digest or 'without data'}  {name}\n")
    return 0


@dataclass(frozen=True)
class _Digests:
    path: str
    file: str
    content: str
    tensors: dict[str, str | None] | None


def _digests(path: str, *, tensors: bool) -> _Digests:
    from ..digest import content_digest, file_digest
    from ..reader import open_oinf

    with open_oinf(path) as file:
        each_tensor = (
            {each.name: each.sha256() if each.has_data else None for each in file.tensors()} if tensors else None
        )
        return _Digests(path, file_digest(path), content_digest(file), each_tensor)
