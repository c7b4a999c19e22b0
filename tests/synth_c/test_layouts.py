"""Random networks of images laid out for vector registers: channels last, halos, packed weights, values in place."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from generated_c import SANITISED, STRICT, needs_gcc, run_sanitised

from openinfer.array_types import storage_dtype
from openinfer.dsl import graph
from openinfer.dtypes import dtype_named
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.testing.waiting import limit_s

Array = npt.NDArray[Any]

NETWORKS = 6
"""Networks of one program, which is compiled once for each machine."""

BOUNDS = {"f16": 1e-2, "f32": 1e-5, "f64": 1e-13}
"""Largest difference from the device cpu, as a part of the largest element."""

FLAGS = {"c99": SANITISED, "vector": (*STRICT, "-std=gnu99", "-O1")}

MACHINES = {
    "c99-16": (16, "c99"),
    "vector-16": (16, "vector"),
    "vector-32": (32, "vector"),
    "vector-64": (64, "vector"),
}

pytestmark = needs_gcc


def machine(nbytes: int, dialect: str) -> dict[str, Any]:
    return {
        "version": 2,
        "device": {"type": "cpu", "api": "c"},
        "target": {
            "lanes": nbytes // 4,
            "registers": 32 if nbytes == 64 else 16,
            "fma": nbytes > 16,
            # GNU C, whose vectors need not be those of the processor.
            "dialect": dialect,
        },
    }


@dataclass(frozen=True)
class Image:
    """A variable of the program."""

    name: str
    shape: tuple[int, int, int, int]
    dtype: str

    @property
    def type(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass
class Writer:
    """Writes a program; weights are small integers, so that most sums are exact in whatever order."""

    random: random.Random
    rng: np.random.Generator
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    dynamic: list[str] = field(default_factory=lambda: ["p: bool", "q: bool"])
    volatile: list[str] = field(default_factory=list[str])
    blocks: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    names: int = 0

    def program(self) -> str:
        entry = "\n".join(self.network() for _ in range(NETWORKS))
        self.inputs |= {"p": np.array(True), "q": np.array(False)}
        return (
            f"dynamic {{ {' '.join(f'{line};' for line in self.dynamic)} }}\n"
            f"volatile {{ {' '.join(f'{line};' for line in self.volatile)} }}\n"
            f"block entry {{\n{entry}\nreturn {', '.join(self.results)};\n}}\n" + "\n".join(self.blocks)
        )

    def network(self) -> str:
        """Return the statements of a network of its own, whose result is a result of the program."""
        pick = self.random
        dtype = pick.choice(["f32", "f32", "f32", "f64", "f16"])
        shape = (pick.choice([1, 1, 2]), pick.randint(1, 9), pick.randint(1, 9), pick.randint(1, 9))
        first = self.image(shape, dtype, self.dynamic)
        self.inputs[first.name] = self.drawn(shape, dtype)
        known = [first]
        lines = [self.statement(known) for _ in range(7)]
        last = self.image(known[-1].shape, dtype, self.volatile)
        lines.append(f"op relu({known[-1].name}) >> {last.name};")
        self.results.append(last.name)
        if pick.random() < 0.5:
            # A result in row-major order that others read, too.
            self.results.append(pick.choice(known[1:]).name)
        return " ".join(lines)

    def statement(self, known: list[Image]) -> str:
        """Return a statement, whose result is known from there on."""
        pick = self.random
        source = known[-1] if pick.random() < 0.7 else pick.choice(known)
        kinds = [self.convolved, self.convolved, self.depthwise, self.pooled, self.added, self.joined]
        return pick.choice([*kinds, self.padded, self.in_place, self.looped, self.branched, self.moved])(source, known)

    # --- Statements -------------------------------------------------------------------------------------------------

    def convolved(self, x: Image, known: list[Image], groups: int = 1, outputs: int | None = None) -> str:
        y, settings, w = self.convolution(x, groups, outputs or self.random.choice([1, 2, 3, 5, 8, 12, 17]))
        known.append(self.image(y, x.dtype, self.volatile))
        text = f"op conv2d({x.name}, {w}, {settings}) >> {known[-1].name};"
        if self.random.random() < 0.5:
            text += f" op relu({known[-1].name}) >> {known[-1].name};"
        return text

    def depthwise(self, x: Image, known: list[Image]) -> str:
        channels = x.shape[1]
        groups = self.random.choice([g for g in range(1, channels + 1) if channels % g == 0])
        return self.convolved(x, known, groups, groups * self.random.randint(1, 3))

    def convolution(self, x: Image, groups: int, outputs: int) -> tuple[tuple[int, int, int, int], str, str]:
        """Return the shape of a result, settings, and the weight."""
        pick = self.random
        (n, c, rows, columns), kernel = x.shape, (pick.randint(1, 3), pick.randint(1, 3))
        stride, dilation = (pick.choice([1, 1, 2]), pick.choice([1, 1, 2])), (pick.choice([1, 1, 2]), 1)
        padding = [pick.choice([0, 1, 1, 2]) for _ in range(4)]
        reach = [dilation[d] * (kernel[d] - 1) + 1 for d in (0, 1)]
        sizes = [rows, columns]
        for d in (0, 1):
            if sizes[d] + padding[d] + padding[d + 2] < reach[d]:
                padding[d], padding[d + 2] = reach[d] - 1, reach[d] - 1
        out = [(sizes[d] + padding[d] + padding[d + 2] - reach[d]) // stride[d] + 1 for d in (0, 1)]
        settings = f"stride={list(stride)}, dilation={list(dilation)}, padding={padding}, groups={groups}"
        return (n, outputs, out[0], out[1]), settings, self.weight((outputs, c // groups, *kernel), x.dtype)

    def pooled(self, x: Image, known: list[Image]) -> str:
        pick = self.random
        op = pick.choice(["max_pool2d", "avg_pool2d"])
        kernel = (min(pick.randint(1, 3), x.shape[2]), min(pick.randint(1, 3), x.shape[3]))
        padding = [pick.randint(0, kernel[d % 2] - 1) for d in range(4)]
        stride = pick.choice([1, 2])
        out = [(x.shape[d + 2] + padding[d] + padding[d + 2] - kernel[d]) // stride + 1 for d in (0, 1)]
        known.append(self.image((*x.shape[:2], out[0], out[1]), x.dtype, self.volatile))
        settings = f"kernel={list(kernel)}, stride={stride}, padding={padding}"
        return f"op {op}({x.name}, {settings}) >> {known[-1].name};"

    def added(self, x: Image, known: list[Image]) -> str:
        other = self.random.choice([each for each in known if each.shape == x.shape])
        known.append(self.image(x.shape, x.dtype, self.volatile))
        return f"op {self.random.choice(['add', 'sub', 'max'])}({x.name}, {other.name}) >> {known[-1].name};"

    def joined(self, x: Image, known: list[Image]) -> str:
        alike = [e for e in known if (e.shape[0], *e.shape[2:]) == (x.shape[0], *x.shape[2:])]
        parts = [x, *(self.random.choice(alike) for _ in range(self.random.randint(1, 2)))]
        self.random.shuffle(parts)
        channels = sum(part.shape[1] for part in parts)
        known.append(self.image((x.shape[0], channels, *x.shape[2:]), x.dtype, self.volatile))
        return f"op concat({', '.join(part.name for part in parts)}, axis=1) >> {known[-1].name};"

    def padded(self, x: Image, known: list[Image]) -> str:
        pads = [0, self.random.randint(0, 2), 1, 0, 0, self.random.randint(0, 1), 0, 1]
        shape = [x.shape[d] + pads[d] + pads[d + 4] for d in range(4)]
        known.append(self.image((shape[0], shape[1], shape[2], shape[3]), x.dtype, self.volatile))
        return f"op pad({x.name}, pads={pads}) >> {known[-1].name};"

    def in_place(self, x: Image, known: list[Image]) -> str:
        if not known[1:]:
            return self.moved(x, known)
        op, target = self.random.choice(["relu", "neg", "abs"]), self.random.choice(known[1:])
        return f"op {op}({target.name}) >> {target.name};"

    def copied(self, x: Image, known: list[Image]) -> Image:
        known.append(self.image(x.shape, x.dtype, self.volatile))
        return known[-1]

    def moved(self, x: Image, known: list[Image]) -> str:
        n, c, rows, columns = x.shape
        known.append(self.image((n, c, columns, rows), x.dtype, self.volatile))
        return f"op transpose({x.name}, perm=[0, 1, 3, 2]) >> {known[-1].name};"

    def looped(self, x: Image, known: list[Image]) -> str:
        """Return a loop whose turns take weights from a table, which a convolution of another size reads, too."""
        y, table, index = self.copied(x, known), self.name("w"), self.name("l")
        channels = x.shape[1]
        for turn in range(3):
            self.weights[f"{table}.{turn}"] = self.drawn((channels, channels, 3, 3), x.dtype)
        self.volatile.append(f'{table}(l): {x.dtype}{[channels, channels, 3, 3]} @pattern("{table}.{{l}}")')
        other = self.image((x.shape[0], channels, x.shape[2] + 2, x.shape[3] + 2), x.dtype, self.volatile)
        known.append(other)
        scaled = f"op mul({y.name}, {self.scalar(x.dtype)}) >> {y.name};"
        return (
            f"op relu({x.name}) >> {y.name}; loop turns ({index} in 0..3) {{ "
            f"op conv2d({y.name}, {table}[{index}], padding=1) >> {y.name}; {scaled} }} "
            f"op conv2d({y.name}, {table}[{self.random.randint(0, 2)}], padding=2) >> {other.name};"
        )

    def branched(self, x: Image, known: list[Image]) -> str:
        """Return a branch to blocks that write one image in two ways."""
        y, blocks = self.copied(x, known), [self.name("block") for _ in range(2)]
        weight = self.weight((x.shape[1], x.shape[1], 3, 3), x.dtype)
        self.blocks.append(f"block {blocks[0]} {{ op conv2d({x.name}, {weight}, padding=1) >> {y.name}; return; }}")
        self.blocks.append(f"block {blocks[1]} {{ op abs({x.name}) >> {y.name}; return; }}")
        return f"branch {self.random.choice('pq')} {blocks[0]} {blocks[1]};"

    # --- Variables ----------------------------------------------------------------------------------------------------

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def image(self, shape: tuple[int, int, int, int], dtype: str, section: list[str]) -> Image:
        made = Image(self.name("x"), shape, dtype)
        section.append(f"{made.name}: {made.type}")
        return made

    def weight(self, shape: tuple[int, ...], dtype: str) -> str:
        storage = storage_dtype(dtype_named(dtype))
        alike = [n for n, w in self.weights.items() if (w.shape, w.dtype) == (shape, storage) and "." not in n]
        if alike and self.random.random() < 0.5:
            return self.random.choice(alike)
        name = self.name("w")
        self.weights[name] = self.drawn(shape, dtype)
        self.volatile.append(f"{name}: {dtype}{list(shape)}")
        return name

    def scalar(self, dtype: str) -> str:
        name = self.name("s")
        self.weights[name] = np.array(0.125, storage_dtype(dtype_named(dtype)))
        self.volatile.append(f"{name}: {dtype}")
        return name

    def drawn(self, shape: tuple[int, ...], dtype: str) -> Array:
        return self.rng.integers(-2, 3, shape).astype(storage_dtype(dtype_named(dtype)))


@dataclass(frozen=True)
class Case:
    """A program with what the device cpu gives."""

    text: str
    model: Model
    inputs: dict[str, Array]
    expected: dict[str, Array]


def case(seed: int) -> Case:
    """Return the program of a seed."""
    writer = Writer(random.Random(seed), np.random.default_rng(seed))
    text = writer.program()
    model = Model.from_arrays(writer.weights)
    with Simulator(model, graph(text), device="cpu").make_executor() as executor, np.errstate(all="ignore"):
        executor.step(**writer.inputs)
        expected = {name: executor.fetch(name) for name in dict.fromkeys(writer.results)}
    return Case(text, model, writer.inputs, expected)


@pytest.fixture(scope="module")
def networks() -> Case:
    return case(0)


def assert_same(given: Case, nbytes: int, dialect: str) -> None:
    synthesis = Synthesizer("c", arch=machine(nbytes, dialect)).synthesize(given.model, graph(given.text))
    found = run_sanitised(synthesis, given.inputs, flags=FLAGS[dialect], timeout_s=limit_s(200))
    wrong: dict[str, str] = {}
    for name, expected in given.expected.items():
        bound = BOUNDS[expected.dtype.name.replace("float", "f")] * max(np.abs(expected).max(initial=0), 1)
        near = np.abs(found[name].astype(np.float64) - expected) <= bound
        near |= (found[name] == expected) | (np.isnan(expected) & np.isnan(found[name]))
        if not near.all():
            wrong[name] = f"{int((~near).sum())} of {near.size}"
    assert not wrong, f"{given.text}\n{wrong}"


@pytest.mark.parametrize("name", MACHINES)
def test_random_networks_give_what_the_device_cpu_gives(networks: Case, name: str) -> None:
    assert_same(networks, *MACHINES[name])
