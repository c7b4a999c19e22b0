"""`oinf upgrade`, `oinf downgrade`, `oinf canonicalize`: the same content written again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    _add(subparsers, "upgrade", "write a file in format version 2", version=2, check="strict")
    _add(
        subparsers,
        "downgrade",
        "write a file in format version 1 (without quantised tensors)",
        version=1,
        check="strict",
    )
    canonicalize = _add(
        subparsers, "canonicalize", "rewrite a slightly wrong file in canonical form", version=None, check="compat"
    )
    canonicalize.add_argument("--align", type=int, default=8, metavar="BYTES", help="alignment of tensor data")


def _add(subparsers: Subparsers, name: str, text: str, *, version: int | None, check: str) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=text)
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("target", metavar="DST", help="replaced in one step when complete; may be SRC")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=run, version=version, check=check, align=8)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """0, or raises `OinfError` or `OSError`; a target that exists is replaced in one step."""
    from ..progress import progress_bar
    from ..reader import open_oinf
    from ..rewrite import rewrite_oinf
    from ..written import print_written

    version = arguments.version
    if version is None:
        with open_oinf(arguments.source, check=arguments.check) as file:
            version = file.version
    with progress_bar("writing", quiet=arguments.json):
        rewrite_oinf(arguments.source, arguments.target, version=version, align=arguments.align, check=arguments.check)
    print_written(arguments.target, as_json=arguments.json, version=version)
    return 0
