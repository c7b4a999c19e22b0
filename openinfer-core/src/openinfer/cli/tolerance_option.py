"""The option ``--tolerance`` of commands that compare values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.headings import option_under

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.tolerances import Tolerance


def tolerance_option(says: str, heading: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--tolerance``; ``tolerances`` maps element types, ``""`` for all floats, to a `Tolerance`."""
    return option_under(heading)(
        "--tolerance",
        "tolerances",
        multiple=True,
        metavar="[DTYPE=]ABS[,REL]",
        callback=_tolerances,
        help=f"{says} Without DTYPE for all floats; REL is ABS where it is left out, 0 for integers.",
    )


def _tolerances(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, Tolerance]:
    from openinfer.tolerances import parse_tolerance

    tolerances: dict[str, Tolerance] = {}
    for text in texts:
        try:
            name, tolerance = parse_tolerance(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx=context, param=parameter) from error
        if name in tolerances:
            message = f"the tolerance of {name or 'all floats'} is given twice"
            raise click.BadParameter(message, ctx=context, param=parameter)
        tolerances[name] = tolerance
    return tolerances
