"""`oinf salvage`: repair files that a writer of version 2 left with misplaced quantisation parameters."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("salvage", help="repair a file whose payloads are not in the order of its index")
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("target", metavar="DST", help="replaced in one step when complete; may be SRC")
    parser.add_argument("--json", action="store_true", help="print what was written and moved as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0, or raises `OinfError` (also for a file that needs no repair) or `OSError`."""
    from ..progress import progress_bar
    from ..salvage import salvage_oinf
    from ..written import print_written

    with progress_bar("salvaging", quiet=arguments.json):
        count = salvage_oinf(arguments.source, arguments.target)
    if not arguments.json:
        sys.stdout.write(f"{count} tensors had other offsets than their index said\n")
    print_written(arguments.target, as_json=arguments.json, moved=count)
    return 0
