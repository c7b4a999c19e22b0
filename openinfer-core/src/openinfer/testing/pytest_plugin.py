"""The pytest plugin of the conformance kit: its options, one test per operator and element type, one per program.

``pytest --pyargs openinfer.testing.conformance --openinfer-device NAME`` runs the kit against a device.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from openinfer.plugins.environment import Environment

CASES_ON = "conformance cases on "
"""A property of a test has this name and that of a device or target: how many cases it ran there."""

WHOLE_PROGRAMS = Path(__file__).parent / "conformance" / "test_programs.py"

RANDOM_PROGRAMS = Path(__file__).parent / "conformance" / "test_random_programs.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the kit's options."""
    group = parser.getgroup("openinfer", "OpenInfer conformance")
    group.addoption(
        "--openinfer-device",
        action="append",
        default=[],
        metavar="NAME",
        help="device that the conformance tests of openinfer.testing.conformance run on (repeatable; default cpu)",
    )
    group.addoption(
        "--openinfer-target",
        action="append",
        default=[],
        metavar="NAME",
        help="synth target whose programs, built and run as for users, the conformance tests check (repeatable)",
    )
    group.addoption(
        "--openinfer-op",
        action="append",
        default=[],
        metavar="NAME",
        help="operator to test (repeatable; default all, and whole programs)",
    )
    group.addoption(
        "--openinfer-sample",
        type=_count,
        default=1,
        metavar="N",
        help="run about one case in N, the same ones each time, and one or more of each operator and type (default 1)",
    )
    group.addoption(
        "--openinfer-random",
        type=_count,
        default=0,
        metavar="N",
        help="run N random programs too, and compare them with device cpu (default none)",
    )
    group.addoption(
        "--openinfer-seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of random programs: those of a seed and a number are the same each time (default 0)",
    )
    group.addoption(
        "--openinfer-gpu",
        action="store_true",
        help="compare random programs as GPUs may round: all but the simplest arithmetic on floats within a tolerance, "
        "and subnormals may be zero (default: as devices that divide exactly and keep subnormals)",
    )
    group.addoption(
        "--openinfer-allow-missing",
        action="store_true",
        help="skip operators and types that the device or target does not support, with the reason, instead of failing",
    )


def _count(text: str) -> int:
    """Return a number of cases, as `argparse` wants types of options."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave whole programs out where operators are named, and random ones where none is requested.

    A test of no programs would count as skipped.
    """
    is_left_out = {
        WHOLE_PROGRAMS: bool(config.getoption("--openinfer-op")),
        RANDOM_PROGRAMS: not config.getoption("--openinfer-random"),
    }
    return is_left_out.get(collection_path) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per device or target, operator and element type, and one per device or target and program."""
    made_of: dict[str, Callable[[pytest.Config], Sequence[tuple[str | int, ...]]]] = {
        "openinfer_cell": _cells,
        "openinfer_program": _programs,
        "openinfer_random": _random_programs,
    }
    asked = [name for name in made_of if name in metafunc.fixturenames]
    if not asked:
        return
    import pytest

    from openinfer.errors import OpenInferError

    for name in asked:
        try:
            cells = made_of[name](metafunc.config)
        except OpenInferError as error:
            raise pytest.UsageError(str(error)) from None
        # The kind is named because a device and a target may have the same name.
        kinds = {kind for kind, *_ in cells}
        ids = ["-".join(map(str, cell if len(kinds) > 1 else cell[1:])).replace(" ", "-") for cell in cells]
        metafunc.parametrize(name, cells, ids=ids)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many cases ran on each device and target."""
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                counts.update({name: ran for name, ran in report.user_properties if name.startswith(CASES_ON)})
    for name, ran in counts.items():
        terminalreporter.write_line(f"{name}: {ran}")


def _cells(config: pytest.Config) -> list[tuple[str, str, str, str]]:
    """Return kind and name of a place, operator and element type of each test.

    Raises:
        OpenInferError: a device, target or operator is unknown.
    """
    from openinfer.plugins.environment import Environment
    from openinfer.testing.values import types_of_language

    environment = Environment.default()
    named: list[str] = config.getoption("--openinfer-op") or sorted(environment.ops)
    ops = [environment.op(name) for name in named]
    return [
        (kind, place, op.name, dtype)
        for kind, place in _places(config, environment)
        for op in ops
        for dtype in types_of_language(environment.dtypes)
        if dtype in op.dtypes
    ]


def _programs(config: pytest.Config) -> list[tuple[str, str, str]]:
    """Return kind and name of a place, and the name of a whole program, of each test.

    Raises:
        OpenInferError: a device or target is unknown.
    """
    from openinfer.plugins.environment import Environment
    from openinfer.testing.whole_programs import whole_programs

    places = _places(config, Environment.default())
    return [(kind, place, program.name) for kind, place in places for program in whole_programs()]


def _random_programs(config: pytest.Config) -> list[tuple[str, str, int, int]]:
    """Return kind and name of a place, the seed and the number of a random program, of each test.

    Raises:
        OpenInferError: a device or target is unknown, or the device cpu is not installed.
    """
    from openinfer.plugins.environment import Environment
    from openinfer.testing.random_programs.checking import REFERENCE

    environment = Environment.default()
    environment.device(REFERENCE)
    seed: int = config.getoption("--openinfer-seed") or 0
    count: int = config.getoption("--openinfer-random") or 0
    return [(kind, place, seed, number) for kind, place in _places(config, environment) for number in range(count)]


def _places(config: pytest.Config, environment: Environment) -> list[tuple[str, str]]:
    """Return kind and name of each device and target to test.

    Raises:
        OpenInferError: one is unknown.
    """
    targets: list[str] = config.getoption("--openinfer-target") or []
    devices: list[str] = config.getoption("--openinfer-device") or ([] if targets else ["cpu"])
    places = [("device", environment.device(name).name) for name in devices]
    return places + [("target", environment.target(name).name) for name in targets]
