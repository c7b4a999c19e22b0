"""The templates of bundles, filled in."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import jinja2

from openinfer.synth.c_host.templates import shared_templates

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def _templates() -> jinja2.Environment:
    # The templates are C and Markdown: nothing in them is HTML, and every name passes the filters of openinfer.synth.
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader((jinja2.PackageLoader("openinfer_synth_c"), jinja2.DictLoader(shared_templates()))),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(name: str, context: Mapping[str, object]) -> str:
    """Return a template with its variables filled in."""
    return _templates().get_template(name).render(context)
