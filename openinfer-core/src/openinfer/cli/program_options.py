"""What commands that run a program have in common: its options, and its inputs step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.options import seed_option, size_option
from openinfer.cli.run_values import parse_inputs
from openinfer.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.cli.run_values import Input
    from openinfer.errors import Finding, OpenInferError
    from openinfer.simulate import Executor


def program_options(*, least_steps: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add GRAPH, ``--model``, ``--input``, ``--steps``, ``--size``, ``--seed`` and ``--placement``.

    The parameters are ``graph``, ``model_path``, ``inputs`` (of `Input`), ``steps``, ``sizes``, ``seed`` and
    ``placement``.
    """
    options = (
        click.argument("graph", metavar="GRAPH"),
        click.option("--model", "-m", "model_path", required=True, metavar="FILE", help="Model: sizes and weights."),
        input_option("SOURCE: a .npy file, random, zeros, a value; one for each input."),
        click.option(
            "--steps", default=1, show_default=True, type=click.IntRange(min=least_steps), help="Steps to run."
        ),
        size_option,
        seed_option,
        click.option("--placement", is_flag=True, help="Run operators on the devices that the program's hints name."),
    )

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def input_option(says: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--input NAME=SOURCE``; the parameter ``inputs`` holds an `Input` for each."""
    return click.option("--input", "inputs", multiple=True, metavar="NAME=SOURCE", callback=_inputs, help=says)


def _inputs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[Input]:
    try:
        return parse_inputs(texts)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, ctx=context, param=parameter) from error


def values_of(inputs: Sequence[Input], executor: Executor, seed: int, step: int) -> dict[str, Any]:
    """Return the inputs' values for a step; random ones depend on the seed, their place and the step.

    Raises:
        ExecutionError: a value does not fit, or a file cannot be read.
    """
    return {each.name: each.value(executor.input_type(each.name), (seed, p, step)) for p, each in enumerate(inputs)}


def hint_at_inputs(error: OpenInferError) -> None:
    """Add to the findings of an error about an absent value how the command line gives one."""
    error.diagnostics = tuple(_hinted(finding) for finding in error.diagnostics)


def _hinted(finding: Finding) -> Finding:
    hint = "give it one with --input NAME=FILE.npy, NAME=random, NAME=zeros or NAME=VALUE"
    return replace(finding, hint=hint) if isinstance(finding, Diagnostic) else finding
