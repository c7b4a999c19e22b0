"""Whether a device can carry out every operator of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import PluginError
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.selection import Decomposed, KernelTable, Missing, kernel_table, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedOp
    from openinfer.plugins.environment import Environment
    from openinfer.validate.findings import Findings


def check_kernels(
    graph: Graph, ops: dict[int, ResolvedOp], device: str, environment: Environment, findings: Findings
) -> None:
    """Record every operator for which the device has no kernel, expression or decomposition."""
    spec = environment.device(device.partition(":")[0])
    table = kernel_table(environment, spec.name, spec.expression_dtypes)
    for block, node in graph.nodes():
        op = ops.get(node.index)
        if op is None:
            continue
        with findings.at(block, node):
            for reason in _missing(call_of_node(op), table, environment, late=bool(op.runtime_settings)):
                findings.error("kernel-missing", reason)


def call_of_node(op: ResolvedOp) -> OpCall:
    """Return the call of a node with its declared types (settings known only at run time are absent)."""
    return OpCall(op=op.op, inputs=op.input_types, outputs=op.output_types, settings=op.settings)


def _missing(call: OpCall, table: KernelTable, environment: Environment, *, late: bool) -> Iterator[str]:
    """Yield why a call cannot be carried out; ``late``: the executor selects again once it knows every setting."""
    pending = [call]
    while pending:
        current = pending.pop()
        try:
            chosen = select(environment, table, current)
        except OpTypeError:
            continue
        except (KeyError, PluginError):
            # Kernels and definitions of plugins may need the setting that is absent as yet.
            if not late:
                raise
            continue
        if isinstance(chosen, Missing):
            yield chosen.reason
        elif isinstance(chosen, Decomposed):
            pending += [step.call for step in chosen.decomposition.steps]
