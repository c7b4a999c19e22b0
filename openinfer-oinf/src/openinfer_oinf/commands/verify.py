"""`oinf verify`: check files completely and print what they hold."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from ..errors import OinfError, shown
from ..failures import file_failure, finding_text, invalid_failure

if TYPE_CHECKING:
    from ..cli import Subparsers
    from ..verify import Report


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("verify", help="check files completely and print what they hold")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--no-stats", action="store_true", help="leave statistics and histograms out")
    parser.add_argument("--no-values", action="store_true", help="leave previews of tensor values out")
    parser.add_argument("--deep", action="store_true", help="compare tensors with the file's checksums")
    parser.add_argument("--exact", action="store_true", help="compute the median of tensors of any size")
    parser.add_argument("--compat", action="store_true", help="accept faults that do not endanger memory safety")
    parser.add_argument(
        "--style",
        choices=("current", "reference"),
        default="current",
        help="reference: print the lines of the reference implementation",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON value per file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 when every file is valid, 1 when one is not or cannot be read; all are checked."""
    return max(_verify_one(path, arguments) for path in arguments.files)


def _verify_one(path: str, arguments: argparse.Namespace) -> int:
    from ..cli import INVALID, status_of
    from ..verify import invalid_json

    try:
        report = _report(path, arguments)
    except OSError as error:
        failure = file_failure(error, INVALID)
    except OinfError as error:
        failure = invalid_failure(error, status_of(error))
    else:
        return _print(path, report, arguments)
    if arguments.json:
        sys.stdout.write(invalid_json(path, failure) + "\n")
    elif failure.findings:
        sys.stderr.writelines(f"{finding_text(finding, shown(path))}\n" for finding in failure.findings)
    else:
        sys.stderr.write(f"{failure.text}\n")
    return failure.exit_status


def _print(path: str, report: Report, arguments: argparse.Namespace) -> int:
    if arguments.json:
        sys.stdout.write(json.dumps(report.to_json(), indent=1) + "\n")
        return 0
    sys.stdout.write(report.text)
    for finding in report.warnings:
        sys.stderr.write(f"{finding_text(finding, shown(path))}\n")
    if arguments.style == "current":
        sys.stdout.write(f"{shown(path)}: valid\n")
    return 0


def _report(path: str, arguments: argparse.Namespace) -> Report:
    from ..progress import progress_bar
    from ..verify import verify_oinf

    with progress_bar("verifying", quiet=arguments.json):
        return verify_oinf(
            path,
            file=False,
            stats=not arguments.no_stats,
            values=not arguments.no_values,
            style=arguments.style,
            exact=arguments.exact,
            deep=arguments.deep,
            check="compat" if arguments.compat else "strict",
        )
