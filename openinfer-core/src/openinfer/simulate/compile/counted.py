"""Operators that count their rows: a result with room for the most rows, of which the statement takes those that count.

The operator runs into memory of its own; its statement then cuts the rows off with ``slice``, like a program would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.resolved import ResolvedOp
from openinfer.ir.types import TensorType
from openinfer.ir.values import Ref
from openinfer.ops.counting import COUNT, COUNT_TYPE, counted_places
from openinfer.simulate.state.varying import Varying

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import OpSchema
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend


@dataclass(frozen=True, slots=True)
class Counted:
    """What an operator writes, and the rows that its statement takes of that.

    Attributes:
        outputs: of the operator.
        taken: results with room for the most rows, with the variable that takes the rows, by position.
        count: holds the number of rows.
    """

    outputs: list[Buffer | Varying]
    taken: dict[int, tuple[Varying, Buffer | Varying]]
    count: Buffer


def counted_outputs(
    schema: OpSchema, op: ResolvedOp, outputs: Sequence[Buffer | Varying], backend: DeviceBackend
) -> Counted:
    """Return where an operator writes, for a statement with these outputs."""
    own, taken = list(outputs), dict[int, tuple[Varying, "Buffer | Varying"]]()
    for number in counted_places(schema):
        if number < len(outputs):
            kind = op.output_types[number]
            # Its first request is for the type that the operator yields.
            empty = TensorType(kind.dtype, (0,) * len(kind.shape))
            whole = own[number] = Varying(backend.allocate(empty), backend)
            taken[number] = whole, outputs[number]
    if len(own) <= COUNT:
        own.append(backend.allocate(COUNT_TYPE))
    count = own[COUNT]
    return Counted(own, taken, count.declared if isinstance(count, Varying) else count)


def cutting(op: ResolvedOp, number: int) -> ResolvedOp:
    """Return the statement that takes the rows of one result; its ``ends`` is known when it runs."""
    settings: dict[str, SettingValue] = {"starts": (0,), "axes": (0,), "steps": (1,)}
    kind, name = op.output_types[number], op.outputs[number]
    return ResolvedOp(
        op="slice",
        inputs=(Ref(name),),
        outputs=(name,),
        input_types=(kind,),
        output_types=(kind,),
        settings=settings,
        runtime_settings={},
    )
