"""Runners of batches, commands and observers of steps that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import numpy as np
from misbehaving import NO_RESULT, PARTS, Act, Spot, module, overriding, parts, returning
from misbehaving_operators import MODEL, PROGRAM, operator
from openinfer_example_runner.runner import Threads

import openinfer as oi
from openinfer.batch import run_batch
from openinfer.plugins import types
from openinfer.plugins.environment import Environment


def with_runner(runner: Any) -> ModuleType:
    parts(Runner=runner)
    spec = types.RunnerSpec(name="their_runner", summary="theirs", runner=f"{PARTS}:Runner")
    return module(runners=lambda: [spec], ops=lambda: [operator()])


def spread(environment: Environment, _: Path) -> object:
    inputs = [{"x": np.ones(2, np.float32)} for _ in range(3)]
    graph = oi.graph(PROGRAM)
    found = list(run_batch(MODEL, graph, inputs, runner="their_runner", workers=1, environment=environment))
    for _, result in found:
        if isinstance(result, Exception):
            raise result
    return found


def runner_spot(name: str, make: Callable[[Act], Any] = lambda act: act, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_runner(overriding(Threads, name, make)(act)), spread, legal)


def silent(self: Any, workers: int | None = None) -> None:
    """Leave attributes to the class."""


RUNNERS = {
    "making a runner": Spot(with_runner, spread),
    "workers": Spot(
        lambda act: with_runner(type("Theirs", (Threads,), {"__init__": silent, "workers": property(act)})), spread
    ),
    "inline": runner_spot("inline", property),
    "start": runner_spot("start"),
    "run": runner_spot("start", lambda act: returning(SimpleNamespace(run=act, close=lambda: None))),
    "an answer": runner_spot(
        "start", lambda act: returning(SimpleNamespace(run=lambda _: repr(act()).encode(), close=lambda: None))
    ),
    "closing a worker": runner_spot("start", lambda act: returning(SimpleNamespace(run=lambda _: b"", close=act))),
    "closing a runner": runner_spot("close", legal=NO_RESULT),
}


def with_command(command: Any) -> ModuleType:
    parts(command=command)
    spec = types.CommandSpec(name="their-command", summary="theirs", command=f"{PARTS}:command")
    return module(commands=lambda: [spec])


def called(environment: Environment, _: Path) -> object:
    from openinfer.cli.plugin_commands import opened_command

    command = opened_command(environment.commands["their-command"], environment.owner("command", "their-command"))
    return command.main([], standalone_mode=False)


COMMANDS = {
    "a command": Spot(with_command, called),
    "calling a command": Spot(
        lambda act: with_command(click.command()(lambda: act())), called, ("exits with 0", *NO_RESULT)
    ),
}


def with_observer(observer: Any) -> ModuleType:
    parts(Observer=observer)
    spec = types.ObserverSpec(name="their_observer", summary="theirs", observer=f"{PARTS}:Observer")
    return module(observers=lambda: [spec], ops=lambda: [operator()])


def observed(environment: Environment, _: Path) -> Any:
    simulator = oi.Simulator(MODEL, oi.graph(PROGRAM), trace=True, echo=False, environment=environment)
    with simulator.make_executor() as executor:
        executor.step(x=[1.0, -2.0])
        return executor.fetch("y")


OBSERVERS = {
    "making an observer": Spot(with_observer, observed),
    "observe": Spot(lambda act: with_observer(returning(SimpleNamespace(observe=act))), observed, NO_RESULT),
}
