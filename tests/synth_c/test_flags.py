"""Generated C at the flags that users get, with every compiler installed: each level of optimisation gives the same.

Windows are tried above all: with padding on some sides, strides and dilations. One program holds many calls.
"""

from __future__ import annotations

import importlib
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from openinfer.array_types import dtype_of_array
from openinfer.dtypes import BUILTIN, BY_NAME
from openinfer.ir.types import TensorType
from openinfer.model import Model
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.testing.waiting import limit_s
from openinfer_synth_c import compiler_flags, library, native

FUZZER = Path(__file__).resolve().parents[2] / "openinfer-core" / "fuzz" / "fuzz_c.py"

UNOPTIMISED = ("-std=c99", "-O0", "-ffp-contract=off")

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("gcc", "clang")
]

pytestmark = pytest.mark.skipif(not FUZZER.is_file(), reason="the fuzzer is not in this tree")


@pytest.fixture(params=COMPILERS)
def optimised(request, monkeypatch):
    """Have a compiler called; return the flags of the Makefile and of device c."""
    monkeypatch.setenv("CC", request.param)
    device = [flag for flag in library.FLAGS if flag not in ("-fPIC", "-shared")]
    return {
        "Makefile": compiler_flags.FLAGS,
        "device c": (*device, *native.native_flags((shutil.which(request.param),))),
    }


@pytest.fixture
def fuzzer(monkeypatch):
    monkeypatch.syspath_prepend(str(FUZZER.parent))
    return importlib.import_module("fuzz_c")


REPORTED = (
    ("conv2d", "f64", [(1, 1, 5, 5), (2, 1, 3, 3)], {"padding": (1, 0, 1, 0)}),
    ("conv2d", "f64", [(1, 1, 5, 5), (2, 1, 2, 3)], {"stride": (1, 2), "padding": (1, 0, 0, 0)}),
    ("conv2d", "f32", [(1, 2, 7, 4), (2, 1, 3, 3)], {"stride": (3, 2), "padding": (3, 2, 1, 3), "groups": 2}),
    ("pad", "f32", [(4, 3, 4, 2)], {"pads": (3, 3, 3, 0, 3, 2, 1, 1)}),
)
"""Calls that GCC 12 made wrong results of, before loops under conditions were kept from being unrolled."""


def pair(random, *choices):
    return random.choice(choices), random.choice(choices)


def windowed(random, op):
    """Return shapes and settings of a call with windows."""
    kernel, x = (
        pair(random, 1, 2, 3, 4),
        (random.choice((1, 2)), random.choice((1, 2, 3)), *pair(random, *range(1, 10))),
    )
    most = 2 * [min(extent, 4) for extent in kernel] if "pool" in op else 4 * [4]
    settings = {"stride": pair(random, 1, 2, 3), "padding": tuple(random.randrange(reach) for reach in most)}
    if op != "avg_pool2d":
        settings["dilation"] = pair(random, 1, 1, 2)
    if "pool" in op:
        return [x], {**settings, "kernel": kernel}
    channels = random.choice((1, 2, 3))
    if op == "conv_transpose2d":
        return [x, (x[1], channels, *kernel)], settings
    groups = random.choice((1, 1, x[1]))
    return [x, (channels * groups, x[1] // groups, *kernel)], {**settings, "groups": groups}


def padded(random, _op):
    x = tuple(random.choice((1, 2, 3, 4, 5)) for _ in range(random.choice((1, 2, 3, 4))))
    return [x], {"pads": tuple(random.randrange(4) for _ in 2 * x)}


def rectangle(random, _op):
    return [(random.choice((1, 2, 3)), *pair(random, *range(1, 9)))], {"k": random.choice((-2, -1, 0, 1, 3))}


DRAWN = (
    *(("conv2d", windowed),) * 3,
    *((op, windowed) for op in ("max_pool2d", "avg_pool2d", "conv_transpose2d")),
    *(("pad", padded), ("triu", rectangle), ("tril", rectangle)),
)
"""Operators, and what draws their calls; convolutions are drawn most."""


def call(fuzzer, op, dtype, shapes, settings):
    """Return a call as the fuzzer has it, or None where the language refuses it."""
    schema = Environment.default().op(op)
    try:
        made = call_of(schema, [TensorType(BY_NAME[dtype], shape) for shape in shapes], settings, [])
    except OpTypeError:
        return None
    return fuzzer.Drawn(made, settings, schema.examples[0])


def windows(fuzzer, seed, count):
    """Return calls that read under conditions."""
    random = Random(seed)
    found = [call(fuzzer, *given) for given in REPORTED]
    while len(found) < count:
        op, draw = random.choice(DRAWN)
        shapes, settings = draw(random, op)
        drawn = call(fuzzer, op, random.choice(("f32", "f64")), shapes, settings)
        found += [] if drawn is None else [drawn]
    return [given for drawn in found if (given := fuzzer.on_cpu(drawn, random)) is not None]


def same(found, expected):
    """Return whether arrays are equal, a NaN being any other."""
    if found.dtype.kind in "iub":
        return np.array_equal(found, expected)
    return np.array_equal(found.astype(np.float64), expected.astype(np.float64), equal_nan=True)


def assert_alike(fuzzer, calls, optimised):
    """Each level gives what cpu gives, and the bits of the program without optimisation."""
    inputs = {
        name: array for number, each in enumerate(calls) for name, array in fuzzer.named(number, each.inputs).items()
    }
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), fuzzer.graph_of([each.drawn for each in calls]))

    def run(flags):
        built = synthesis.target.build_and_run(
            synthesis.plan, synthesis.bundle, inputs, flags=flags, timeout=limit_s(100)
        )
        return built.outputs

    plain = run(UNOPTIMISED)
    wrong = [line for number, each in enumerate(calls) for line in fuzzer.compared(number, each, plain)]
    for level, flags in optimised.items():
        for name, found in run(flags).items():
            if not same(found, plain[name]):
                number = int(name[1:].partition("_")[0])
                wrong.append(
                    f"{level}: {calls[number].drawn} is {found.reshape(-1)[:6]}, {plain[name].reshape(-1)[:6]} at -O0"
                )
    assert not wrong, "\n".join(wrong)


