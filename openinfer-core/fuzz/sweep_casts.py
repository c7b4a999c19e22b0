"""Sweep chains of casts over element types, lane counts, compilers and levels of optimisation:
`python openinfer-core/fuzz/sweep_casts.py [--casts 2] [--lanes 1,2,3] [--compilers gcc,clang] [--levels O2,O3]`.

A chain reads numbers of one type and casts them to others, one after the other; `--between` computes with what each
cast but the last yields. Programs hold the chains of the same types but the last, each on an input of its own. All have
to give in C what cpu gives, bit for bit. Counts are printed by compiler and level. Exit codes: 0 all agree, 1 a chain
differs.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from random_programs.c_batches import DEVICE, Build, Given, run_batch
from random_programs.c_units import Written, written_in_c

from openinfer.array_types import storage_dtype
from openinfer.dsl import graph
from openinfer.dtypes import BY_NAME, DType
from openinfer.plugins.environment import Environment
from openinfer.simulate.values import Tensor
from openinfer.testing.random_programs.agreement import differences
from openinfer.testing.random_programs.running import Step, run_on
from openinfer.testing.random_programs.sample import Array, Sample
from openinfer.testing.values import Draw, draw

TYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8", "bf16", "f16", "f32", "f64")

BETWEEN = {
    "nothing": "",
    "neg": "op neg({0}) >> {1};",
    "add": "op add({0}, {0}) >> {1};",
    "mul": "op mul({0}, {0}) >> {1};",
    "max": "op max({0}, {0}) >> {1};",
    "quantised": (
        "assign {1}_code: i8[N]; assign {1}: {2}[N]; op quantize_linear({0}, half_{2}) >> {1}_code; "
        "op dequantize_linear({1}_code, half_{2}) >> {1};"
    ),
}
"""What is computed from ``{0}`` as ``{1}``, of type ``{2}``, between two casts; integers are added to themselves."""

VALUES = 48
"""Numbers that go through each chain."""

TOGETHER = 96
"""Programs that are compiled at once."""

CRITICAL = (33554435, 16777217, 2**53 + 1, 9007199791611905, 1 + 2**-11, 1 + 2**-24, 1 + 2**-8, 65519.996, 0.1, -0.3)
"""Numbers that a conversion to f32, f16 or bf16 rounds, some close to a tie."""


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of the same types but the last, on so many lanes."""

    types: tuple[DType, ...]
    last: tuple[DType, ...]
    between: str
    lanes: int

    def __str__(self) -> str:
        return f"{' -> '.join(map(str, self.types))}, {self.between} between, {self.lanes} lanes"


def text_of(chains: Chains) -> str:
    """Return the program, whose inputs are ``x0`` and whose results ``y0`` on, in the order of the last types."""
    first = chains.types[0]
    inputs = " ".join(f"x{number}: {first}[N];" for number in range(len(chains.last)))
    outputs = " ".join(f"y{number}: {last}[N];" for number, last in enumerate(chains.last))
    statements = [line for number in range(len(chains.last)) for line in _statements(chains, number)]
    if chains.between == "quantised":
        scales = {dtype for dtype in chains.types[1:] if dtype.is_float}
        outputs += "".join(f" half_{dtype}: {dtype} @init(0.5);" for dtype in sorted(scales, key=str))
    results = ", ".join(f"y{number}" for number in range(len(chains.last)))
    lines = "\n  ".join([*statements, f"return {results};"])
    return f"dynamic {{ {inputs} }}\nvolatile {{ {outputs} }}\nblock entry {{\n  {lines}\n}}\n"


def _statements(chains: Chains, number: int) -> Iterator[str]:
    name = f"x{number}"
    for place, dtype in enumerate(chains.types[1:]):
        cast = f"t{number}_{place}"
        yield f"op cast({name}, to={dtype}) >> {cast};"
        name = cast
        if chains.between != "nothing":
            name = f"{cast}_b"
            yield BETWEEN[chains.between if dtype.is_float else "add"].format(cast, name, dtype)
    yield f"op cast({name}, to={chains.last[number]}) >> y{number};"


def numbers_of(dtype: DType, seed: int) -> Array:
    """Return `VALUES` numbers of a type, special and random ones and those that conversions round."""
    generator = np.random.default_rng(seed)
    storage, third = storage_dtype(dtype), VALUES // 3
    low, high = (-np.inf, np.inf) if dtype.is_float else (dtype.minimum or 0, dtype.maximum or 0)
    exact = [number if dtype.is_float else int(number) for number in CRITICAL if low <= number <= high] or [0, 1]
    with np.errstate(over="ignore"):
        critical = np.resize(np.array(exact, storage), third)
    return np.concatenate([critical, *(draw(dtype, (third,), how, generator) for how in (Draw.SPECIAL, Draw.CODES))])


