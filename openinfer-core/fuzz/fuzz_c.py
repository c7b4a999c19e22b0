"""Call operators in generated C with random types, shapes and settings, under the address and undefined-behaviour
sanitisers: `python openinfer-core/fuzz/fuzz_c.py [--programs N] [--calls N] [--seed S] [--op NAME]`.

A program has many calls, each on inputs of its own and with outputs of its own, which the address sanitiser guards one
by one. Calls are those that cpu carries out. The program has to compile without a warning, run clean and give what cpu
gives: integers exactly, floats nearly. Calls that the target does not cover are counted. Exit codes: 0 all went well, 1
a call broke a rule.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from openinfer.dsl.builder import GraphBuilder
from openinfer.errors import OpenInferError
from openinfer.ir.graph import Graph
from openinfer.ir.values import Ref
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import Missing, kernel_table, select
from openinfer.random_inputs.indices import angle_inputs
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.testing.random_programs.calls import Drawn, endless, inputs_of

Array = np.ndarray[Any, Any]

FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-O0", "-ffp-contract=off"),
    *("-fsanitize=undefined,address", "-fno-sanitize-recover=all"),
)
NEAR = {"f8": 0.5, "bf16": 0.05, "f16": 0.01, "f32": 1e-3, "f64": 1e-3}
"""Relative and absolute tolerance, for functions of the C library and for sums in another order."""

ENVIRONMENT = Environment.default()
MODEL = Model.from_arrays({})


@dataclass(frozen=True, slots=True)
class Given:
    """A call that cpu carries out: its inputs and its results there."""

    drawn: Drawn
    inputs: Sequence[Array | None]
    results: Sequence[Array]


def graph_of(several: Sequence[Drawn]) -> Graph:
    """Return a program of calls, whose inputs are ``x0_0`` and whose results ``y0_0``."""
    builder, returned = GraphBuilder(), list[str]()
    for number, drawn in enumerate(several):
        for place, kind in enumerate(drawn.call.inputs):
            if kind is not None:
                builder.dynamic(f"x{number}_{place}", kind.dtype, kind.shape)
        for place, kind in enumerate(drawn.call.outputs):
            builder.volatile(f"y{number}_{place}", kind.dtype, kind.shape)
            returned.append(f"y{number}_{place}")
    with builder.block("entry"):
        for number, drawn in enumerate(several):
            _write(builder, number, drawn)
        builder.return_(*returned)
    return builder.build()


def _write(builder: GraphBuilder, number: int, drawn: Drawn) -> None:
    schema = ENVIRONMENT.op(drawn.call.op)
    settings, inputs = dict(drawn.settings), list[str]()
    for place, kind in enumerate(drawn.call.inputs):
        spec = schema.inputs[min(place, len(schema.inputs) - 1)]
        if kind is not None and spec.optional:
            settings[spec.name] = Ref(f"x{number}_{place}")
        elif kind is not None:
            inputs.append(f"x{number}_{place}")
    outputs = [f"y{number}_{place}" for place in range(len(drawn.call.outputs))]
    builder.op(schema.name, *inputs, outputs=outputs, settings=settings)


def named(number: int, inputs: Sequence[Array | None]) -> dict[str, Array]:
    return {f"x{number}_{place}": array for place, array in enumerate(inputs) if array is not None}


def on_cpu(drawn: Drawn, random: Random) -> Given | None:
    """Return a call with what cpu makes of it, or None where it reports an error."""
    inputs = [_calm(array) for array in inputs_of(drawn, random)]
    for place in angle_inputs(ENVIRONMENT.op(drawn.call.op), drawn.call):
        inputs[place] = _near(inputs[place])
    try:
        executor = Simulator(MODEL, graph_of([drawn]), environment=ENVIRONMENT).make_executor()
        executor.step(**named(0, inputs))
    except OpenInferError:
        return None
    return Given(drawn, inputs, [executor.fetch_raw(f"y0_{n}").array for n in range(len(drawn.call.outputs))])


def _calm(array: Array | None) -> Array | None:
    """Return floats as multiples of an eighth up to 3, whose sums hardly depend on the order."""
    if array is None or array.dtype.kind in "iub":
        return array
    codes = array.view(f"u{array.itemsize}") if array.size else array.astype(np.uint8)
    return ((codes.astype(np.int64) % 49 - 24) / 8).astype(array.dtype)


def _near(array: Array | None) -> Array | None:
    """Return positions below 2^20: the angle of p may be off by p * 1e-15, on each device in its own way."""
    if array is None or array.dtype.kind not in "iu":
        return array
    return array % np.asarray(min(1 << 20, np.iinfo(array.dtype).max), array.dtype)


def program(names: Sequence[str], count: int, random: Random, outcomes: Counter[str]) -> list[Given]:
    """Return calls that the target covers."""
    table, found = kernel_table(ENVIRONMENT, ENVIRONMENT.targets["c"]), list[Given]()
    schemas = random.sample([ENVIRONMENT.op(name) for name in names], len(names))
    for drawn in endless(schemas, random):
        if len(found) == count:
            break
        if isinstance(select(ENVIRONMENT, table, drawn.call), Missing):
            outcomes["not covered"] += 1
            continue
        given = on_cpu(drawn, random)
        outcomes["refused by cpu" if given is None else "compared"] += 1
        found += [] if given is None else [given]
    return found


def trouble(calls: Sequence[Given]) -> list[str]:
    """Return what is wrong with a program of calls, a line for each."""
    inputs = {name: array for number, each in enumerate(calls) for name, array in named(number, each.inputs).items()}
    try:
        made = Synthesizer("c", environment=ENVIRONMENT).synthesize(MODEL, graph_of([each.drawn for each in calls]))
        results = made.target.build_and_run(made.plan, made.bundle, inputs, flags=FLAGS, timeout=300).outputs
    except OpenInferError as error:
        return [f"{calls[0].drawn}: {error}"] if len(calls) == 1 else _halves(calls)
    return [line for number, each in enumerate(calls) for line in compared(number, each, results)]


def _halves(calls: Sequence[Given]) -> list[str]:
    """Return what is wrong with each of two halves, so that the call at fault is reported."""
    middle = len(calls) // 2
    return [*trouble(calls[:middle]), *trouble(calls[middle:])]


def compared(number: int, given: Given, results: Mapping[str, Array]) -> list[str]:
    wrong: list[str] = []
    for place, (kind, expected) in enumerate(zip(given.drawn.call.outputs, given.results, strict=True)):
        found = results[f"y{number}_{place}"]
        near = NEAR.get(kind.dtype.name)
        with np.errstate(all="ignore"):
            same = (
                np.array_equal(found, expected)
                if near is None
                else np.allclose(found.astype(float), expected.astype(float), near, near, equal_nan=True)
            )
        if not same:
            wrong.append(f"{given.drawn}: result {place} is {found.reshape(-1)[:6]}, on cpu {expected.reshape(-1)[:6]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--calls", type=int, default=150, help="calls of a program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", help="only this operator; may be given several times")
    options = parser.parse_args()
    random, outcomes, broken = Random(options.seed), Counter[str](), list[str]()  # noqa: S311
    for _ in range(options.programs):
        broken += trouble(program(sorted(options.op or ENVIRONMENT.ops), options.calls, random, outcomes))
    for what, times in outcomes.most_common():
        print(f"{times:8} {what}")
    print(f"{len(broken):8} broke a rule")
    print("\n".join(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
