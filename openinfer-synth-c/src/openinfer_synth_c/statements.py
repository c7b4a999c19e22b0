"""Steps of a plan as C statements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.codegen import loop_program
from openinfer.dtypes import BOOL
from openinfer.errors import PluginError, PluginStepError, SynthesisError
from openinfer.expr.c_renderer import literal_text
from openinfer.expr.counting import counted, counting
from openinfer.expr.linear import linearise
from openinfer.expr.tree import ExprError
from openinfer.plan.report import place_of
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ClearStep,
    ComputeStep,
    CopyStep,
    CountStep,
    EntryStep,
    EqualStep,
    FillStep,
    InputStep,
    KernelStep,
    LoadStep,
    LoopProgramStep,
    LoopStep,
    PlaceStep,
    ReturnStep,
    SetStep,
    StoreStep,
)
from openinfer.scalars import repeated_code
from openinfer.synth.c_host.annotations import write_merge, write_split
from openinfer.synth.c_text import comment
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.index_text import for_head
from openinfer_synth_c.integers import declare_integers
from openinfer_synth_c.kernel_calls import results_of, write_call, write_tests
from openinfer_synth_c.loop_programs import operand_name, write_kernel
from openinfer_synth_c.operands import Binder
from openinfer_synth_c.site import KernelSite, Store
from openinfer_synth_c.state_steps import write_state_step
from openinfer_synth_c.threads import write_join, write_start
from openinfer_synth_c.view_bounds import source_of_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Epilogue, Statement, Step
    from openinfer.scalars import Scalar
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.kernel_functions import KernelFunctions
    from openinfer_synth_c.names import Names

_WORD = re.compile(r"\w+")


MARK = "openinfer_mark"
"""The function of a program that measures: a step begins."""


def no_line(_statement: Statement) -> int:
    """Return 0: statuses carry nothing."""
    return 0


class StatementWriter:
    """Appends the statements of steps to ``code``; with ``functions``, loop programs are calls of these.

    ``fault_line`` returns what the status of a statement that fails carries, such as its line; 0 for nothing. Steps
    that ``marks`` has by their identity begin with a call of `MARK` with their number.
    """

    def __init__(
        self,
        code: Code,
        names: Names,
        plan: ExecutionPlan,
        functions: KernelFunctions | None = None,
        *,
        fault_line: Callable[[Statement], int] = no_line,
        marks: Mapping[int, int] | None = None,
    ) -> None:
        self._code = code
        self._names = names
        self._plan = plan
        self._functions = functions
        self._fault_line = fault_line
        self._marks = marks or {}

    def steps(self, steps: Sequence[Step]) -> None:
        """Append steps in order; each keeps the lines of the program that it comes from as a comment."""
        for step in steps:
            self._comments(step)
            self._code.leave_scratch()
            if id(step) in self._marks:
                self._code.line(f"{MARK}({self._marks[id(step)]});")
            start = len(self._code.lines)
            try:
                with self._code.faults_at(self._line_of(step)):
                    self._step(step)
            except ExprError as error:
                raise SynthesisError(f"{place_of(step)}: {error}", code="dtype-unsupported") from error
            except PluginStepError:
                raise
            except PluginError as error:
                raise _of_plugin(step, error) from error.__cause__
            if not isinstance(step, LoopStep):
                self._code.keep_rolled(start)

    def _line_of(self, step: Step) -> int:
        """Return what statuses of a step carry; one without a statement is part of what is around it."""
        fault = step.origin.fault
        return self._code.fault_line if fault is None else self._fault_line(fault)

    def block(self, steps: Sequence[Step]) -> None:
        """Append the steps of a block; the return at its end is that of the function."""
        ends = bool(steps) and isinstance(steps[-1], ReturnStep)
        self.steps(steps[:-1] if ends else steps)

    def _comments(self, step: Step) -> None:
        for statement in step.origin.statements:
            where = f"line {statement.line}: " if statement.line is not None else ""
            self._code.line(comment(f"{where}{statement.text}"))
        if not step.origin.statements:
            self._code.line(comment("initial value"))

    def _step(self, step: Step) -> None:
        match step:
            case KernelStep():
                self._kernel(step)
            case ComputeStep() | LoopProgramStep():
                self._loops(step)
            case CopyStep():
                self._copy(step)
            case FillStep():
                self._fill(step)
            case CountStep():
                self._count(step)
            case LoadStep() | StoreStep() | ClearStep() | SetStep() | PlaceStep() | EqualStep() | EntryStep():
                write_state_step(self._code, self._names, self._plan, step)
            case InputStep():
                self._input(step)
            case LoopStep():
                self._loop(step)
            case CallStep():
                self._call(step)
            case ReturnStep():
                self._code.line("return MODEL_OK;")
            case BarrierStep():
                write_join(self._code, step)

    def _store(self, binder: Binder, output: int, epilogue: Epilogue | None, name: str = "y") -> Store:
        bound = binder.output(output, name)
        operands = epilogue.inputs if epilogue is not None else ()
        inputs = tuple(binder.input(operand, f"e{number}") for number, operand in enumerate(operands))
        return Store(output=bound, epilogue=epilogue, epilogue_inputs=inputs)

    def _kernel(self, step: KernelStep) -> None:
        if not any(type_.count for type_ in step.call.outputs):
            write_tests(self._code, self._names, self._plan, step)
            return
        write = step.kernel.load()
        with self._code.braces():
            binder = Binder(self._code, self._names, self._plan)
            store = self._store(binder, step.outputs[0], step.epilogue)
            more = [binder.output(value, f"y{number}") for number, value in enumerate(step.outputs[1:], 1)]
            inputs = tuple(
                None if operand is None else binder.input(operand, f"x{number}")
                for number, operand in enumerate(step.inputs)
            )
            outputs = (store.output, *more)
            start = len(self._code.lines)
            write(KernelSite(code=self._code, call=step.call, inputs=inputs, store=store, outputs=outputs))
            self._name_unused((*inputs, *outputs), start)
            for output in outputs:
                output.clear_tail()

    def _loops(self, step: ComputeStep | LoopProgramStep) -> None:
        if not any(self._names.type_of_value(value).count for value in step.outputs):
            write_tests(self._code, self._names, self._plan, step)
            return
        if self._functions is not None:
            write_call(self._code, self._names, self._plan, step, self._functions)
            return
        kernel = loop_program(step)
        with self._code.braces():
            binder = Binder(self._code, self._names, self._plan)
            names = [buffer.name for buffer in kernel.buffers]
            written = results_of(step)
            results = [
                binder.output(value, operand_name(name))
                for name, value in zip(names[len(step.inputs) :], written, strict=True)
            ]
            given = [
                binder.input(operand, operand_name(name)) for name, operand in zip(names, step.inputs, strict=False)
            ]
            start = len(self._code.lines)
            bound = dict(zip(names, (*given, *results), strict=True))
            write_kernel(self._code, kernel, bound)
            self._name_unused((*given, *results), start)
            for result in results:
                result.clear_tail()

    def _name_unused(self, bounds: Sequence[Bound | None], start: int) -> None:
        """Append a mention of every operand that a kernel left alone: C compilers warn of such variables."""
        words = set(_WORD.findall("\n".join(self._code.lines[start:])))
        names = dict.fromkeys(bound.variable for bound in bounds if bound is not None and bound.pointer)
        self._code.line(*(f"(void){name};" for name in names if name not in words))

    def _copy(self, step: CopyStep) -> None:
        if self._plan.is_view(step):
            return
        if not self._names.type_of_value(step.output).count:
            write_tests(self._code, self._names, self._plan, step)
            return
        with self._code.braces():
            followed = self._within_state(step)
            binder = Binder(self._code, self._names, self._plan)
            output = binder.output(step.output, "y")
            source = binder.input(step.source, "x0")
            if step.count is not None:
                bits = output.stored.dtype.bits
                nbytes = (
                    f"((size_t)count * {bits} + 7) / 8" if bits < 8 else f"(size_t)count * sizeof({output.item_type})"
                )
                self._code.line(f"if (count > 0) {{ memmove(y, x0, {nbytes}); }}")
                output.clear_tail()
            elif source.pointer:
                output.copy(source.variable)
                output.clear_tail()
            else:
                output.store("0", source.at("0"))
            write_merge(self._code, followed)

    def _within_state(self, step: CopyStep) -> list[str]:
        """Append the number of elements and the test that a view has them; return the names that are split for it."""
        count = str(self._names.type_of_value(step.output).count)
        if step.count is not None:
            count = "count"
            declare_integers(self._code, self._names, {count: step.count})
        view = source_of_copy(self._plan, step, self._names.moving_views)
        if view is None:
            return []
        followed = [] if step.count is None else [count]
        write_split(self._code, followed)
        room = self._plan.values[view.state].type.count
        self._code.refuse(f"{self._names.register(view.register)} + {count} > {room}")
        return followed

    def _fill(self, step: FillStep) -> None:
        if not self._names.type_of_value(step.output).count:
            return
        with self._code.braces():
            output = Binder(self._code, self._names, self._plan).output(step.output, "y")
            self._fill_elements(output, step.value)

    def _fill_elements(self, output: Bound, value: Scalar) -> None:
        dtype = output.stored.dtype
        if dtype.is_packed:
            self._code.line(f"memset({output.variable}, {repeated_code(dtype, value):#04x}, {output.stored.nbytes});")
            output.clear_tail()
            return
        with self._code.loops((for_head("i", output.stored.count),)):
            output.store("i", literal_text(dtype, value))

    def _count(self, step: CountStep) -> None:
        by = step.amount.constant
        with self._code.braces():
            counter = Binder(self._code, self._names, self._plan).output(step.target, "y")
            dtype = counter.type.dtype
            amount = None if by is None else counted(by, dtype, down=step.down)
            if amount is None:
                declare_integers(self._code, self._names, {"by": step.amount})
                self._code.refuse("by < 0")
            program = linearise(counting(dtype, amount, down=step.down))
            counter.store("0", self._code.compute(program, {0: counter.at("0"), 1: "by"}, "r"))

    def _input(self, step: InputStep) -> None:
        given = self._plan.inputs[step.number]
        if not given.type.count:
            return
        field = f"inputs->{self._names.inputs[step.number]}"
        with self._code.braces():
            output = Binder(self._code, self._names, self._plan).output(step.output, "y")
            if given.default is None:
                self._take(step, output, field)
            else:
                with self._code.braces(f"if ({field} != NULL)"):
                    self._take(step, output, field)
                with self._code.braces("else"):
                    self._fill_elements(output, given.default)
            output.clear_tail()

    def _take(self, step: InputStep, output: Bound, field: str) -> None:
        """Append a copy of what the caller gives."""
        if step.count is None:
            output.copy(field)
            return
        declare_integers(self._code, self._names, {"count": step.count})
        self._code.line(f"memcpy({output.variable}, {field}, (size_t)count * sizeof({output.item_type}));")

    def _loop(self, step: LoopStep) -> None:
        counter = self._names.loops[step.loop]
        start, end = self._names.loop_bounds[step.loop]
        with self._code.braces():
            # What notes an overflow has a name of its own, because statements within the loop declare others.
            declare_integers(self._code, self._names, {start: step.start, end: step.end}, flag=f"overflow_{start}")
            first, last = step.start.constant, step.end.constant
            if first is not None and last is not None:
                self._code.loop_turns[len(self._code.lines)] = max(last - first, 0)
            with self._code.braces(f"for (int64_t {counter} = {start}; {counter} < {end}; ++{counter})"):
                self.steps(step.body)

    def _call(self, step: CallStep) -> None:
        code = self._code
        if step.on_thread:
            write_start(code, self._names, step)
            return
        with code.braces():
            code.line("int32_t status = MODEL_OK;")
            call = f"status = {self._names.blocks[step.procedure]}(model, inputs, outputs);"
            if step.condition is None:
                code.line(call)
            else:
                with code.braces(f"if ({self._truth(step.condition)})"):
                    code.line(call)
            if step.otherwise is not None:
                with code.braces("else"):
                    code.line(f"status = {self._names.blocks[step.otherwise]}(model, inputs, outputs);")
            with code.braces("if (status != MODEL_OK)"):
                code.line("return status;")

    def _truth(self, value: int) -> str:
        """Return the test of a condition: whether its one element is not zero."""
        type_ = self._names.type_of_value(value)
        element = Bound(self._names.value(value), type_, self._code).at("0")
        return element if type_.dtype is BOOL else self._code.cast(element, type_.dtype, BOOL)


def _of_plugin(step: Step, error: PluginError) -> PluginStepError:
    """Return the error of a kernel of a plugin with the statement that it was to write."""
    statement = step.origin.statements[0] if step.origin.statements else None
    found = PluginStepError(
        f"{place_of(step)}: {error}",
        plugin=error.plugin,
        distribution=error.distribution,
        hook=error.hook,
        status=error.status,
        block=step.origin.block,
        node_index=None if statement is None else statement.node,
        node_desc=None if statement is None else statement.text,
    )
    found.code = error.code
    return found
