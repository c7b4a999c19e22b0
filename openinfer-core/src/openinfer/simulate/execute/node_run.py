"""The items of an iteration over a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.events import TraceEvent
    from openinfer.simulate.execute.executor import Executor


@dataclass(frozen=True, slots=True)
class NodeRun:
    """A node that has just run, and the values at that moment.

    Attributes:
        failure: the error with which it ended a consumer block that is stepped into; it is raised at the ``await``.
    """

    event: TraceEvent
    executor: Executor
    failure: Exception | None = None

    def __repr__(self) -> str:
        return f"<NodeRun {self.event.node_desc} in block {self.event.block_name}>"

    def fetch(self, *names: str, dtype: DType | str | None = None) -> Any:
        """Return values as `Executor.fetch` does; temporaries too."""
        return self.executor.fetch(*names, dtype=dtype)
