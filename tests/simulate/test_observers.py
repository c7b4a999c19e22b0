"""Observers of plugins see the events of every traced step."""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ExecutionError, PluginError
from openinfer.plugin import ObserverSpec, TraceEvent, hookimpl
from openinfer.plugins.loader import load_environment

PROGRAM = """
dynamic { x: f32[2]; i: i64; }
volatile { h: f32[2]; y: f32; }
block entry {
  op neg(x) >> h;
  op gather(h, i, axis=0) >> y;
  return y;
}
"""
X = np.ones(2, np.float32)


class Watching:
    """A plugin with one observer, and what it has seen."""

    def __init__(self, error: Exception | None = None) -> None:
        seen = self.seen = list[list[str]]()

        class Observer:
            def observe(self, events: Sequence[TraceEvent]) -> None:
                if error is not None:
                    raise error
                seen.append([event.op_name or event.kind for event in events])

        module = ModuleType("watching")
        module.OPENINFER_API = 1
        module.Observer = Observer
        spec = ObserverSpec(name="watch", summary="writes operators down", observer="watching:Observer")
        module.openinfer_observers = hookimpl(specname="openinfer_observers")(lambda: [spec])
        self.module = module

    def executor(self, *, trace: bool = True) -> oi.Executor:
        environment = load_environment(extra=[("watching", self.module)])
        model = oi.Model.from_arrays({})
        return oi.Simulator(model, PROGRAM, trace=trace, echo=False, environment=environment).make_executor()


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(watching: Watching) -> Watching:
        monkeypatch.setitem(sys.modules, "watching", watching.module)
        return watching

    return put


def test_the_events_of_each_step_are_handed_over_once(modules: Any) -> None:
    watching = modules(Watching())
    executor = watching.executor()

    executor.step(x=X, i=0)
    executor.clear_trace()
    executor.insert(x=X, i=1)
    list(executor.iterate())

    assert watching.seen == [["neg", "gather", "Return"]] * 2


def test_a_step_that_fails_is_seen_as_far_as_it_ran(modules: Any) -> None:
    watching = modules(Watching())

    with pytest.raises(ExecutionError):
        watching.executor().step(x=X, i=5)

    assert watching.seen == [["neg"]]


def test_nothing_is_observed_without_tracing(modules: Any) -> None:
    watching = modules(Watching())

    watching.executor(trace=False).step(x=X, i=0)

    assert watching.seen == []


def test_what_an_observer_raises_names_its_plugin(modules: Any) -> None:
    watching = modules(Watching(RuntimeError("no pencil")))

    with pytest.raises(PluginError, match="observe of observer watch raised RuntimeError: no pencil"):
        watching.executor().step(x=X, i=0)
