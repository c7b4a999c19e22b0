"""Options that several commands take, and the kinds of values that they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from openinfer.cli.headings import option_under
from openinfer.cli.project_file import options_of_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_DIGITS = 19
"""Digits of a size: those of the largest 64-bit integer."""


class FiniteRange(click.FloatRange):
    """A float within bounds that is neither NaN nor an infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"expected a finite number, found {value!r}", param, ctx)
        return number


SECONDS = FiniteRange(min=0, min_open=True, max=24 * 60 * 60)
"""A time of at most a day."""


def size_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--size NAME=N``, which may be given several times; the parameter ``sizes`` is a mapping."""
    return click.option(
        "--size",
        "sizes",
        multiple=True,
        metavar="NAME=N",
        callback=_sizes,
        help="Override a size of the model.",
    )(function)


def limit_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--limit NAME=N``, which may be given several times; the parameter ``limits`` is a mapping.

    Limits of the project file hold where the option does not name the same.
    """
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=N",
        callback=_limits,
        help="How far index NAME of caches may grow, or CACHE.INDEX of one; how large size NAME of a step may be.",
    )(function)


def device_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--device NAME``: by default that of the project file, or cpu."""
    return click.option(
        "--device",
        default="cpu",
        show_default=True,
        metavar="NAME",
        callback=_device,
        help="Device, such as cpu or vulkan:1.",
    )(function)


def target_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--target NAME``: by default that of the project file, unless ``--arch`` names a device file.

    The parameter ``target`` is None where neither has one. ``--arch`` has to be eager.
    """
    text = "Synth target; by default that of --arch, or c."
    return click.option("--target", metavar="NAME", callback=_target, help=text)(function)


def strict_order_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--strict-order``; the parameter ``strict_order`` is a bool."""
    text = "Add up every sum term by term, without fused multiply-add."
    return click.option("--strict-order", is_flag=True, help=text)(function)


def seed_option(heading: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--seed N``."""
    kind = click.IntRange(min=0)
    return option_under(heading)("--seed", default=0, show_default=True, type=kind, help="Seed of random inputs.")


def _sizes(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    try:
        return dict(parse_size(text) for text in texts)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, ctx=context, param=parameter) from error


def _limits(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    return {**options_of_graph(context).limits, **_sizes(context, parameter, texts)}


def _device(context: click.Context, parameter: click.Parameter, name: str) -> str:
    is_default = context.get_parameter_source(parameter.name or "") is ParameterSource.DEFAULT
    return options_of_graph(context).device or name if is_default else name


def _target(context: click.Context, _: click.Parameter, name: str | None) -> str | None:
    # A device file names a target itself.
    return options_of_graph(context).target if name is None and context.params.get("arch") is None else name


def parse_size(text: str) -> tuple[str, int]:
    """Return the parts of ``NAME=N``.

    Raises:
        BadParameter: it has another form, or N more digits than a 64-bit integer.
    """
    name, _, number = (part.strip() for part in text.partition("="))
    if not name or not (number.isascii() and number.isdigit()):
        raise click.BadParameter(f"expected NAME=N with a size N such as B=8, found {text!r}")
    if len(number.lstrip("0")) > MOST_DIGITS:
        raise click.BadParameter(f"the size of {name} has {len(number)} digits, no tensor is that large")
    return name, int(number)
