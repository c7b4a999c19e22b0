"""Errors of planning: each one names the node that it is about."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic
from openinfer.errors import PluginError, SynthesisError
from openinfer.ir.findings import of_node
from openinfer.ir.places import NOWHERE, setting_value_place, span_of
from openinfer.ir.text import node_desc
from openinfer.ops.schema import OpTypeError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from openinfer.ir.nodes import Node


def at_node(
    code: str, message: str, block: str, node: Node, hint: str | None = None, *, settings: Sequence[str] = ()
) -> SynthesisError:
    """Return an error about a node, with its place in the text: the first of the ``settings`` that it gives, or all."""
    parts = node.places or NOWHERE
    at_fault = next((setting_value_place(parts, name) for name in settings if name in parts.settings), None)
    unplaced = Diagnostic(code=code, message=message, span=span_of(node.span, at_fault), hint=hint)
    diagnostic = of_node(unplaced, block, node)
    return SynthesisError(str(diagnostic), code=code, diagnostics=(diagnostic,))


@contextmanager
def faults_at(block: str, node: Node) -> Generator[None]:
    """Have failures of plugins and what operators refuse name a node, with its place in the text.

    Raises:
        SynthesisError: a rule or the definition of the operator has raised `OpTypeError`.
    """
    try:
        yield
    except OpTypeError as error:
        message = f"{node_desc(node)}: {error}"
        raise at_node(error.code, message, block, node, settings=error.settings) from error
    except PluginError as error:
        desc = node_desc(node)
        error.diagnostics = error.diagnostics or (
            of_node(Diagnostic(code=error.code, message=f"{desc}: {error}"), block, node, desc),
        )
        raise


def about(code: str, message: str, hint: str | None = None) -> SynthesisError:
    """Return an error that no single node is the place of."""
    diagnostic = Diagnostic(code=code, message=message, hint=hint)
    return SynthesisError(str(diagnostic), code=code, diagnostics=(diagnostic,))


def findings_of(error: SynthesisError) -> tuple[Diagnostic, ...]:
    """Return the findings that an error consists of, at least one."""
    own = tuple(finding for finding in error.diagnostics if isinstance(finding, Diagnostic))
    return own or (Diagnostic(code=error.code, message=str(error)),)


def all_of(errors: Sequence[SynthesisError]) -> SynthesisError:
    """Return one error with the diagnostics of several, at least one; equal ones are reported once."""
    diagnostics = tuple(dict.fromkeys(diagnostic for error in errors for diagnostic in error.diagnostics))
    first, more = errors[0], len(diagnostics) - 1
    return SynthesisError(f"{first}{f' (and {more} more)' if more else ''}", code=first.code, diagnostics=diagnostics)
