"""What is wrong with a text: the independent findings of every phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic
from openinfer.dsl import read_program
from openinfer.editors.reading import outline_of, outline_of_cut
from openinfer.errors import DslSyntaxError
from openinfer.validate import checked_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.editors.outline import Outline
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A text with its outline and findings; ``resolved`` if there is a model and the text fits it.

    ``is_current`` is false where ``resolved`` is that of an earlier text.
    """

    text: str
    outline: Outline
    findings: Sequence[Diagnostic]
    resolved: ResolvedGraph | None = None
    is_current: bool = True


def analyse(text: str, environment: Environment, model: Model | None = None) -> Analysis:
    """Return what an editor shows of a text. Without a model, sizes and model names are not checked."""
    try:
        # A byte order mark is a character of the text that an editor shows.
        reading = read_program(f" {text[1:]}" if text.startswith("\ufeff") else text)
    except DslSyntaxError as error:
        outline = outline_of(text)
        found = [finding for finding in error.diagnostics if isinstance(finding, Diagnostic)]
        alone = Diagnostic(code=error.code, message=str(error))
        return Analysis(text=text, outline=outline, findings=found or [alone])
    outline = outline_of(text) if reading.cut is None else outline_of_cut(reading.cut)
    checked = checked_program(reading, model=model, environment=environment)
    return Analysis(text=text, outline=outline, findings=checked.findings, resolved=checked.resolved)
