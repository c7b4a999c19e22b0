"""Add up the JUnit reports that the tox environments wrote: `report.py REPORTS TOX_INI`.

Prints a line per environment, every reason for a skip with its count and the environments it happened in, the
environments that gave no results, what is to be the same in all environments, and a total. Exits 1 where a test
failed, where an environment gave no results for another reason than that its interpreter is absent, or where something
differs that tests record as `SAME`.
"""

import configparser
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

SAME = "same in every environment: "
"""What the names of properties begin with whose values are not to differ between environments."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The counts of one environment, its skips as (test, reason), and values that others are to have too."""

    environment: str
    passed: int
    failed: int
    seconds: float
    skips: tuple[tuple[str, str], ...]
    same: dict[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        counts = [(self.failed, "failed"), (self.passed, "passed"), (len(self.skips), "skipped")]
        shown = ", ".join(f"{count} {word}" for count, word in counts if count or word == "passed")
        return f"{shown} in {self.seconds:.2f}s"


def read_report(path: Path) -> Report:
    passed, failed, seconds = 0, 0, 0.0
    skips: list[tuple[str, str]] = []
    same: dict[str, str] = {}
    for suite in ET.parse(path).iter("testsuite"):
        seconds += float(suite.get("time", "0"))
        for each in suite.iterfind("properties/property"):
            if each.get("name", "").startswith(SAME):
                same[each.get("name", "").removeprefix(SAME)] = each.get("value", "")
        for case in suite.iter("testcase"):
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif skipped is not None:
                skips.append(
                    (f"{case.get('classname')}::{case.get('name')}", skipped.get("message", "no reason given"))
                )
            else:
                passed += 1
    return Report(environment=path.stem, passed=passed, failed=failed, seconds=seconds, skips=tuple(skips), same=same)


def environments(tox_ini: Path) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(tox_ini, encoding="utf-8")
    return parser["tox"]["env_list"].split()


def skips_by_reason(reports: list[Report]) -> dict[str, list[str]]:
    """Where each reason was given: environments, one mention per test."""
    found: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        for _test, reason in report.skips:
            found[reason].append(report.environment)
    return dict(found)


def test_environments(tox_ini: Path) -> list[str]:
    """The environments that run pytest, in the order of tox."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(tox_ini, encoding="utf-8")
    sections = {
        name: parser[f"testenv:{name}" if f"testenv:{name}" in parser else "testenv"] for name in environments(tox_ini)
    }
    default = parser["testenv"]["commands"]
    return [name for name, section in sections.items() if "[testenv]pytest" in section.get("commands", default)]


def is_interpreter(environment: str) -> bool:
    """Whether an environment may be absent because its interpreter is."""
    return re.fullmatch(r"py3\d+", environment) is not None


def compared(reports: list[Report]) -> dict[str, dict[str, list[str]]]:
    """The environments by value, for each name that is not to differ."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for name, value in report.same.items():
            found[name][value].append(report.environment)
    return {name: dict(values) for name, values in found.items()}


def compared_lines(reports: list[Report]) -> list[str]:
    """A line for each name, with the value where it differs."""
    lines: list[str] = []
    for name, values in compared(reports).items():
        shown = [f"{value} [{', '.join(places)}]" for value, places in values.items()]
        same = ", ".join(next(iter(values.values())))
        lines.append(f"{name} differs: {'; '.join(shown)}" if len(values) > 1 else f"{name} is the same [{same}]")
    return lines


def total(reports: list[Report]) -> Report:
    return Report(
        environment="total",
        passed=sum(report.passed for report in reports),
        failed=sum(report.failed for report in reports),
        seconds=sum(report.seconds for report in reports),
        skips=tuple(skip for report in reports for skip in report.skips),
    )


def absent(reports: list[Report], expected: list[str]) -> list[str]:
    found = {report.environment for report in reports}
    return [name for name in expected if name not in found]


def describe(reports: list[Report], expected: list[str]) -> list[str]:
    """The lines to print; `expected` are the environments that should have results."""
    lines = [f"{report.environment:<12} {report.summary()}" for report in reports]
    missing = absent(reports, expected)
    for name in missing:
        why = (
            "this interpreter was not found, or its environment failed"
            if is_interpreter(name)
            else "it failed to start"
        )
        lines.append(f"{name:<12} no results: {why}")
    reasons = skips_by_reason(reports)
    lines += [
        f"skipped x{len(places)}: {reason} [{', '.join(sorted(set(places)))}]" for reason, places in reasons.items()
    ]
    lines += compared_lines(reports)
    wanted = [name for name in expected if is_interpreter(name)]
    tested = f"{len(wanted) - len(absent(reports, wanted))} of {len(wanted)} interpreters"
    return [*lines, f"==== {total(reports).summary()} ({tested}) ===="]


def main() -> None:
    folder, tox_ini = (Path(argument) for argument in sys.argv[1:])
    reports = [read_report(path) for path in sorted(folder.glob("*.xml"))]
    if not reports:
        message = f"no test reports in {folder}: no environment got as far as its tests"
        raise SystemExit(message)
    expected = test_environments(tox_ini)
    print("\n".join(describe(reports, expected)))
    is_lacking = any(not is_interpreter(name) for name in absent(reports, expected))
    if total(reports).failed or is_lacking or any(len(values) > 1 for values in compared(reports).values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
