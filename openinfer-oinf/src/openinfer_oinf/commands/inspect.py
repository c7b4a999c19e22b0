"""`oinf inspect`: what a file holds, from its index alone."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("inspect", help="list what a file holds without touching its payloads")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("names", nargs="*", metavar="NAME", help="list these entries only")
    parser.add_argument("--offsets", action="store_true", help="show where sections and payloads lie, in bytes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 when the index is valid and has the names; otherwise raises `OinfError`."""
    from ..inspection import inspect_json, inspect_text

    if arguments.json:
        sys.stdout.write(json.dumps(inspect_json(arguments.file, arguments.names), indent=1) + "\n")
    else:
        sys.stdout.write(inspect_text(arguments.file, arguments.names, offsets=arguments.offsets))
    return 0
