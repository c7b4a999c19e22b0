"""What commands that run a program have in common: its options, and its inputs step by step."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.headings import option_under
from openinfer.cli.options import limit_option, seed_option, size_option
from openinfer.cli.program_argument import program_argument
from openinfer.cli.run_values import parse_inputs
from openinfer.diagnostics import Diagnostic
from openinfer.errors import DynamicUnsetError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from openinfer.cli.run_values import Input
    from openinfer.errors import Finding
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.simulate import Executor


INPUTS = "Inputs and state"
"""Heading of the options that give a program its values."""


def program_options(*, least_steps: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add what `program_argument` does, ``--input``, ``--initial``, ``--steps``, ``--size``, ``--limit``, ``--seed``
    and ``--placement``.

    The parameters are ``program``, ``inputs`` and ``initial`` (of `Input`), ``steps``, ``sizes``, ``limits``, ``seed``
    and ``placement``.
    """
    options = (
        program_argument,
        input_option("SOURCE: a .npy file, random, zeros, a value; one for each input.", INPUTS),
        initial_option("Value of persistent variable NAME before the first step.", INPUTS),
        option_under(INPUTS)(
            "--steps", default=1, show_default=True, type=click.IntRange(min=least_steps), help="Steps to run."
        ),
        size_option,
        limit_option,
        seed_option(INPUTS),
        click.option("--placement", is_flag=True, help="Obey `placement` hints."),
    )

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def input_option(says: str, heading: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--input NAME=SOURCE``; the parameter ``inputs`` holds an `Input` for each."""
    option = option_under(heading)
    return option("--input", "inputs", multiple=True, metavar="NAME=SOURCE", callback=_inputs, help=says)


def initial_option(says: str, heading: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--initial NAME=SOURCE``; the parameter ``initial`` holds an `Input` for each."""
    option = option_under(heading)
    return option("--initial", "initial", multiple=True, metavar="NAME=SOURCE", callback=_inputs, help=says)


def _inputs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[Input]:
    try:
        return parse_inputs(texts, parameter.opts[0])
    except click.BadParameter as error:
        raise click.BadParameter(error.message, ctx=context, param=parameter) from error


class StepValues:
    """The values of ``--input`` for each step.

    Random integers that the program indexes, counts or turns with are drawn from those that it takes, at the sizes of
    the model; other values from the range of their type.
    """

    def __init__(self, inputs: Sequence[Input], executor: Executor, model: Model, seed: int) -> None:
        self._inputs = inputs
        self._executor = executor
        self._model = model
        self._seed = seed

    def at(self, step: int) -> dict[str, Any]:
        """Return the inputs' values for a step; random ones depend on the seed, their place and the step.

        Files and lists give the step its sizes, which random values, zeros and single numbers fill.

        Raises:
            ExecutionError: a value does not fit, or a file cannot be read.
        """
        contents = {item.name: item.content() for item in self._inputs}
        shaped = {name: content for name, content in contents.items() if content is not None}
        types = {item.name: self._executor.input_type(item.name, shaped) for item in self._inputs}
        return {
            item.name: item.value(
                types[item.name], (self._seed, number, step), shaped.get(item.name), self._bounds.get(item.name)
            )
            for number, item in enumerate(self._inputs)
        }

    @cached_property
    def _bounds(self) -> Mapping[str, tuple[float, float]]:
        return random_bounds(self._inputs, self._executor.program, self._model)


def random_bounds(inputs: Sequence[Input], program: ResolvedGraph, model: Model) -> dict[str, tuple[float, float]]:
    """Return the least and greatest value of those random inputs for which the program sets bounds."""
    random = [item.name for item in inputs if item.source == "random" and item.name in program.variables]
    if not random:
        return {}
    from openinfer.plugins.environment import Environment
    from openinfer.random_inputs import input_ranges

    ranges = input_ranges(program, model, random, Environment.default())
    return {name: (values.bounds.low, values.bounds.high) for name, values in ranges.items() if values.use}


def give_first_values(executor: Executor, initial: Sequence[Input], seed: int) -> None:
    """Give persistent variables their values before the first step; random ones depend on the seed and their place.

    Raises:
        ExecutionError: a variable is unknown or not persistent, a value does not fit, or a file cannot be read.
    """
    from openinfer.simulate.state.partial_state import persistent_variable

    values: dict[str, Any] = {}
    for place, item in enumerate(initial):
        variable = persistent_variable(executor.program.variables, item.name)
        is_table = variable.decl is not None and bool(variable.decl.formals)
        # Inputs are drawn by (seed, place, step), which a key ending in zeros would be equal to.
        key = (seed, place, 0, 1)
        values[item.name] = item.entries(variable.type.dtype) if is_table else item.value(variable.type, key)
    if values:
        executor.restore(values)


@contextmanager
def inputs_hinted() -> Generator[None]:
    """Add to the findings of errors about absent values how the command line gives one."""
    try:
        yield
    except DynamicUnsetError as error:
        error.diagnostics = tuple(map(_hinted, error.diagnostics))
        raise


def _hinted(finding: Finding) -> Finding:
    hint = "give it one with --input NAME=FILE.npy, NAME=random, NAME=zeros or NAME=VALUE"
    return replace(finding, hint=hint) if isinstance(finding, Diagnostic) else finding
