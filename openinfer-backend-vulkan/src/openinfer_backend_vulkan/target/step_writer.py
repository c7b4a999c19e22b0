"""Steps of a plan as commands of a segment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.errors import KernelMissingError, SynthesisError, UnsupportedError
from openinfer.expr import tree
from openinfer.expr.counting import counted, counting
from openinfer.expr.tree import ExprError
from openinfer.ir.types import TensorType
from openinfer.ops.derived import expression_computation
from openinfer.plan.programs import operands_of
from openinfer.plan.report import place_of
from openinfer.plan.steps import (
    ClearStep,
    ComputeStep,
    CopyStep,
    CountStep,
    EntryStep,
    EqualStep,
    FillStep,
    InputStep,
    LoadStep,
    LoopIndex,
    LoopStep,
    PlaceStep,
    SetStep,
    StoreStep,
    ValueRef,
)
from openinfer.scalars import converted
from openinfer.synth.c_host.integers import declare_integers
from openinfer.synth.c_host.registers import write_place, write_set
from openinfer.synth.c_text import comment
from openinfer_backend_vulkan.glsl.contents import fill_word
from openinfer_backend_vulkan.target.counted_sizes import argument_sizes
from openinfer_backend_vulkan.target.kernel_writer import KernelWriter, lines_of, step_line
from openinfer_backend_vulkan.target.operands import Located
from openinfer_backend_vulkan.target.places import HOST, Place, pattern
from openinfer_backend_vulkan.target.state_steps import write_access

if TYPE_CHECKING:
    from openinfer.layout import Layout
    from openinfer.plan.steps import Step
    from openinfer.scalars import Scalar
    from openinfer_backend_vulkan.target.commands import Commands
    from openinfer_backend_vulkan.target.kernel_writer import Program


def write_step(program: Program, code: Commands, step: Step) -> None:
    """Append the commands of a step to a segment, with the lines of the program that it comes from.

    Raises:
        SynthesisError: it has no form in GLSL; the message names the line.
    """
    code.line(*(comment(line) for line in lines_of(step)))
    try:
        with code.faults_at(step_line(step) or code.fault_line):
            _StepWriter(program, code, step).write()
    except (ExprError, KernelMissingError) as error:
        raise SynthesisError(f"{place_of(step)}: {error}", code="kernel-missing") from error
    except UnsupportedError as error:
        raise SynthesisError(f"{place_of(step)}: {error}", code="unsupported") from error


class _StepWriter:
    def __init__(self, program: Program, code: Commands, step: Step) -> None:
        self._program = program
        self._plan, self._places, self._names = program.plan, program.places, program.names
        self._code = code
        self._step = step
        self._kernels = KernelWriter(program, code, step)
        self._locator = self._kernels.locator

    def write(self) -> None:
        step, code = self._step, self._code
        match step:
            case ComputeStep():
                self._compute(step)
            case CopyStep():
                self._copy(step)
            case FillStep():
                self._fill(step.output, step.value)
            case CountStep():
                self._count(step)
            case InputStep():
                self._input(step)
            case SetStep() | PlaceStep() | EqualStep() | EntryStep():
                with code.at_run_time():
                    self._on_host(step)
            case LoopStep():
                self._loop(step)
            case LoadStep() | StoreStep() | ClearStep():
                write_access(self._kernels, step)
            case _:
                what = type(step).__name__.removesuffix("Step")
                message = f"{place_of(step)}: the synth target vulkan does not write steps of kind {what} yet"
                raise SynthesisError(f"{message}: use --target c", code="unsupported")

    def _on_host(self, step: SetStep | PlaceStep | EqualStep | EntryStep) -> None:
        code, names = self._code, self._names
        match step:
            case SetStep():
                write_set(code, names, step)
            case PlaceStep():
                write_place(code, names, step)
            case EqualStep():
                declare_integers(code, names, {"left": step.left, "right": step.right})
                code.refuse("left != right", "MODEL_SHAPE")
            case EntryStep():
                self._locator.test_entry(code, step.entry, "x0")

    def _loop(self, step: LoopStep) -> None:
        start, end = step.start.constant, step.end.constant
        name = self._names.loops[step.loop]
        if start is None or end is None or end <= start:
            return
        self._names.local.add(step.loop)
        head = f"for (int64_t {name} = {start}; {name} < {end}; ++{name})"
        with self._code.repeated(head, end - start):
            for inner in step.body:
                write_step(self._program, self._code, inner)
        self._names.local.remove(step.loop)

    def _compute(self, step: ComputeStep) -> None:
        computation = step.computation
        outputs = (*step.outputs, *step.temporaries)
        names = [t.name for t in (*computation.inputs, *computation.outputs, *computation.temporaries)]
        with self._code.braces():
            inputs = [self._locator.operand(operand, self._code, f"x{n}") for n, operand in enumerate(step.inputs)]
            located = [*inputs, *map(self._locator.value, outputs)]
            tensors = dict(zip(names, located, strict=True))
            counted = argument_sizes(self._plan, step, self._code.counted)
            self._kernels.computed(computation, tensors, step.arguments, self._layouts(step), counted)

    def _layouts(self, step: ComputeStep) -> dict[str, Layout]:
        """Return the layouts of tensors that lie in a state, with the extents of the computation."""
        layouts: dict[str, Layout] = {}
        for name, operand in operands_of(step).items():
            layout = self._plan.values[operand.value].layout if isinstance(operand, ValueRef) else None
            if layout is not None:
                layouts[name] = replace(layout, shape=step.computation.tensor(name).shape)
        return layouts

    def _copy(self, step: CopyStep) -> None:
        kind = self._plan.values[step.output].stored
        if self._plan.is_view(step) or not kind.count:
            return
        with self._code.braces():
            source = self._locator.operand(step.source, self._code, "x0")
            target = self._locator.value(step.output)
            if source.base is None and target.base is None and not isinstance(step.source, LoopIndex):
                self._code.copy(source.place, target.place)
                return
            row = TensorType(kind.dtype, (kind.count,))
            moved = expression_computation("copy", tree.Input(0, kind.dtype), [row], row)
            self._kernels.computed(moved, {"x0": source, "y0": target})

    def _fill(self, output: int, value: Scalar) -> None:
        kind, target = self._plan.values[output].stored, self._locator.value(output)
        if not kind.count:
            return
        number = converted(kind.dtype, value)
        if kind.dtype.bits <= 32 and target.base is None:
            self._code.fill(target.place, fill_word(kind.dtype, number))
            return
        filled = expression_computation("fill", tree.literal(number, kind.dtype), [], kind)
        self._kernels.computed(filled, {"y0": target})

    def _count(self, step: CountStep) -> None:
        kind, target = self._plan.values[step.target].stored, self._locator.value(step.target)
        constant = step.amount.constant
        amount = None if constant is None else counted(constant, kind.dtype, down=step.down)
        counter = counting(kind.dtype, amount, down=step.down)
        with self._code.braces():
            if amount is not None:
                computation = expression_computation("count", counter, [kind], kind)
                self._kernels.computed(computation, {"x0": target, "y0": target})
                return
            self._code.line("int64_t amount = 0;")
            with self._code.at_run_time():
                declare_integers(self._code, self._names, {"by": step.amount})
                self._code.refuse("by < 0")
                self._code.line("amount = by;")
            self._code.number("x1", "amount")
            by = Located(Place(HOST, "x1.offset", 8, 0, 0, "the amount"))
            computation = expression_computation("count", counter, [kind, TensorType(I64)], kind)
            self._kernels.computed(computation, {"x0": target, "x1": by, "y0": target})

    def _input(self, step: InputStep) -> None:
        port, field = self._plan.inputs[step.number], self._names.inputs[step.number]
        if not port.type.count:
            return
        source, target = self._places.input(step.number), self._locator.value(step.output)
        nbytes = str(port.type.nbytes)
        with self._code.at_run_time():
            staged = f"model->given.mapped + {self._places.inputs[step.number]}"
            if step.count is not None:
                declare_integers(self._code, self._names, {"count": step.count})
                nbytes = f"(size_t)count * {max(port.type.dtype.bits // 8, 1)}"
            if port.default is None:
                self._code.line(f"memcpy({staged}, inputs->{field}, {nbytes});")
            else:
                self._given_or_default(port.default, port.type, field, staged, nbytes)
        if target.base is not None:
            raise UnsupportedError("an input that is copied into a view")
        self._code.copy(source, target.place)

    def _given_or_default(self, default: Scalar, kind: TensorType, field: str, staged: str, nbytes: str) -> None:
        value = pattern(default, kind)
        with self._code.braces(f"if (inputs->{field} != NULL)"):
            self._code.line(f"memcpy({staged}, inputs->{field}, {nbytes});")
        with self._code.braces("else"):
            width = len(value)
            listed = ", ".join(f"0x{byte:02x}" for byte in value)
            self._code.line(f"static const unsigned char value[] = {{{listed}}};", "size_t at;")
            with self._code.braces(f"for (at = 0; at < {kind.nbytes}; at += {width})"):
                self._code.line(f"memcpy({staged} + at, value, {width});")
