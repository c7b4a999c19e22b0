"""Errors of a running program: each names the node that was running."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from openinfer.diagnostics import Diagnostic
from openinfer.errors import (
    CacheIndexError,
    CacheLimitError,
    DTypeError,
    ExecutionError,
    OpenInferError,
    PluginError,
    PluginStepError,
    ShapeError,
)
from openinfer.ir.nodes import CacheDecrement, CacheIncrement, CacheRead, CacheReset, CacheWrite
from openinfer.ir.places import NOWHERE, setting_value_place, span_of
from openinfer.ir.text import node_desc
from openinfer.ops.schema import OpTypeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.simulate.devices.programs import Fault


_FAMILIES: dict[str, type[ExecutionError]] = {"shape-mismatch": ShapeError, "output-dtype": DTypeError}
"""Classes of errors about what an operator takes or yields, by their codes."""


@dataclass(slots=True, eq=False)
class Place:
    """A node in its block, and as a context manager: an error inside it becomes one that names the node.

    ``typed`` returns what messages call an operator: with the types that its inputs have by then.
    """

    node: Node
    block: str
    typed: Callable[[], str] | None = None
    desc: str = field(init=False)
    uuid: str = field(init=False)

    def __post_init__(self) -> None:
        self.desc = node_desc(self.node)
        self.uuid = str(self.node.uuid)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ExecutionError):
            if error.block is None:
                _name(error, self)
        elif isinstance(error, PluginError):
            raise self._of_plugin(error) from error.__cause__
        elif isinstance(error, Exception):
            raise self._wrapped(error) from error

    def _of_plugin(self, error: PluginError) -> PluginStepError:
        failure = PluginStepError(
            f"{self._subject}: {error}",
            plugin=error.plugin,
            distribution=error.distribution,
            hook=error.hook,
            status=error.status,
        )
        _name(failure, self)
        return failure

    @property
    def _subject(self) -> str:
        return self.desc if self.typed is None else self.typed()

    def _wrapped(self, error: Exception) -> ExecutionError:
        own = isinstance(error, OpenInferError)
        message = str(error) if own else f"{type(error).__name__}: {error}"
        code = _run_time_code(error.code) if own else None
        if isinstance(error, MemoryError):
            message, code = f"more than this machine holds: {error}", "too-large"
        family = _FAMILIES.get(code or "", ExecutionError) if isinstance(error, OpTypeError) else ExecutionError
        failure = family(f"{self._subject}: {message}", code=code)
        _name(failure, self, error.settings if isinstance(error, OpTypeError) else ())
        return failure


def raise_refusal(refusal: Diagnostic) -> NoReturn:
    """Raise the error of a statement that does not fit the sizes of the step.

    Raises:
        ExecutionError: always.
    """
    code = _run_time_code(refusal.code)
    raise _FAMILIES.get(code, ExecutionError)(refusal.message, code=code)


def _run_time_code(code: str) -> str:
    """Return the code of an error that is found while a step runs.

    Devices that run whole programs, and source that is written out, have one status for all that an operator demands
    of shapes and settings.
    """
    return "shape-mismatch" if code == "setting-type" else code


def raise_fault(fault: Fault, resolved: ResolvedGraph) -> NoReturn:
    """Raise the error of a step that failed, which names the statement.

    Raises:
        ExecutionError: always.
    """
    for block, node in resolved.graph.nodes():
        if node.index == fault.node:
            with Place(node, block.name):
                of_cache = isinstance(node.kind, CacheRead | CacheWrite | CacheReset | CacheIncrement | CacheDecrement)
                raise _fault_error(fault, of_cache=of_cache)
    raise _fault_error(fault, of_cache=False)


def _fault_error(fault: Fault, *, of_cache: bool) -> ExecutionError:
    if fault.code == "cache-limit":
        return CacheLimitError(fault.message)
    if fault.code == "shape-mismatch":
        return ShapeError(fault.message)
    return CacheIndexError(fault.message) if of_cache else ExecutionError(fault.message, code=fault.code)


def _name(error: ExecutionError, place: Place, settings: tuple[str, ...] = ()) -> None:
    """Add the running node to an error, which points at the first of ``settings`` that the node gives."""
    node, parts = place.node, place.node.places or NOWHERE
    at_fault = next((setting_value_place(parts, name) for name in settings if name in parts.settings), None)
    error.block, error.node_index, error.node_desc = place.block, node.index, place.desc
    if not error.diagnostics:
        error.diagnostics = (
            Diagnostic(
                code=error.code,
                message=str(error),
                span=span_of(node.span, at_fault),
                block=place.block,
                node_index=node.index,
                node_desc=place.desc,
            ),
        )
