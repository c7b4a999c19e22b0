"""Run random ONNX graphs in onnxruntime and as programs: `python openinfer-core/fuzz/fuzz_onnx.py [--count N]`.

Each graph has one to six nodes and depends on the seed and its number alone: `--seed S --start K --count 1` repeats
number K. It is imported and run on cpu, and where `--targets` names them, in C and on other devices. Results have to be
those of onnxruntime, bit for bit where every bit is defined, else as near as rounding allows. What is wrong is shrunk,
and shown with the graph and the command that repeats it. Ctrl-C ends with what was counted, and where to go on. Exit
codes: 0 all went well, 1 something is wrong, or it ended early.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable

from random_onnx.drawing import DrawnGraph, drawn_graph, operators
from random_onnx.examining import examine_graphs
from random_onnx.runtime import Runtime
from random_onnx.shrinking import shrunk
from random_onnx.tally import OnnxTally
from random_onnx.tracing import Trace
from random_programs.command import add_options, fuzz, plan_of, repeating
from random_programs.examining import Finding


def main() -> int:
    options = _options()
    if importlib.util.find_spec("onnxruntime") is None:
        print("onnxruntime is not installed: pip install onnxruntime")
        return 1
    # What devices compile is of no use to later runs of other graphs, and would fill their caches.
    with tempfile.TemporaryDirectory(prefix="openinfer-") as cache, Runtime() as runtime:
        os.environ["XDG_CACHE_HOME"] = cache
        return fuzz(_Graphs(options, runtime), options)


class _Graphs:
    noun = "graph"
    together = 48

    def __init__(self, options: argparse.Namespace, runtime: Runtime) -> None:
        self._options = options
        self._plan = plan_of(options)
        self._newest = runtime.newest_opset()
        self._start = Trace(self._newest, runtime, self._plan.environment)
        self._tally = OnnxTally()
        self._graphs: dict[int, DrawnGraph] = {}

    def examined(self, numbers: range) -> list[Finding]:
        seed = self._options.seed
        self._graphs = {number: drawn_graph(seed, number, self._newest, self._start, self._tally) for number in numbers}
        return examine_graphs(self._graphs, self._plan, self._tally)

    def text(self, number: int) -> str:
        return self._graphs[number].graph.text()

    def small(self, finding: Finding) -> tuple[str, list[str]]:
        small = shrunk(self._graphs[finding.number], finding, self._plan)
        return small.text(), [node.op_type for node in small.nodes]

    def repeat(self, number: int) -> str:
        return repeating("fuzz_onnx.py", number, self._options)

    def lines(self) -> Iterable[str]:
        return self._tally.lines(operators(self._newest)[0], self._plan.environment.ops)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, _Graphs.noun)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
