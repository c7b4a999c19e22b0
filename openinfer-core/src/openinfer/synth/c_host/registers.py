"""Steps that set registers, as C statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.steps import Register
from openinfer.synth.c_host.integers import declare_integers, number_text

if TYPE_CHECKING:
    from openinfer.plan.steps import PlaceStep, SetStep
    from openinfer.synth.c_host.integers import IntegerOperands
    from openinfer.synth.c_host.lines import Lines


def write_set(code: Lines, operands: IntegerOperands, step: SetStep) -> None:
    """Append the statements that give registers their values."""
    values = {f"to{place}": value for place, (_, value) in enumerate(step.values)}
    declare_integers(code, operands, values)
    for name, (register, _) in zip(values, step.values, strict=True):
        code.line(f"{operands.place(Register(register))} = {name};")


def write_place(code: Lines, operands: IntegerOperands, step: PlaceStep) -> None:
    """Append the statements that give a register the value of a setting; one that is refused returns a status."""
    found = step.range
    is_raised = found.is_empty or found.least is None or found.least != found.low
    is_lowered = found.most is None or found.most != found.high
    bounds = {
        "low": found.low if is_raised else None,
        "high": found.high if is_lowered else None,
        "least": found.least,
        "most": found.most,
        "size": found.size,
    }
    wanted = {name: expr for name, expr in bounds.items() if expr is not None}
    numbers = {name: expr.constant for name, expr in wanted.items()}
    declare_integers(
        code, operands, {"given": step.value} | {name: expr for name, expr in wanted.items() if numbers[name] is None}
    )
    text = {name: name if known is None else number_text(known) for name, known in numbers.items()}
    value = "given"
    if found.size is not None:
        value = "counted"
        code.line(f"const int64_t counted = given < 0 ? given + {text['size']} : given;")
    if found.least is not None:
        code.refuse(f"{value} < {text['least']}", "MODEL_SHAPE")
    if found.most is not None:
        code.refuse(f"{value} > {text['most']}", "MODEL_SHAPE")
    # The highest may be below the lowest, as the last row of no rows: the lowest is taken then, and nothing is there.
    if is_lowered:
        code.line(f"const int64_t lowered = {value} > {text['high']} ? {text['high']} : {value};")
        value = "lowered"
    if is_raised:
        code.line(f"const int64_t raised = {value} < {text['low']} ? {text['low']} : {value};")
        value = "raised"
    code.line(f"{operands.place(Register(step.register))} = {value};")
