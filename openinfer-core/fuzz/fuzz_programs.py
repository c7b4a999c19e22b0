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
import sys
import tempfile
from collections.abc import Iterable

from random_programs.c_batches import DEVICE, Build
from random_programs.command import add_options, devices_of, fuzz, names
from random_programs.drawing import drawn_sample
from random_programs.examining import Finding, Plan, examine
from random_programs.sample import Sample
from random_programs.shrinking import shrunk
from random_programs.tally import Tally

from openinfer.ir.nodes import Op
from openinfer.plugins.environment import Environment


def main() -> int:
    options = _options()
    # What devices compile is of no use to later runs of other programs, and would fill their caches.
    with tempfile.TemporaryDirectory(prefix="openinfer-") as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        return fuzz(_Programs(options), options)


class _Programs:
    noun = "program"
    together = 96

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        builds = tuple(
            Build(compiler, level, options.sanitize) for compiler in options.compilers for level in options.levels
        )
        builds = builds if "c" in options.targets else ()
        devices = devices_of(options.targets)
        self._plan = Plan(Environment.default(), devices, builds, thorough=options.thorough)
        self._tally = Tally()
        self._samples: dict[int, Sample] = {}

    def examined(self, numbers: range) -> list[Finding]:
        environment = self._plan.environment
        self._samples = {number: drawn_sample(self._options.seed, number, environment) for number in numbers}
        return examine(self._samples, self._plan, self._tally)

    def text(self, number: int) -> str:
        return self._samples[number].text()

    def small(self, finding: Finding) -> tuple[str, list[str]]:
        small = shrunk(self._samples[finding.number], finding, self._plan)
        return small.text(), [node.kind.op for _, node in small.graph.nodes() if isinstance(node.kind, Op)]

    def repeat(self, number: int) -> str:
        options = self._options
        command = f"python openinfer-core/fuzz/fuzz_programs.py --seed {options.seed} --start {number} --count 1"
        parts = [command, f"--targets {','.join(options.targets)}"]
        if "c" in options.targets:
            parts += [f"--compilers {','.join(options.compilers)}", f"--levels {','.join(options.levels)}"]
            parts += ["--sanitize"] if options.sanitize else []
        return " ".join([*parts, "--thorough"])

    def lines(self) -> Iterable[str]:
        return self._tally.lines(self._plan.environment.ops)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, _Programs.noun)
    parser.add_argument("--compilers", type=names, default=["gcc"], metavar="NAMES")
    parser.add_argument(
        "--levels",
        type=names,
        default=[DEVICE],
        metavar="NAMES",
        help=f"such as {DEVICE},O0,O2: {DEVICE} is device c's",
    )
    parser.add_argument("--sanitize", action="store_true", help="run programs in C under the sanitisers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
