"""Options under headings in the help of a command."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = "Options"


class HeadedOption(click.Option):
    """An option that the help of a `HeadedCommand` lists under a heading."""

    def __init__(self, *declarations: Any, heading: str, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.heading = heading


class HeadedCommand(click.Command):
    """A command whose help lists plain options first, then a section for each heading, in the order of declaration."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {_PLAIN: []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                heading = option.heading if isinstance(option, HeadedOption) else _PLAIN
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def option_under(heading: str) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return `click.option` for options under a heading; their command has to be a `HeadedCommand`."""
    return partial(click.option, cls=HeadedOption, heading=heading)
