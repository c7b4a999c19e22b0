"""Read right, mutated and random programs: `python openinfer-core/fuzz/fuzz_language.py [--texts N] [--seed S]`.

Every text has to become a graph that prints to text of an equal graph, or be refused with one of the package's own
errors, all of whose findings have a place inside the text; within `--limit` seconds of processor time, and without any
other exception or warning. Graphs are then checked against a model, by which programs of the generator have to be
right. Some that the parser takes are also laid out, twice, without a change the second time, and written as JSON and
read back. Prints how many texts ended in which phase with which code. Exit codes: 0 all went well, 1 a text broke a
rule (it is kept in `--keep`).
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from programs import SIZES, TENSORS, changed, program

from openinfer.diagnostics import Diagnostic, Severity, render
from openinfer.dsl import graph
from openinfer.dsl.formatting import formatted
from openinfer.errors import DslSyntaxError, GraphError, ValidationError
from openinfer.ir.graph import Graph
from openinfer.model import Model
from openinfer.plugins.loader import load_environment
from openinfer.validate import resolve

SLOWEST = 1.0
MOST_LINES = 40

SEEDS = (
    "dynamic { x: f32[B, 3*D+1] @init(0.5); ready: bool; }\nconstant { mask: u64 @init(0xFF_FF); }\n",
    """\
volatile {
  W(l): f32[D, D] @pattern("W.{l}");  // a table
  y: f32[B] @ref("model.y") @layout(nchw, tile=[4, 4]);
}
""",
    """\
persistent {
  K(l, t): f16[H] @table @fixed(l=3);
  C(l, i, j): f32[D, H] @table @auto_dim(i, j);
}
""",
    """\
block entry with { group = "all" } {
  assign t0: f32[B, (2+D)*4];
  op matmul(x, W[l], eps=1e-6, shape=[1, t+1, -1], acc=[i16, i32], to=i32) >> t0, y with { fast = true };
  op mul(t0, -0.5) >> t0;
  return y;
}
""",
    """\
block entry {
  loop layers (l in 0..n+1) with { fuse = true } {
    scope "atten\\"tion" { transfer W[l+1] >> z; }
  }
}
""",
    """\