def test_windows_are_the_same_at_every_level(fuzzer, optimised):
    assert_alike(fuzzer, windows(fuzzer, 1, 70), optimised)


def test_random_calls_are_the_same_at_every_level(fuzzer, optimised):
    assert_alike(fuzzer, fuzzer.program(sorted(fuzzer.ENVIRONMENT.ops), 90, Random(1), Counter()), optimised)


PACKED = [dtype for dtype in BUILTIN if dtype.is_packed and dtype.is_integer]


def test_packed_results_are_the_same_at_every_level(optimised):
    # Clang 14 wrote wrong elements where it vectorised the outer loop.
    declared = " ".join(f"y_{dtype}: {dtype}[25, 8, 2];" for dtype in PACKED)
    statements = " ".join(f"op iota() >> y_{dtype};" for dtype in PACKED)
    model, text = Model.from_arrays({}), f"volatile {{ {declared} }} block entry {{ {statements} }}"
    synthesis = Synthesizer("c").synthesize(model, text)
    with Simulator(model, text).make_executor() as executor:
        executor.step()
        expected = {dtype: executor.fetch(f"y_{dtype}") for dtype in PACKED}

    for level, flags in optimised.items():
        found = synthesis.target.build_and_run(
            synthesis.plan, synthesis.bundle, {}, flags=flags, timeout=limit_s(100)
        ).outputs
        for dtype, values in expected.items():
            np.testing.assert_array_equal(found[f"y_{dtype}"], values, err_msg=f"{level}: {dtype}")


LENGTHS = (40, 64, 72, 112, 128, 176, 264)
"""Bytes of constants that are copied."""


def of_ones(dtype, nbytes, zeros):
    """Return ones, the last of which are zeros, in so many bytes."""
    array = np.ones(nbytes // np.dtype(dtype).itemsize, dtype)
    array[array.size - zeros // array.itemsize :] = 0
    return array


def test_copies_of_constants_are_the_same_at_every_level(optimised):
    # GCC 12 with vectors of 64 bytes copied ones where zeros follow them, in programs that know the elements.
    expected = {
        f"{dtype}_{nbytes}_{zeros}": of_ones(dtype, nbytes, zeros)
        for dtype in ("u1", "i2", "i8", "f4", "f8")
        for nbytes in LENGTHS
        for zeros in (8, nbytes // 24 * 16)
    }
    types = {name: f"{dtype_of_array(array)}[{array.size}]" for name, array in expected.items()}
    declared = " ".join(f"b_{name}: {type_}; y_{name}: {type_};" for name, type_ in types.items())
    statements = " ".join(f"op identity(b_{name}) >> y_{name};" for name in types)
    text = f"volatile {{ {declared} }} block entry {{ {statements} }}"
    model = Model.from_arrays({f"b_{name}": array for name, array in expected.items()})
    synthesis = Synthesizer("c").synthesize(model, text)

    for level, flags in optimised.items():
        found = synthesis.target.build_and_run(
            synthesis.plan, synthesis.bundle, {}, flags=flags, timeout=limit_s(100)
        ).outputs
        for name, values in expected.items():
            np.testing.assert_array_equal(found[f"y_{name}"], values, err_msg=f"{level}: {name}")
