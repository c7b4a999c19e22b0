"""`oinf extract`: one tensor as a `.npy` file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("extract", help="write one tensor as a .npy file")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("name", metavar="NAME")
    # The name of the output is the user's: names in a file may be "..".
    parser.add_argument("-o", "--output", required=True, metavar="X.npy", help="file to write")
    parser.add_argument("--dequantize", action="store_true", help="write real values as float32")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0, or raises `OinfError` or `OSError`."""
    from ..extraction import extract_npy
    from ..progress import progress_bar
    from ..reader import open_oinf
    from ..written import print_written

    with open_oinf(arguments.file) as file, progress_bar("extracting", quiet=arguments.json):
        extract_npy(file, arguments.name, arguments.output, dequantized=arguments.dequantize)
    print_written(arguments.output, as_json=arguments.json)
    return 0
