"""What every test runs with: the option `--sample FOLDER=N`, and a disk that is not waited for.

The option is for environments that repeat on one interpreter what another one runs whole.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        action="append",
        default=[],
        type=_sample,
        metavar="FOLDER=N",
        help="run one test in N of each file in a folder, the last included (may be given for several folders)",
    )


def pytest_configure() -> None:
    # No test cuts the power, and waiting for the disk takes much of the time of tests that write files. Tests of what a
    # failure of this call does replace it themselves.
    os.fsync = _written


def _written(descriptor: int) -> None:
    """Stand in for `os.fsync`, which fails as well where the descriptor is closed."""
    os.fstat(descriptor)


def _sample(text: str) -> tuple[Path, int]:
    folder, _, number = text.rpartition("=")
    path = Path(folder).resolve()
    if not path.is_dir() or not number.isdecimal() or int(number) == 0:
        message = f"{text!r}: expected the path of a folder, `=` and a number from 1 on"
        raise pytest.UsageError(message)
    return path, int(number)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    samples: list[tuple[Path, int]] = config.getoption("--sample")
    met, dropped = Counter[Path](), set[pytest.Item]()
    # From the end: files often begin with the test that takes longest, and a repetition need not.
    for item in reversed(items):
        step = max((number for folder, number in samples if item.path.is_relative_to(folder)), default=1)
        if met[item.path] % step:
            dropped.add(item)
        met[item.path] += 1
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]
