"""`oinf quantize`: float tensors of a file as integers with scales."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cli import Subparsers


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("quantize", help="write a file with its float tensors quantised")
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("target", metavar="DST", help="replaced in one step when complete; may be SRC")
    parser.add_argument("--dtype", default="i8", metavar="TYPE", help="i2 to i32, u1 to u32 (default: i8)")
    parser.add_argument(
        "--scheme", choices=("symmetric", "asymmetric"), default="symmetric", help="asymmetric: with a zero point"
    )
    parser.add_argument("--axis", type=int, metavar="N", help="one scale per index of this axis, not per tensor")
    parser.add_argument("--clip", type=float, metavar="X", help="limit magnitudes to X first")
    parser.add_argument(
        "--include",
        action="append",
        metavar="PATTERN",
        help="only tensors of matching names; of rank 1 only those named in full",
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="leave tensors of matching names as they are"
    )
    parser.add_argument("--json", action="store_true", help="print what was written and lost as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0, or raises `OinfError` (also when no tensor matches) or `OSError`; prints the error of each tensor."""
    from ..inspection import aligned
    from ..progress import progress_bar
    from ..quantizefile import QuantizeOptions, quantize_oinf
    from ..written import written_json, written_text

    options = QuantizeOptions(
        dtype=arguments.dtype,
        scheme=arguments.scheme,
        axis=arguments.axis,
        clip=arguments.clip,
        include=arguments.include or ("*",),
        exclude=arguments.exclude,
    )
    with progress_bar("quantising", quiet=arguments.json):
        errors = quantize_oinf(arguments.source, arguments.target, options)
    if arguments.json:
        tensors = [{"name": name, **error.to_json()} for name, error in errors.items()]
        document = {"written": written_json(arguments.target), "tensors": tensors}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return 0
    rows = [
        [name, f"max {error.largest:.6g}", f"mean {error.mean:.6g}", f"snr {error.snr_db:.1f} dB"]
        for name, error in errors.items()
    ]
    sys.stdout.writelines(f"{line}\n" for line in (*aligned(rows), written_text(arguments.target)))
    return 0
