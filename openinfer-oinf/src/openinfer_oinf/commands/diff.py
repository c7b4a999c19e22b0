"""`oinf diff`: what differs between two files. Exit codes: 0 the same, 1 different, 2 errors."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("diff", help="show what differs between two files")
    parser.add_argument("first", metavar="A")
    parser.add_argument("second", metavar="B")
    parser.add_argument(
        "--values",
        action="store_true",
        help="compare values element by element; real values of quantised tensors",
    )
    parser.add_argument("--rtol", type=_tolerance, default=0.0, help="relative tolerance (implies --values)")
    parser.add_argument("--atol", type=_tolerance, default=0.0, help="absolute tolerance (implies --values)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, invalid_status=2)


def _tolerance(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not zero or greater")
    return value


def run(arguments: argparse.Namespace) -> int:
    """0 when nothing differs, else 1; invalid files raise `OinfError`."""
    from ..difference import differences
    from ..progress import progress_bar
    from ..reader import open_oinf

    values = arguments.values or arguments.rtol > 0 or arguments.atol > 0
    with (
        open_oinf(arguments.first) as first,
        open_oinf(arguments.second) as second,
        progress_bar("comparing", quiet=arguments.json),
    ):
        found = list(differences(first, second, values=values, rtol=arguments.rtol, atol=arguments.atol))
    if arguments.json:
        sys.stdout.write(json.dumps([each.to_json() for each in found], indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{each}\n" for each in found)
    return 1 if found else 0
