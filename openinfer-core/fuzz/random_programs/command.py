"""What the commands of fuzzers share: their options, the loop over numbers, and how a finding is shown."""

from __future__ import annotations

import argparse
import re
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from openinfer.plugins.environment import Environment
from random_programs.c_batches import DEVICE, Build
from random_programs.examining import EMITTED, Finding, Plan

MOST_SHRUNK = 5
"""Findings of a kind that are shrunk; the rest is counted."""

TARGETS = (
    "cpu and any of c (written out in C), names of devices such as vulkan, device-c; traced with +trace at the end; "
    "emitted-vulkan, emitted-c (projects of a target, built and run one by one)"
)


class Fuzzer(Protocol):
    """A kind of things that are drawn by number and examined.

    Attributes:
        noun: what one is called.
        together: how many are examined at once.
    """

    noun: str
    together: int

    def examined(self, numbers: range) -> list[Finding]:
        """Draw and examine some; return what is wrong."""
        ...

    def text(self, number: int) -> str:
        """Return one of those that were examined last, as text."""
        ...

    def small(self, finding: Finding) -> tuple[str, list[str]]:
        """Return the least that is wrong in the same way, as text, and the operators in it."""
        ...

    def repeat(self, number: int) -> str:
        """Return the command that examines one again."""
        ...

    def lines(self) -> Iterable[str]:
        """Return what was counted."""
        ...


def fuzz(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    """Examine as many as requested, print what is wrong and counts, and return the exit code."""
    findings, shown = list[Finding](), set[tuple[str, ...]]()
    begun, done, spent = time.perf_counter(), 0, 0.0
    noun = fuzzer.noun
    try:
        for numbers in _chunks(options.start, options.count, fuzzer.together):
            wrong = [finding for finding in fuzzer.examined(numbers) if not _is_ignored(finding, fuzzer, options)]
            since = _seconds()
            for finding in wrong:
                if sum(other.kind == finding.kind for other in findings) < MOST_SHRUNK:
                    _show(finding, fuzzer, options, shown)
                findings.append(finding)
            spent += _seconds() - since
            done += len(numbers)
            if options.progress:
                print(f"{done} {noun}s, {_seconds() - spent:.0f} s of a core, {len(findings)} findings", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: --start {options.start + done} goes on")
    for line in fuzzer.lines():
        print(line)
    taken = _seconds() - spent
    print(f"{done} {noun}s in {time.perf_counter() - begun:.1f} s, {taken:.1f} s of a core without shrinking")
    print(f"{done / max(taken, 1e-9):.1f} a second and core, {len(findings)} findings")
    return int(bool(findings) or done < options.count)


def _chunks(start: int, count: int, together: int) -> Iterator[range]:
    for first in range(start, start + count, together):
        yield range(first, min(first + together, start + count))


def _seconds() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _is_ignored(finding: Finding, fuzzer: Fuzzer, options: argparse.Namespace) -> bool:
    text = f"{finding}\n{fuzzer.text(finding.number)}"
    return any(re.search(pattern, text) for pattern in options.ignore)


def _show(finding: Finding, fuzzer: Fuzzer, options: argparse.Namespace, shown: set[tuple[str, ...]]) -> None:
    """Shrink and print what is wrong, unless something with the same operators was shown that is wrong alike."""
    if options.no_shrink:
        small = fuzzer.text(finding.number)
    else:
        small, operators = fuzzer.small(finding)
        alike = (finding.kind, *sorted(operators))
        if alike in shown:
            return
        shown.add(alike)
    text = f"{finding}\n{small}"
    repeat = fuzzer.repeat(finding.number)
    print(f"--- {fuzzer.noun} {finding.number}: {text}\nrepeat: {repeat}\n", flush=True)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{options.seed}-{finding.number}.txt").write_text(f"{text}\n", encoding="utf-8")


def add_options(parser: argparse.ArgumentParser, noun: str) -> None:
    """Add the options that all fuzzers have."""
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--start", type=int, default=0, metavar="K", help=f"number of the first {noun}")
    parser.add_argument("--count", type=int, default=1_000, metavar="N")
    parser.add_argument("--targets", type=names, default=["cpu", "c"], metavar="NAMES", help=TARGETS)
    parser.add_argument("--compilers", type=names, default=["gcc"], metavar="NAMES")
    parser.add_argument(
        "--levels",
        type=names,
        default=[DEVICE],
        metavar="NAMES",
        help=f"such as {DEVICE},O0,O2: {DEVICE} is device c's",
    )
    parser.add_argument("--sanitize", action="store_true", help=f"run {noun}s in C under the sanitisers")
    parser.add_argument("--thorough", action="store_true", help=f"run every {noun} in every way on cpu")
    parser.add_argument("--ignore", action="append", default=[], metavar="PATTERN", help="leave out such findings")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help=f"write shrunk {noun}s there")
    parser.add_argument("--no-shrink", action="store_true", help=f"show {noun}s as they were drawn")
    parser.add_argument("--progress", action="store_true")


def names(text: str) -> list[str]:
    """Return the names in a list that commas separate."""
    return [name for name in text.split(",") if name]


def plan_of(options: argparse.Namespace) -> Plan:
    """Return where to run what is drawn."""
    emitted = tuple(name for name in options.targets if name.startswith(EMITTED))
    devices = tuple(name for name in options.targets if name not in ("cpu", "c", *emitted))
    pairs = [(compiler, level) for compiler in options.compilers for level in options.levels]
    builds = tuple(Build(compiler, level, options.sanitize) for compiler, level in pairs)
    in_c = builds if "c" in options.targets else ()
    return Plan(Environment.default(), devices, in_c, emitted, thorough=options.thorough)


def repeating(script: str, number: int, options: argparse.Namespace) -> str:
    """Return the command that examines one again."""
    command = f"python openinfer-core/fuzz/{script} --seed {options.seed} --start {number} --count 1"
    parts = [command, f"--targets {','.join(options.targets)}"]
    if "c" in options.targets:
        parts += [f"--compilers {','.join(options.compilers)}", f"--levels {','.join(options.levels)}"]
        parts += ["--sanitize"] if options.sanitize else []
    return " ".join([*parts, "--thorough"])
