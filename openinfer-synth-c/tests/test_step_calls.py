"""Calls of compiled steps: they wait, and are written and compiled together when one of them is called."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from openinfer import Model, Simulator, graph
from openinfer.errors import DeviceError, SynthesisError
from openinfer_synth_c import device, step_calls
from openinfer_synth_c.library import load_library
from openinfer_synth_c.step_calls import StepCalls
from openinfer_synth_c.step_functions import StepFunction, step_function

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def giving(number):
    lines = ("    (void)inputs_given;", f"    *(int32_t *)outputs_given[0] = {number};", "    return MODEL_OK;")
    return StepFunction(lines, (), frozenset(), keeps_memory=False, work=1)


def writing(number):
    return lambda: giving(number)


@pytest.fixture
def loads(monkeypatch):
    """Note how many functions are compiled at a time; what is put in ``meanwhile`` is called while they are."""
    counts, meanwhile = [], []

    def load(files, flags=()):
        counts.append(files["steps.c"].count("int step_") // 2)
        while meanwhile:
            meanwhile.pop()()
        return load_library(files)

    monkeypatch.setattr(step_calls, "load_library", load)
    return counts, meanwhile


def test_functions_that_wait_are_compiled_together_and_equal_ones_once(loads):
    calls, out = StepCalls(), np.zeros((), np.int32)
    runs = [calls.bind(writing(number), [], [out], "it") for number in (1, 2, 2)]

    found = [(run(), int(out))[1] for run in runs]

    assert found == [1, 2, 2]
    assert loads[0] == [2]


def test_a_function_that_begins_to_wait_while_others_are_compiled_is_compiled_with_the_next(loads):
    calls, out = StepCalls(), np.zeros((), np.int32)
    counts, meanwhile = loads
    late = []
    first = calls.bind(writing(1), [], [out], "it")
    meanwhile.append(lambda: late.append(calls.bind(writing(2), [], [out], "it")))

    first()
    late[0]()

    assert int(out) == 2
    assert counts == [1, 1]


def test_what_does_not_compile_is_an_error_at_every_call():
    calls = StepCalls()
    nonsense = StepFunction(("    nonsense",), (), frozenset(), keeps_memory=False, work=1)
    run = calls.bind(lambda: nonsense, [], [], "it")

    for _ in range(2):
        with pytest.raises(DeviceError, match="the C compiler failed"):
            run()


def test_nothing_is_written_before_the_first_call():
    calls = StepCalls()

    calls.bind(lambda: pytest.fail("written"), [], [], "it")


def test_a_step_that_cannot_be_written_raises_why_at_its_own_calls_only(loads):
    def refused():
        raise SynthesisError("a step for which there is no C")

    calls, out = StepCalls(), np.zeros((), np.int32)
    other = calls.bind(refused, [], [], "other")
    run = calls.bind(writing(3), [], [out], "it")

    run()

    assert int(out) == 3
    for _ in range(2):
        with pytest.raises(SynthesisError, match="for which there is no C"):
            other()
    assert loads[0] == [1]


def test_a_step_that_is_bound_again_is_written_and_compiled_once(monkeypatch):
    written = []

    def noted(step, inputs, outputs, **options):
        written.append(step.op)
        return step_function(step, inputs, outputs, **options)

    monkeypatch.setattr(device, "step_function", noted)
    program = graph("""
        dynamic { x: f32[3]; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n]; cache.increment n; cache.read K[0..n] >> k; op softmax(k, axis=-1) >> y; return y;
        }""")
    simulator = Simulator(Model.from_arrays({}), program, device="c", trace=True, echo=False)
    with simulator.make_executor() as executor:
        begin = executor.snapshot()
        executor.step(x=np.ones(3, np.float32))
        once = list(written)
        for _ in range(3):
            executor.restore(begin)
            executor.step(x=np.ones(3, np.float32))

    assert once
    assert written == once
