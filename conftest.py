"""Options of pytest for environments that repeat on one interpreter what another runs whole: samples of tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

Sample = tuple[Path, int]


def pytest_addoption(parser: pytest.Parser) -> None:
    for option, what in (
        ("--sample", "one test in N of each file in a folder, the last included"),
        ("--cases", "one case in N of each parametrised test in a folder, the last included"),
    ):
        parser.addoption(
            option,
            action="append",
            default=[],
            type=_sample,
            metavar="FOLDER=N",
            help=f"run {what} (may be given for several folders)",
        )


def _sample(text: str) -> Sample:
    folder, _, number = text.rpartition("=")
    path = Path(folder).resolve()
    if not path.is_dir() or not number.isdecimal() or int(number) == 0:
        message = f"{text!r}: expected the path of a folder, `=` and a number from 1 on"
        raise pytest.UsageError(message)
    return path, int(number)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # From the end: files often begin with the test that takes longest, and a repetition need not.
    samples: list[Sample] = config.getoption("--sample")
    cases: list[Sample] = config.getoption("--cases")
    dropped = _dropped(items, samples, lambda item: str(item.path))
    dropped |= _dropped(items, cases, lambda item: item.nodeid.partition("[")[0])
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def _dropped(items: list[pytest.Item], samples: list[Sample], group: Callable[[pytest.Item], str]) -> set[pytest.Item]:
    """Return what is not in the samples: all but each N-th item of a group, counted from its last."""
    met, dropped = Counter[str](), set[pytest.Item]()
    for item in reversed(items):
        step = max((number for folder, number in samples if item.path.is_relative_to(folder)), default=1)
        if met[group(item)] % step:
            dropped.add(item)
        met[group(item)] += 1
    return dropped
