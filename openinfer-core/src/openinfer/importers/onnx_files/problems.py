"""Why parts of a model cannot be imported, in one error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, counted, shortened
from openinfer.errors import ModelImportError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_LISTED = 100
"""Nodes that one error lists."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a node cannot be translated.

    Attributes:
        node: operator and name, as messages call it.
        types: its inputs, or its arguments.
    """

    node: str
    types: str
    reason: str
    code: str = "import-unsupported"

    def __str__(self) -> str:
        return f"{self.node}({shortened(self.types, 300)}): {shortened(self.reason, 600)}"


def error_of(
    kind: str, problems: Sequence[Problem], *, further: Sequence[str] = (), inputs: Sequence[str] = ()
) -> ModelImportError:
    """Return the error that lists problems.

    Args:
        kind: what a node is called in the format.
        further: lines at the end.
        inputs: inputs of the model that have to be known.
    """
    lines = [str(problem) for problem in problems[:MOST_LISTED]]
    diagnostics = [Diagnostic(code=each.code, message=line) for each, line in zip(problems, lines, strict=False)]
    more = len(problems) - len(lines)
    if more:
        lines.append(f"and {more} more")
        message = f"{counted(more, f'more {kind}')} cannot be imported"
        diagnostics.append(Diagnostic(code="import-unsupported", message=message))
    only_values = all(problem.code == "import-value" for problem in problems)
    return ModelImportError(
        f"{counted(len(problems), kind)} cannot be imported:\n  " + "\n  ".join([*lines, *further]),
        code="import-value" if only_values else "import-unsupported",
        diagnostics=diagnostics,
        nodes=[problem.node for problem in problems],
        inputs=inputs,
    )
