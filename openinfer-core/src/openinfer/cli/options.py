"""Options that several commands take, and the kinds of values that they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

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
    """Add ``--limit NAME=N``, which may be given several times; the parameter ``limits`` is a mapping."""
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=N",
        callback=_sizes,
        help="How far index NAME of caches may grow, or CACHE.INDEX of one; how large size NAME of a step may be.",
    )(function)


def strict_order_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--strict-order``; the parameter ``strict_order`` is a bool."""
    text = "Add up every sum term by term, without fused multiply-add."
    return click.option("--strict-order", is_flag=True, help=text)(function)


def seed_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--seed N``."""
    kind = click.IntRange(min=0)
    return click.option("--seed", default=0, show_default=True, type=kind, help="Seed of random inputs.")(function)


def _sizes(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    try:
        return dict(parse_size(text) for text in texts)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, ctx=context, param=parameter) from error


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
