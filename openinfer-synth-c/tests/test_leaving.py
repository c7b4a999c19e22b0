"""Long steps of device c can be left: signals are handled while they run, and the executor goes on."""

from __future__ import annotations

import ctypes
import shutil
import signal
import threading

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import StepStateError
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer_synth_c.leaving import run_until_stopped
from openinfer_synth_c.polls import UNKNOWN_WORK, with_polls

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers that send signals"),
]

ENDLESS = """
dynamic { x: f32[64, 64]; go: bool; } volatile { y: f32[64, 64] @init(1.0); }
block entry { branch go forever once; return y; }
block forever { loop turns (l in 0..1000000000000) { op matmul(y, x) >> y; } return; }
block once { op add(y, x) >> y; return; }
"""

WIDE = """
dynamic { x: f32[1536, 1536]; } volatile { y: f32[1536, 1536]; z: f32[1536, 1536]; }
block entry { op matmul(x, x) >> y; op add(x, x) >> z; return y, z; }
"""


@pytest.fixture
def alarm():
    """Return a function that has a handler called after some seconds."""
    former = signal.getsignal(signal.SIGALRM)

    def after(seconds, handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield after
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def rung_in(alarm, seconds, call):
    """Make a call that a key ends after some seconds."""

    def ring(*_):
        raise KeyboardInterrupt

    alarm(seconds, ring)
    call()


def test_a_step_is_left_and_the_next_one_is_right(alarm):
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)

    with Simulator(Model.from_arrays({}), graph(ENDLESS), device="c").make_executor() as executor:
        executor.step(x=x, go=False)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                rung_in(alarm, 0.2, lambda: executor.step(x=x, go=True))
            assert not executor.is_running
            with pytest.raises(StepStateError, match="`y` holds no value"):
                executor.fetch("y")

            executor.step(x=x, go=False)
            np.testing.assert_array_equal(executor.outputs()["y"], x + 1)


@pytest.mark.parametrize("by_node", [False, True], ids=["whole", "node by node"])
def test_a_long_operator_is_left(alarm, by_node):
    program = graph(WIDE.replace("1536", "6144"))

    with Simulator(Model.from_arrays({}), program, device="c").make_executor() as executor:
        executor.insert(x=np.ones((6144, 6144), np.float32))
        with pytest.raises(KeyboardInterrupt):
            rung_in(alarm, 1.0, lambda: list(executor.iterate()) if by_node else executor.step())
        assert not executor.is_running
        # Python handles signals once a call has returned: this one had not come to its end.
        assert executor._backend.read(executor._memory.buffer("y"))[-1, -1] == 0


@pytest.mark.parametrize("by_node", [False, True], ids=["whole", "node by node"])
def test_a_handler_that_returns_leaves_the_step_alone(alarm, by_node):
    x = np.eye(1536, dtype=np.float32) * 2
    rung = []

    with Simulator(Model.from_arrays({}), graph(WIDE), device="c").make_executor() as executor:
        executor.insert(x=x)
        alarm(0.001, lambda *_: rung.append(True))
        list(executor.iterate()) if by_node else executor.step()

        assert rung == [True]
        np.testing.assert_array_equal(executor.outputs()["y"], 2 * x)
        np.testing.assert_array_equal(executor.outputs()["z"], 2 * x)


def test_a_call_sees_the_flag_that_an_exception_sets(alarm):
    stop, begun = ctypes.c_int(7), threading.Event()

    def call():
        assert stop.value == 0
        begun.set()
        while not stop.value:
            pass
        return 4

    with pytest.raises(KeyboardInterrupt):
        rung_in(alarm, 0.05, lambda: run_until_stopped(call, stop))
    assert begun.is_set()


def test_what_a_call_returns_or_raises():
    def fail():
        raise ValueError("wrong")

    assert run_until_stopped(lambda: 3, ctypes.c_int()) == 3
    with pytest.raises(ValueError, match="wrong"):
        run_until_stopped(fail, ctypes.c_int())


def test_in_other_threads_calls_are_made_at_once():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(run_until_stopped(threading.get_ident, ctypes.c_int())))
    thread.start()
    thread.join()

    assert seen == [thread.ident]


def test_loops_without_others_are_divided_and_give_the_same():
    size = (1 << 22) + 5
    text = f"""dynamic {{ x: f32[{size}]; }} volatile {{ y: f32[{size}]; total: f32; }}
    block entry {{ op add(x, x) >> y; op sum_axis(x, axes=0) >> total; return y, total; }}"""
    x = (np.arange(size) % 3).astype(np.float32)

    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=x)
        np.testing.assert_array_equal(executor.outputs()["y"], 2 * x)
        assert executor.outputs()["total"] == x.sum(dtype=np.float64)


def test_work_is_estimated_and_tested_for_in_between():
    lines = ["for (size_t i = 0; i < 4096; ++i) {", "for (size_t j = 0; j < 4096; ++j) {", "y[j] += x[i];", "}", "}"]

    found, work = with_polls(lines, {}, {})
    short, little = with_polls([lines[0], "y[i] = sqrtf(x[i]);", "}"], {}, {})
    loop = ["for (int64_t l = start; l < end; ++l) {", "status = block(in, out);", "}"]
    _, unknown = with_polls(loop, {}, {"block": 3})
    _, known = with_polls(loop, {0: 10}, {"block": 3})

    assert found == [f"{lines[0]}\n    POLL", *lines[1:]]
    assert (work, little, unknown, known) == (4096 * 4096, 4096 * 32, UNKNOWN_WORK, 350)
    assert short == [lines[0], "y[i] = sqrtf(x[i]);", "}"]


def test_bundles_have_no_tests_in_their_loops():
    files = Synthesizer("c").synthesize(Model.from_arrays({}), graph(ENDLESS)).bundle.files

    assert not any(b"POLL" in data or b"STOPPED" in data for data in files.values())
