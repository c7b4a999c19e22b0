"""Describes a node that has run in one line: types and shapes of its inputs and outputs, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from openinfer import symbolic
from openinfer.dtypes import DType
from openinfer.errors import ExecutionError
from openinfer.ir.nodes import Assign, CacheRead, Op, Transfer
from openinfer.ir.resolved import RuntimeInts
from openinfer.simulate.execute.touched import fetchable, inputs_of
from openinfer.simulate.logs import LogKind, log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.events import TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, SettingValue, UnresolvedSetting
    from openinfer.ir.types import TensorType


class Values(Protocol):
    """What an executor says of the program that it runs, and of values at this moment."""

    @property
    def program(self) -> ResolvedGraph: ...

    def type_of(self, access: str) -> TensorType: ...

    def fetch(self, *names: str) -> Any: ...


class Details:
    """Describes the nodes of one executor; called right after a node has run, so that shapes are current."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._nodes = {node.index: node for _, node in values.program.graph.nodes()}

    def line(self, event: TraceEvent) -> str:
        """Return block, place in the text, statement, types and settings, and the duration if there is one."""
        node = self._nodes[event.node_index]
        line = "" if node.span is None else f" {node.span.source.name}:{node.span.line}"
        parts = [f"[{event.block_name}]{line}", event.node_desc, self._types(event, node)]
        op = self._values.program.ops.get(node.index) if event.op_name else None
        if op is not None:
            parts += [", ".join(self._settings(op)), f"({event.micros})" if event.duration_ns else ""]
        return " -- ".join(part for part in parts if part)

    def log(self, event: TraceEvent) -> None:
        """Log the line of a node."""
        log(LogKind.TRACE, self.line(event))

    def _types(self, event: TraceEvent, node: Node) -> str:
        read = ", ".join(map(self._typed, inputs_of(event, node)))
        written = ", ".join(map(self._typed, event.output if _has_value(node) else ()))
        return f"{read} -> {written}" if read and written else read or written

    def _typed(self, shown: str) -> str:
        try:
            return f"{shown}: {self._values.type_of(fetchable(shown))}"
        except ExecutionError:
            return shown

    def _settings(self, op: ResolvedOp) -> Iterator[str]:
        for name, value in op.settings.items():
            if value is not None:
                yield f"{name}={_value(value)}"
        for name, setting in op.runtime_settings.items():
            yield f"{name}={self._runtime(setting)}"

    def _runtime(self, setting: UnresolvedSetting) -> str:
        if isinstance(setting, RuntimeInts):
            texts = ", ".join(map(symbolic.text, setting.exprs))
            return f"[{texts}]" if setting.is_list else texts
        try:
            return f"{self._values.fetch(setting.name)} (from {setting.name})"
        except ExecutionError:
            return setting.name


def _has_value(node: Node) -> bool:
    """Whether the output of an event is a variable."""
    return isinstance(node.kind, Op | Assign | Transfer | CacheRead)


def _value(value: SettingValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return value.name if isinstance(value, DType) else f"{value}"