block entry {
  cache.read K[l, 0..-3] >> z with { placement = "cpu" };
  cache.write z >> K[0, step]; /* a /* nested */ comment */
  cache.increment 2 step;
}
""",
    "block work { cache.reset C[]; cache.read A[i, ] >> y; cache.read A[, j] >> y; return; }\n",
    "block other { barrier; dep after(matmul) before(cache.write); yield x, y; await x; branch ready other last; }\n",
    "inputs { x: f32 [B]; }\nstate { c: buffer(f32, [B, T]); }\n",
    "block entry { t = op add(a=x, b=x); effect write(c, index=t, value=x); }\n",
)
PHASES = {
    "-": "programs without an error",
    "P": "refused by the parser",
    "B": "no graph can be built",
    "S": "wrong structure",
    "V": "do not fit model or operators",
}

PIECES = (
    *("dynamic", "volatile", "constant", "persistent", "block", "entry", "op", "add", "loop", "scope", "with", "cache"),
    *(".read", ".write", "assign", "yield", "await", "return", "branch", "barrier", "dep", "after", "before", "in"),
    *("{", "}", "(", ")", "[", "]", ";", ":", ",", ">>", "=", "..", ".", "@", "@init", "@table", "@ref", "+", "-", "*"),
    *(
        "x",
        "y",
        "f32",
        "i64",
        "true",
        "nan",
        "0",
        "1.5",
        "1e999",
        "0x_",
        "9" * 30,
        '"a"',
        '"\\q"',
        '"',
        "//",
        "/*",
        "*/",
    ),
    *("\n", "  ", "\t", "\r\n", "\0", "é", "日本語", "\u202e", "\ud800", "#", "'", "?", "\\", "1_000u8", "-", "..="),
)
BOMBS = (
    "(",
    "[",
    "{",
    "/*",
    "-",
    "loop l (i in 0..2) {",
    "scope s {",
    "x(",
    "1+",
    "a[",
    '"',
    "@",
    ">>",
    "with {",
    "a,",
    "0.",
)


def text_of(random: Random) -> tuple[str, bool]:
    """Return a text, and whether it is a right program.

    It is one of the generator, as it is, with a few tokens or lines changed, or with characters changed; some seeds
    with characters changed; random pieces; or one piece very often.
    """
    kind = random.random()
    if kind < 0.01:
        return "block entry { " + random.choice(BOMBS) * random.choice((10, 100, 100, 1_000, 10_000)), False
    if kind < 0.08:
        return " ".join(random.choices(PIECES, k=random.randrange(1, 60))), False
    if kind < 0.25:
        text = "".join(random.sample(SEEDS, random.choice((1, 1, 1, 2, 4))))
        return _mutations(text, random.choice((0, 1, 1, 1, 2, 4, 12)), random), False
    text = program(random)
    if kind < 0.50:
        return (text, True) if text.count("\n") <= MOST_LINES else (_shortened(text), False)
    if kind < 0.85:
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            text = changed(text, random)
        return _shortened(text), False
    return _mutations(text, random.choice((1, 1, 2)), random), False


def _shortened(text: str) -> str:
    return "\n".join(text.split("\n")[:MOST_LINES])


def _mutations(text: str, count: int, random: Random) -> str:
    for _ in range(count):
        text = mutated(text, random)
    return _shortened(text)


def mutated(text: str, random: Random) -> str:
    """Return a text with a piece left out, put in, doubled, or put elsewhere."""
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((0, 1, 1, 2, 5, 20, 60)))
    piece = random.choice((random.choice(PIECES), text[start:end] * 2, "", chr(random.randrange(32, 127))))
    if random.random() < 0.2:
        place = random.randrange(len(text) + 1)
        return text[:place] + text[start:end] + text[place:]
    return text[:start] + piece + text[end:]


class BrokenRuleError(Exception):
    """What is wrong about how a text was taken."""


def demand(holds: bool, why: str) -> None:
    if not holds:
        raise BrokenRuleError(why)


def model() -> Model:
    """Return the model that programs of the generator are right against."""
    arrays = {name: np.zeros(shape, dtype) for name, (dtype, shape) in TENSORS.items()}
    return Model.from_arrays(arrays, sizevars=SIZES)


CORE = load_environment(autoload=False)
MODEL = model()


def verdict(text: str, *, thorough: bool) -> tuple[str, str]:
    """Return the phase that refuses the text and the code of its first error, or what became of a right program.

    Raises:
        BrokenRuleError: the text broke a rule.
    """
    try:
        built = graph(text)
    except (DslSyntaxError, GraphError) as error:
        check_findings(error, text)
        return ("P" if isinstance(error, DslSyntaxError) else "B"), error.code
    demand(graph(built.to_dsl()) == built, "printed text is another graph")
    if thorough:
        check_other_forms(built, text)
    check_places(built.warnings, text)
    try:
        warned = resolve(built, MODEL, environment=CORE).warnings
    except ValidationError as error:
        phase = "V" if is_structure_right(built) else "S"
        check_findings(error, text)
        return phase, error.code
    check_places(warned, text)
    return "-", "right, with a warning" if warned else "right"


def is_structure_right(built: Graph) -> bool:
    try:
        built.check()
    except ValidationError:
        return False
    return True


def check_other_forms(built: Graph, text: str) -> None:
    laid_out = formatted(text)
    demand(graph(laid_out) == built, "laid out text is another graph")
    demand(formatted(laid_out) == laid_out, "layout is not stable")
    demand(Graph.from_json(built.to_json()) == built, "JSON is another graph")


def check_findings(error: DslSyntaxError | GraphError | ValidationError, text: str) -> None:
    check_places(error.diagnostics, text)
    demand(bool(error.diagnostics), "an error has a finding")
    demand(error.code in {finding.code for finding in error.diagnostics}, "an error has the code of a finding")
    demand("\n" not in f"{error}", "an error is one line")
    found = [finding for finding in error.diagnostics if isinstance(finding, Diagnostic)]
    demand(any(finding.severity is Severity.ERROR for finding in found), "an error is not only warnings")


def check_places(found: Sequence[object], text: str) -> None:
    for number, finding in enumerate(found):
        if not isinstance(finding, Diagnostic):
            raise BrokenRuleError(f"a finding is {finding!r}")
        demand(number > 2 or "\0" not in render(finding), "a control character is shown as it is")
        span = finding.span
        demand(span is None or 0 <= span.start <= span.end <= len(text), "a finding is placed outside of the text")


def fuzz(count: int, seed: int, keep: Path, limit: float) -> int:
    """Read ``count`` texts; return how many broke a rule. None may take more than ``limit`` seconds."""
    random, verdicts, broken = Random(seed), Counter[tuple[str, str]](), 0  # noqa: S311 - the same texts every time
    slowest, begun = 0.0, time.perf_counter()
    for number in range(count):
        text, is_right = text_of(random)
        start = time.process_time()
        try:
            found = verdict(text, thorough=number % 8 == 0)
            verdicts[found] += 1
            demand(found[0] == "-" or not is_right, f"a right program is refused: {found[1]}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the fuzzer looks for
            broken += 1
            _keep(keep, number, text, f"{type(error).__name__}: {error}")
        taken = time.process_time() - start
        slowest = max(slowest, taken)
        if taken > limit:
            broken += 1
            _keep(keep, number, text, f"took {taken:.2f} s")
    _print_table(verdicts, count)
    print(f"{count} texts in {time.perf_counter() - begun:.1f} s, slowest {slowest * 1000:.0f} ms, {broken} broken")
    return broken


def _print_table(verdicts: Counter[tuple[str, str]], count: int) -> None:
    for phase, title in PHASES.items():
        times = sum(number for found, number in verdicts.items() if found[0] == phase)
        print(f"{phase} {times:8} {times / max(count, 1):6.1%} {title}")
        for (where, code), number in sorted(verdicts.items(), key=lambda item: (-item[1], item[0])):
            if where == phase:
                print(f"  {number:8}         {code}")


def _keep(folder: Path, number: int, text: str, why: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{number}.oi"
    file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    print(f"{file}: {why}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=500_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-kept"), metavar="FOLDER")
    parser.add_argument("--limit", type=float, default=SLOWEST, metavar="SECONDS", help="of processor time for a text")
    given = parser.parse_args()
    warnings.simplefilter("error")
    return int(fuzz(given.texts, given.seed, given.keep, given.limit) > 0)


if __name__ == "__main__":
    sys.exit(main())
