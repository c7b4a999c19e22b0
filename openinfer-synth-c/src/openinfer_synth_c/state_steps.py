"""Steps on caches and run-time sizes as C statements, and tests that entries of tables exist."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import item_type, literal_text
from openinfer.plan.operands import alone
from openinfer.plan.steps import ClearStep, EntryStep, EqualStep, LoadStep, PlaceStep, Register, SetStep
from openinfer.synth.c_host.integers import number_text
from openinfer.synth.c_host.registers import write_place, write_set
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.integers import declare_integers, operands_of
from openinfer_synth_c.operands import Binder
from openinfer_synth_c.regions import RegionWriter

if TYPE_CHECKING:
    from openinfer.affine import Index
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import StoreStep
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names


def write_state_step(
    code: Code,
    names: Names,
    plan: ExecutionPlan,
    step: LoadStep | StoreStep | ClearStep | SetStep | PlaceStep | EqualStep | EntryStep,
) -> None:
    """Append the statements of a step; one that fails returns a status before it changes anything."""
    with code.braces():
        match step:
            case SetStep():
                write_set(code, operands_of(code, names), step)
            case PlaceStep():
                write_place(code, operands_of(code, names), step)
            case EqualStep():
                _equal(code, names, step)
            case EntryStep():
                code.line(f"(void){Binder(code, names, plan).input(step.entry, 'x0').variable};")
            case LoadStep():
                _load(code, names, plan, step)
            case ClearStep():
                _clear(code, names, step)
            case _:
                _store(code, names, plan, step)


def _equal(code: Code, names: Names, step: EqualStep) -> None:
    """Append the test of a size itself, where it has a name: a test of a copy says nothing about it to analysers."""
    sides = {"left": step.left, "right": step.right}
    text = {name: _named(names, side) for name, side in sides.items()}
    declare_integers(code, names, {name: side for name, side in sides.items() if text[name] is None})
    left, right = (known or name for name, known in text.items())
    code.refuse(f"{left} != {right}", "MODEL_SHAPE")


def _named(names: Names, side: Index) -> str | None:
    """Return a number, or the size that is an expression, as text; None for other expressions."""
    known = side.constant
    if known is not None:
        return number_text(known)
    register = alone(side)
    return names.register(register.number) if isinstance(register, Register) else None


def _load(code: Code, names: Names, plan: ExecutionPlan, step: LoadStep) -> None:
    region = RegionWriter(code, names, step.region)
    region.enter()
    for register, length in zip(step.lengths, region.lengths, strict=False):
        if register is not None:
            code.line(f"{names.register(register)} = {length};")
    if step.view is not None:
        code.line(f"{names.register(step.view)} = {region.first};")
        return
    source = Bound(names.value(step.source), names.type_of_value(step.source), code)
    if source.stored.dtype.is_packed:
        output = Binder(code, names, plan).output(step.output, "y")
        region.cells(lambda place, number: output.store_text(number, source.at(place)))
        output.clear_tail()
        return
    item = source.item_type
    region.rows(
        names.value(step.source),
        item,
        f"memcpy({{value}}, {{place}}, row * sizeof({item}));",
        f"{item} *value = {names.value(step.output)};",
    )


def _store(code: Code, names: Names, plan: ExecutionPlan, step: StoreStep) -> None:
    region = RegionWriter(code, names, step.region, follows=True)
    region.enter(step.lengths)
    target = Bound(names.value(step.target), names.type_of_value(step.target), code)
    item = target.item_type
    source = Binder(code, names, plan).input(step.source, "x0")
    if not source.stored.count:
        # GCC 13 warns of what a loop that never runs would read past the one element that stands for none.
        code.line(f"(void){source.variable};")
        region.leave()
        return
    if target.stored.dtype.is_packed:
        region.cells(lambda place, number: target.store_text(place, source.at(number)))
        region.leave()
        return
    # What is stored may be memory of the cache itself.
    region.rows(
        names.value(step.target),
        item,
        f"memmove({{place}}, {{value}}, row * sizeof({item}));",
        f"const {item} *value = {source.variable if source.pointer else f'&{source.variable}'};",
    )
    region.leave()


def _clear(code: Code, names: Names, step: ClearStep) -> None:
    region = RegionWriter(code, names, step.region)
    region.enter()
    target = Bound(names.value(step.target), names.type_of_value(step.target), code)
    dtype = target.stored.dtype
    if dtype.is_packed:
        region.cells(lambda place, _: target.store_text(place, literal_text(dtype, step.value)))
        return
    loop = f"for (size_t i = 0; i < row; ++i) {{{{ ({{place}})[i] = {literal_text(dtype, step.value)}; }}}}"
    region.rows(names.value(step.target), item_type(dtype), loop)
    if any(register is not None for register in step.left):
        _left(code, names, step)


def _left(code: Code, names: Names, step: ClearStep) -> None:
    """Append the search for how far the elements reach that are not the value of a step."""
    shape, state = names.type_of_value(step.target).shape, names.value(step.target)
    with code.braces():
        wanted = [axis for axis, register in enumerate(step.left) if register is not None]
        code.line(*(f"int64_t left{axis} = 0;" for axis in wanted))
        place = "0"
        with ExitStack() as stack:
            for axis, extent in enumerate(shape):
                stack.enter_context(code.braces(f"for (int64_t k{axis} = 0; k{axis} < {extent}; ++k{axis})"))
                place = f"k{axis}" if not axis else f"({place}) * {extent} + k{axis}"
            with code.braces(
                f"if ({state}[{place}] != {literal_text(names.type_of_value(step.target).dtype, step.value)})"
            ):
                for axis in wanted:
                    code.line(f"left{axis} = left{axis} > k{axis} ? left{axis} : k{axis} + 1;")
        for axis in wanted:
            register = step.left[axis]
            if register is not None:
                code.line(f"{names.register(register)} = left{axis};")
