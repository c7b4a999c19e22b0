"""Run random whole programs in several places: `python openinfer-core/fuzz/fuzz_programs.py [--count N] [--seed S]`.

Each program depends on the seed and its number alone: `--seed S --start K --count 1` repeats number K. It is run on cpu
plainly, through text and JSON, with tracing, node by node, and with its state taken out and put back between steps;
where `--targets` names them, in C and on other devices. All have to give the same: bit for bit where every bit is
defined, else nearly. What is wrong is shrunk, and shown with the program and the command that repeats it. Ctrl-C
ends with what was counted, and where to go on. Exit codes: 0 all went well, 1 something is wrong, or it ended early.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from random_programs.c_batches import DEVICE, Build
from random_programs.drawing import drawn_sample
from random_programs.examining import Finding, Plan, examine
from random_programs.sample import Sample
from random_programs.shrinking import shrunk
from random_programs.tally import Tally

from openinfer.ir.nodes import Op
from openinfer.plugins.environment import Environment

TOGETHER = 96
"""Programs that are compiled at once."""

MOST_SHRUNK = 5
"""Findings of a kind that are shrunk; the rest is counted."""

_SHOWN: set[tuple[str, ...]] = set()
"""Kinds of findings that were shown, with the operators of their programs."""

TARGETS = (
    "cpu and any of c (written out in C), names of devices such as vulkan, device-c; traced with +trace at the end"
)


def main() -> int:
    options = _options()
    # What devices compile is of no use to later runs of other programs, and would fill their caches.
    with tempfile.TemporaryDirectory(prefix="openinfer-") as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        return _fuzz(options)


def _fuzz(options: argparse.Namespace) -> int:
    environment = Environment.default()
    builds = tuple(
        Build(compiler, level, options.sanitize) for compiler in options.compilers for level in options.levels
    )
    devices = tuple(name for name in options.targets if name not in ("cpu", "c"))
    plan = Plan(environment, devices, builds if "c" in options.targets else (), thorough=options.thorough)
    tally, found = Tally(), list[Finding]()
    begun, done, spent = time.perf_counter(), 0, 0.0
    try:
        for numbers in _chunks(options.start, options.count):
            spent += _examined(numbers, plan, options, tally, found)
            done += len(numbers)
            if options.progress:
                print(f"{done} programs, {_seconds() - spent:.0f} s of a core, {len(found)} findings", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: --start {options.start + done} goes on")
    for line in tally.lines(environment.ops):
        print(line)
    taken = _seconds() - spent
    print(f"{done} programs in {time.perf_counter() - begun:.1f} s, {taken:.1f} s of a core without shrinking")
    print(f"{done / max(taken, 1e-9):.1f} a second and core, {len(found)} findings")
    return int(bool(found) or done < options.count)


def _examined(numbers: range, plan: Plan, options: argparse.Namespace, tally: Tally, found: list[Finding]) -> float:
    """Examine programs, add what is wrong to what was found and show it; return the processor time of shrinking."""
    samples = {number: drawn_sample(options.seed, number, plan.environment) for number in numbers}
    findings = [each for each in examine(samples, plan, tally) if not _is_ignored(each, samples, options.ignore)]
    begun = _seconds()
    for finding in findings:
        if sum(known.kind == finding.kind for known in found) < MOST_SHRUNK:
            _show(finding, samples[finding.number], plan, options)
        found.append(finding)
    return _seconds() - begun


def _chunks(start: int, count: int) -> Iterator[range]:
    for first in range(start, start + count, TOGETHER):
        yield range(first, min(first + TOGETHER, start + count))


def _seconds() -> float:
    """Return the processor time of this process and of those that it started."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _is_ignored(finding: Finding, samples: dict[int, Sample], patterns: list[str]) -> bool:
    text = f"{finding}\n{samples[finding.number].graph.to_dsl()}"
    return any(re.search(pattern, text) for pattern in patterns)


def _show(finding: Finding, sample: Sample, plan: Plan, options: argparse.Namespace) -> None:
    """Shrink and print what is wrong, unless a program of the same operators was shown that is wrong alike."""
    small = sample if options.no_shrink else shrunk(sample, finding, plan)
    alike = (finding.kind, *sorted(node.kind.op for _, node in small.graph.nodes() if isinstance(node.kind, Op)))
    if alike in _SHOWN:
        return
    _SHOWN.add(alike)
    text = f"{finding}\n{small.text()}"
    repeat = f"python openinfer-core/fuzz/fuzz_programs.py --seed {options.seed} --start {finding.number} --count 1"
    given = [f"--targets {','.join(options.targets)}"]
    if "c" in options.targets:
        given += [f"--compilers {','.join(options.compilers)}", f"--levels {','.join(options.levels)}"]
        given += ["--sanitize"] if options.sanitize else []
    print(f"--- program {finding.number}: {text}\nrepeat: {' '.join([repeat, *given, '--thorough'])}\n", flush=True)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{options.seed}-{finding.number}.txt").write_text(f"{text}\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--start", type=int, default=0, metavar="K", help="number of the first program")
    parser.add_argument("--count", type=int, default=1_000, metavar="N")
    parser.add_argument("--targets", type=_names, default=["cpu", "c"], metavar="NAMES", help=TARGETS)
    parser.add_argument("--compilers", type=_names, default=["gcc"], metavar="NAMES")
    parser.add_argument(
        "--levels",
        type=_names,
        default=[DEVICE],
        metavar="NAMES",
        help=f"such as {DEVICE},O0,O2: {DEVICE} is device c's",
    )
    parser.add_argument("--sanitize", action="store_true", help="run programs in C under the sanitisers")
    parser.add_argument("--thorough", action="store_true", help="run every program in every way on cpu")
    parser.add_argument("--ignore", action="append", default=[], metavar="PATTERN", help="leave out such findings")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write shrunk programs there")
    parser.add_argument("--no-shrink", action="store_true", help="show programs as they were drawn")
    parser.add_argument("--progress", action="store_true")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    sys.exit(main())
