"""One step of recurrent cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.mixed_floats import rounded_like, widened
from openinfer.ops.schema import (
    Composite,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import needed, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Decomposer

    Settings = Mapping[str, SettingValue]

CATEGORY = "recurrent"


def _check(name: str, given: TensorType | None, shape: tuple[int, ...], x: TensorType) -> None:
    if given is not None and given.shape != shape:
        raise OpTypeError(f"{name} is {given}, expected shape {shown(shape)} for x {x}")


def _check_cell(x: TensorType, h: TensorType, parts: Sequence[TensorType | None], gates: int) -> None:
    """Check w, r and b, and that there is a state for each vector of x."""
    if not x.shape or not h.shape or h.shape[:-1] != x.shape[:-1]:
        raise OpTypeError(f"x is {x} and h is {h}, expected [..., D] and [..., H] with the same first dims")
    depth, hidden = x.shape[-1], h.shape[-1]
    shapes = ((gates * hidden, depth), (gates * hidden, hidden), (2 * gates * hidden,))
    for name, given, shape in zip("wrb", parts, shapes, strict=False):
        _check(name, given, shape, x)


def _lstm_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x, h, c = (needed(inputs, number) for number in range(3))
    _check_cell(x, h, inputs[3:], 4)
    _check("c", c, h.shape, x)
    return h, c


def _gru_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x, h = needed(inputs), needed(inputs, 1)
    _check_cell(x, h, inputs[2:], 3)
    return (h,)


class _Cell:
    """The parts of a cell in the type that it computes in; gates are slices of H along the last dim."""

    def __init__(self, steps: Decomposer, inputs: Sequence[int | None], first_weight: int) -> None:
        values = widened(steps, inputs)
        self._steps = steps
        self._given = [value for value in values[:first_weight] if value is not None]
        w, r, *bias = values[first_weight:]
        if len(self._given) != first_weight or w is None or r is None:
            raise OpTypeError("an input of the cell is missing", code="arity")
        self.hidden = steps.type_of(self.state).shape[-1]
        self._weights, self._bias = (w, r), bias[0] if bias else None

    @property
    def state(self) -> int:
        return self._given[1]

    @property
    def memory(self) -> int:
        return self._given[2]

    def gate(self, value: int, number: int, axis: int = -1) -> int:
        return self._steps.op("narrow", value, axis=axis, start=number * self.hidden, length=self.hidden)

    def of_input(self) -> int:
        """Return w x plus its half of the bias."""
        return self._product(self._given[0], 0)

    def of_state(self) -> int:
        """Return r h plus its half of the bias."""
        return self._product(self.state, 1)

    def recurrent(self, value: int, number: int) -> int:
        """Return the part of r for one gate times a value, plus its bias."""
        product = self._steps.op("matmul", value, self.gate(self._weights[1], number, axis=0), trans_b=True)
        if self._bias is None:
            return product
        return self._steps.op("add", product, self.gate(self._half_of_bias(1), number))

    def _product(self, value: int, which: int) -> int:
        product = self._steps.op("matmul", value, self._weights[which], trans_b=True)
        return product if self._bias is None else self._steps.op("add", product, self._half_of_bias(which))

    def _half_of_bias(self, which: int) -> int:
        if self._bias is None:
            raise OpTypeError("the cell has no bias", code="arity")
        half = self._steps.type_of(self._bias).shape[0] // 2
        return self._steps.op("narrow", self._bias, axis=0, start=which * half, length=half)


def _lstm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    del settings
    cell = _Cell(steps, inputs, 3)
    gates = steps.op("add", cell.of_input(), cell.of_state())
    enter, leave, keep = (steps.op("sigmoid", cell.gate(gates, number)) for number in range(3))
    candidate = steps.op("tanh", cell.gate(gates, 3))
    memory = steps.op("add", steps.op("mul", keep, cell.memory), steps.op("mul", enter, candidate))
    state = steps.op("mul", leave, steps.op("tanh", memory))
    like = inputs[0] or 0
    return rounded_like(steps, state, like), rounded_like(steps, memory, like)


def _gru(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    cell = _Cell(steps, inputs, 2)
    fresh, past = cell.of_input(), cell.of_state()
    update, reset = (
        steps.op("sigmoid", steps.op("add", cell.gate(fresh, number), cell.gate(past, number))) for number in range(2)
    )
    if settings.get("linear_before_reset"):
        remembered = steps.op("mul", reset, cell.gate(past, 2))
    else:
        remembered = cell.recurrent(steps.op("mul", reset, cell.state), 2)
    candidate = steps.op("tanh", steps.op("add", cell.gate(fresh, 2), remembered))
    # (1 - z) n + z h
    state = steps.op("add", candidate, steps.op("mul", update, steps.op("sub", cell.state, candidate)))
    return (rounded_like(steps, state, inputs[0] or 0),)


def _example(gates: int, states: int, *, batch: tuple[int, ...], bias: bool, **settings: SettingValue) -> OpExample:
    depth, hidden = 5, 3
    shapes = [(*batch, depth), *((*batch, hidden) for _ in range(states)), (gates * hidden, depth)]
    shapes += [(gates * hidden, hidden), *([(2 * gates * hidden,)] if bias else [])]
    return OpExample(inputs=tuple(Operand(shape=shape) for shape in shapes), settings=settings)


def _inputs(gates: int, *states: str) -> tuple[InputSpec, ...]:
    return (
        InputSpec(name="x", doc="[..., D]"),
        *(InputSpec(name=state, doc="[..., H]") for state in states),
        InputSpec(name="w", doc=f"[{gates}H, D]"),
        InputSpec(name="r", doc=f"[{gates}H, H]"),
        InputSpec(name="b", optional=True, doc=f"[{2 * gates}H], added to products with w, then to those with r"),
    )


LSTM_CELL = OpSchema(
    name="lstm_cell",
    summary="c1 = s(f) c + s(i) tanh(g), h1 = s(o) tanh(c1), s the sigmoid, gates i o f g of w x + r h + b",
    category=CATEGORY,
    inputs=_inputs(4, "h", "c"),
    outputs=("h1", "c1"),
    dtypes=FLOATS,
    infer=_lstm_types,
    definition=Composite(_lstm),
    in_place=True,
    onnx="LSTM",
    examples=(
        _example(4, 2, batch=(2,), bias=True),
        _example(4, 2, batch=(), bias=False),
        _example(4, 2, batch=(0,), bias=True),
    ),
)
GRU_CELL = OpSchema(
    name="gru_cell",
    summary="h1 = (1 - z) n + z h, gates z r n of w x + r h + b; n is a tanh, its r h damped by r",
    category=CATEGORY,
    inputs=_inputs(3, "h"),
    outputs=("h1",),
    dtypes=FLOATS,
    settings=(
        SettingSpec(
            name="linear_before_reset",
            type=SettingType.BOOL,
            default=True,
            doc="whether r damps r h with its bias, or h before the product",
        ),
    ),
    infer=_gru_types,
    definition=Composite(_gru),
    in_place=True,
    onnx="GRU",
    examples=(
        _example(3, 1, batch=(2,), bias=True),
        _example(3, 1, batch=(2, 3), bias=True, linear_before_reset=False),
        _example(3, 1, batch=(), bias=False),
    ),
)
