"""Speed of the language: text to graph at three lengths, and printing and JSON of a large graph.

`python benchmarks/language/speed.py [--repeats N]`. Times are of the processor, the best of the repeats. Exit code 1 if
a figure misses its target: 8,000 lines a second at every length, the slowest within 15 % of the fastest; a graph of
10,000 nodes printed in 0.5 s, written as JSON and read back in 1.5 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import openinfer as oi

LENGTHS = (2_000, 8_000, 32_000)
LEAST_LINES_A_SECOND = 8_000
MOST_SPREAD = 0.15
NODES = 10_000
MOST_SECONDS = {"print": 0.5, "JSON out and back": 1.5}

HEAD = """\
dynamic { x: f32[B, D]; }
volatile {
  W(l): f32[D, D] @pattern("W.{l}");
  y: f32[B, D];
}
persistent {
  K(l, t): f32[H] @table;
  step: i32 @init(0);
}
block entry {
"""
TAIL = "  return;\n}\n"


def program(lines: int) -> str:
    """Return a program of about that many lines: declarations, and statements of five kinds."""
    groups = (lines - HEAD.count("\n") - TAIL.count("\n")) // 4
    body = "".join(
        f"  assign t{n}: f32[B, 3*D];\n"
        f"  op matmul(x, W[{n % 8}]) >> t{n};\n"
        f"  op add(t{n}, y, axis=1, eps=1e-6) >> y with {{ fuse = true }};\n"
        f"  cache.read K[{n % 8}, 0..step] >> y;  // group {n}\n"
        for n in range(groups)
    )
    return HEAD + body + TAIL


def best(call: Callable[[], object], repeats: int) -> float:
    """Return the least processor time of a call, in seconds."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def reading(repeats: int) -> bool:
    rates: list[float] = []
    for lines in LENGTHS:
        text = program(lines)
        rates.append(text.count("\n") / best(lambda text=text: oi.graph(text), repeats))
        print(f"text to graph, {lines:6} lines: {rates[-1]:8.0f} lines/s")
    spread = 1 - min(rates) / max(rates)
    print(f"slowest below fastest: {100 * spread:.1f} %")
    return min(rates) >= LEAST_LINES_A_SECOND and spread <= MOST_SPREAD


def large_graph(repeats: int) -> bool:
    built = oi.graph(program(NODES + HEAD.count("\n")))
    seconds = {
        "print": best(built.to_dsl, repeats),
        "JSON out and back": best(lambda: oi.GraphDeserialize.from_json(oi.GraphSerialize.text(built)), repeats),
        "structure check": best(built.check, repeats),
    }
    for what, taken in seconds.items():
        print(f"{sum(1 for _ in built.nodes())} nodes, {what}: {taken:.3f} s")
    return all(seconds[what] < most for what, most in MOST_SECONDS.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    oi.graph(program(100))
    met = [reading(repeats), large_graph(repeats)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
