"""Random calls in guarded memory, briefly; and that the fuzzer sees what it is for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.calls import drawn_call

FUZZER = Path(__file__).resolve().parents[2] / "openinfer-core" / "fuzz" / "fuzz_kernels.py"

pytestmark = pytest.mark.skipif(not FUZZER.is_file(), reason="the fuzzer is not in this tree")


@contextmanager
def fuzzing(seed: int) -> Iterator[subprocess.Popen[str]]:
    """Start the fuzzer, and end it when it is left."""
    command = [sys.executable, str(FUZZER), "--calls", "3000", "--seed", f"{seed}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.rule("operators.indices.2")
def test_no_call_reaches_outside_of_its_buffers() -> None:
    with ExitStack() as stack:
        running = [stack.enter_context(fuzzing(seed)) for seed in (1, 2)]
        for process in running:
            printed, _ = process.communicate()
            assert process.returncode == 0, printed
            done = int(printed.split()[0])
            assert done > 2500, printed


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FUZZER.parent))
    return importlib.import_module("fuzz_kernels")


def write_past_the_end(source: Any, target: Any) -> None:
    np.lib.stride_tricks.as_strided(target.array.reshape(-1), (target.array.size + 1,))[...] = 0x55


def read_before_the_start(source: Any, target: Any) -> None:
    flat = source.array.reshape(-1)
    target.array[...] = np.lib.stride_tricks.as_strided(flat[1:], flat.shape, (-flat.itemsize,)).reshape(flat.shape)[-1]


def leave_the_output(source: Any, target: Any) -> None:
    """An output that is not written is what its memory held before."""


def write_the_input(source: Any, target: Any) -> None:
    source.array.flags.writeable = True
    source.array[...] = 7
    target.array[...] = 0


def fail(source: Any, target: Any) -> None:
    raise IndexError("some position is past the end")


@pytest.mark.parametrize(
    ("broken", "reported"),
    [
        (write_past_the_end, "wrote outside of a buffer"),
        (read_before_the_start, "depends on what lies around"),
        (leave_the_output, "depends on what lies around"),
        (write_the_input, "changed an input"),
        (fail, "IndexError: some position is past the end"),
    ],
)
def test_the_fuzzer_sees_broken_kernels(
    fuzzer: Any, monkeypatch: pytest.MonkeyPatch, broken: Callable[[Any, Any], None], reported: str
) -> None:
    monkeypatch.setattr(fuzzer, "run", lambda _device, _call, sources, targets: broken(sources[0], targets[0]))
    random, schema = Random(0), Environment.default().op("identity")
    calls = (drawn_call(schema, random) for _ in range(500))
    call = next(c for c in calls if c and c.call.inputs[0].dtype.name == "u8" and np.prod(c.call.inputs[0].shape) > 3)
    with pytest.raises(fuzzer.BrokenRuleError, match=reported):
        fuzzer.check(call, random)