def expected(chains: Chains, inputs: Mapping[str, Array], environment: Environment) -> tuple[Step, ...]:
    """Return what cpu makes of all numbers at once, cut into steps of some lanes."""
    sample = Sample(graph(text_of(chains)), {"N": VALUES}, {}, (inputs,))
    (whole,) = run_on(sample, "cpu", environment).steps
    if not isinstance(whole, Mapping):
        raise SystemExit(f"{chains}: cpu ends with the error {whole}")
    return tuple(
        {name: Tensor(tensor.dtype, (chains.lanes,), tensor.array[at]) for name, tensor in whole.items()}
        for at in _steps(chains)
    )


def _steps(chains: Chains) -> list[Array]:
    """Return the places of the numbers of each step, around the end at the last."""
    starts = range(0, VALUES, chains.lanes)
    return [(np.arange(chains.lanes) + start) % VALUES for start in starts]


@dataclass(frozen=True, slots=True)
class Case:
    """Chains in C, with the inputs of their steps and what these have to give."""

    chains: Chains
    given: Given
    expected: tuple[Step, ...]


def case_of(chains: Chains, environment: Environment) -> Case:
    """Return chains written in C."""
    inputs = {f"x{number}": numbers_of(chains.types[0], number) for number in range(len(chains.last))}
    steps = [{name: array[at] for name, array in inputs.items()} for at in _steps(chains)]
    sample = Sample(graph(text_of(chains)), {"N": chains.lanes}, {}, tuple(steps))
    program: Written | None = written_in_c(sample, environment)
    if program is None:
        raise SystemExit(f"{chains}: the weights are in a separate file")
    return Case(chains, Given(program, sample), expected(chains, inputs, environment))


def wrong(case: Case, outcome: tuple[Step, ...] | str) -> list[tuple[str, str]]:
    """Return the chains that differ, each with the first difference."""
    if isinstance(outcome, str):
        return [(str(case.chains), outcome)]
    lines = differences(case.expected, outcome)
    by_chain = {line.split(", ")[1].split(":")[0]: line for line in reversed(lines)}
    return [
        (f"{case.chains} -> {case.chains.last[int(name.removeprefix('y'))]}", line) for name, line in by_chain.items()
    ]


def all_chains(options: argparse.Namespace) -> Iterator[Chains]:
    """Return the chains of a sweep; `--part K/N` takes every N-th, from the K-th on."""
    types = [BY_NAME[name] for name in options.types]
    part, parts = options.part
    every = (
        Chains(before, tuple(types), between, lanes)
        for before in itertools.product(types, repeat=options.casts)
        for between in options.between
        for lanes in options.lanes
    )
    return itertools.islice(every, part, None, parts)


def swept(options: argparse.Namespace) -> int:
    """Run a sweep and print its counts; return how many chains differ."""
    environment, begun = Environment.default(), time.perf_counter()
    builds = [Build(compiler, level) for compiler in options.compilers for level in options.levels]
    ran, differing = Counter[str](), Counter[str]()
    for group in _groups(all_chains(options)):
        cases = [case_of(chains, environment) for chains in group]
        for build in builds:
            outcomes = run_batch([case.given for case in cases], build)
            for case, outcome in zip(cases, outcomes, strict=True):
                ran[str(build)] += len(case.chains.last)
                for chain, line in wrong(case, outcome):
                    differing[str(build)] += 1
                    print(f"{build}: {chain}: {line}", flush=True)
    for build in builds:
        print(f"{build}: {ran[str(build)]} chains, {differing[str(build)]} differ")
    print(f"{sum(ran.values())} chains in {time.perf_counter() - begun:.0f} s")
    return sum(differing.values())


def _groups(chains: Iterator[Chains]) -> Iterator[Sequence[Chains]]:
    while group := list(itertools.islice(chains, TOGETHER)):
        yield group


def _names(text: str) -> list[str]:
    return text.split(",")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--casts", type=int, default=2, metavar="N", help="casts of a chain (2)")
    parser.add_argument("--types", type=_names, default=list(TYPES), metavar="NAMES")
    parser.add_argument("--between", type=_names, default=["nothing"], metavar="NAMES", help=f"of {', '.join(BETWEEN)}")
    parser.add_argument("--lanes", type=lambda text: [int(n) for n in text.split(",")], default=[2, 3, 4, 7, 8])
    parser.add_argument("--compilers", type=_names, default=["gcc"], metavar="NAMES")
    parser.add_argument("--levels", type=_names, default=["O2", "O3", DEVICE], metavar="NAMES")
    parser.add_argument(
        "--part", type=lambda text: tuple(int(n) for n in text.split("/")), default=(0, 1), metavar="K/N"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(int(swept(_options()) > 0))
