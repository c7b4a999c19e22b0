"""Run random whole programs in several places: `python openinfer-core/fuzz/fuzz_programs.py [--count N] [--seed S]`.

Each program depends on the seed and its number alone: `--seed S --start K --count 1` repeats number K. It is run on cpu
plainly, through text and JSON, with tracing, node by node, and with its state taken out and put back between steps;
where `--targets` names them, in C and on other devices. All have to give the same: bit for bit where every bit is
defined, else nearly. With `--varying-sizes`, sizes change from step to step, and a place may also refuse a step as cpu
does. What is wrong is shrunk, and shown with the program and the command that repeats it. Ctrl-C
ends with what was counted, and where to go on. Exit codes: 0 all went well, 1 something is wrong, or it ended early.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable

from random_programs.command import add_options, fuzz, plan_of, repeating
from random_programs.examining import Finding, examine
from random_programs.shrinking import shrunk
from random_programs.tally import Tally

from openinfer.ir.nodes import Op
from openinfer.testing.random_programs.drawing import drawn_sample
from openinfer.testing.random_programs.sample import Sample
from openinfer.testing.random_programs.sized_drawing import drawn_sized_sample


def main() -> int:
    options = _options()
    # What devices compile is of no use to later runs of other programs, and would fill their caches.
    with tempfile.TemporaryDirectory(prefix="openinfer-", ignore_cleanup_errors=True) as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        return fuzz(_Programs(options), options)


class _Programs:
    noun = "program"
    together = 96

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._plan = plan_of(options)
        self._tally = Tally()
        self._samples: dict[int, Sample] = {}

    def examined(self, numbers: range) -> list[Finding]:
        environment = self._plan.environment
        draw = drawn_sized_sample if self._options.varying_sizes else drawn_sample
        self._samples = {number: draw(self._options.seed, number, environment) for number in numbers}
        return examine(self._samples, self._plan, self._tally)

    def text(self, number: int) -> str:
        return self._samples[number].text()

    def small(self, finding: Finding) -> tuple[str, list[str]]:
        small = shrunk(self._samples[finding.number], finding, self._plan)
        return small.text(), [node.kind.op for _, node in small.graph.nodes() if isinstance(node.kind, Op)]

    def repeat(self, number: int) -> str:
        sizes = " --varying-sizes" if self._options.varying_sizes else ""
        return repeating("fuzz_programs.py", number, self._options) + sizes

    def lines(self) -> Iterable[str]:
        return self._tally.lines(self._plan.environment.ops)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, _Programs.noun)
    parser.add_argument(
        "--varying-sizes", action="store_true", help="programs whose sizes change from step to step, 0 and 1 among them"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
