"""Steps of a plan: what is done, with which operands, and which statements of the program it comes from.

The classes of operands are named here too: printers find all that a step consists of in one module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import counted
from openinfer.expr.linear import linearise
from openinfer.plan.operands import LoopIndex as LoopIndex
from openinfer.plan.operands import Operand as Operand
from openinfer.plan.operands import Register as Register
from openinfer.plan.operands import Symbol as Symbol
from openinfer.plan.operands import TableRef as TableRef
from openinfer.plan.operands import ValueRef as ValueRef

if TYPE_CHECKING:
    from openinfer.affine import Index
    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation
    from openinfer.expr.linear import Program
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall
    from openinfer.plan.regions import Region
    from openinfer.plan.setting_ranges import PlaceRange
    from openinfer.plugins.types import KernelSpec
    from openinfer.scalars import Scalar
    from openinfer.schedule import Loop, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of the program: its node number, line (None when the graph has no text) and text."""

    node: int
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a step comes from; a fused step has several statements, in written order.

    Attributes:
        failing: number among the statements of the one at which the step stops where it fails.
    """

    block: str
    statements: tuple[Statement, ...]
    failing: int = 0

    @property
    def fault(self) -> Statement | None:
        """The statement at which the step stops where it fails; None for what comes from none."""
        return self.statements[self.failing] if self.statements else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What restricts moving and fusing a step: its scopes and hints."""

    scope: tuple[str, ...] = ()
    fuse: bool = True
    no_reorder: bool = False
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done to each element of a kernel's result before it is stored.

    ``Input(0)`` of ``expr`` is that element in the type of the kernel's result, ``Input(i)`` is ``inputs[i - 1]`` at
    the same position (broadcast). A kernel stores each element once, right after reading these.
    """

    expr: Expr
    inputs: tuple[Operand, ...]

    @property
    def program(self) -> Program:
        return linearise(self.expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStep:
    """A call of one of the target's kernels. No output may lie where an input lies.

    Attributes:
        stored: why no other step takes its work over, where one reads its result.
    """

    origin: Origin
    call: OpCall
    kernel: KernelSpec
    inputs: tuple[Operand | None, ...]
    outputs: tuple[int, ...]
    epilogue: Epilogue | None = None
    placement: Placement = Placement()
    stored: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How a computation is carried out on a machine.

    Attributes:
        layouts: of tensors that are not in row-major order, by name.
        schedules: one for each stage; () for those that fit any machine.
        target: the machine that they were chosen for.
        fusion: loops over axes of the last stage inside of which all stages are computed; () for one after the other.
        sliding: whether the innermost of these computes only what the step before it has not.
        backwards: whether the outermost loops run from their last iteration to their first.
    """

    layouts: tuple[tuple[str, Layout], ...] = ()
    schedules: tuple[Schedule, ...] = ()
    target: TargetInfo | None = None
    fusion: tuple[Loop, ...] = ()
    sliding: bool = False
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """The value of a parameter of a computation. Outside of ``low`` to ``high`` it is an error at run time."""

    value: Index
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStep:
    """A computation: its inputs, outputs and temporaries are values of the plan.

    An output lies where an input lies only if `openinfer.compute.in_place` says that the input may be overwritten. It
    lies across one only for a target that keeps the order of `openinfer.codegen.loop_program`.

    Attributes:
        op: the operator, or those that are fused with ``+`` between them.
        arguments: of the parameters of the computation, in their order.
        stored: why no other step takes its work over, where one reads its result.
    """

    origin: Origin
    op: str
    computation: Computation
    inputs: tuple[Operand, ...]
    outputs: tuple[int, ...]
    temporaries: tuple[int, ...] = ()
    placement: Placement = Placement()
    arrangement: Arrangement = Arrangement()
    arguments: tuple[Argument, ...] = ()
    stored: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgramStep:
    """A loop program, whose buffers are the inputs and then the outputs. No output lies where an input lies."""

    origin: Origin
    op: str
    kernel: Kernel
    inputs: tuple[Operand, ...]
    outputs: tuple[int, ...]
    placement: Placement = Placement()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """``output`` takes the elements of ``source`` in row-major order; it may have another shape.

    Where both lie in the same memory there is nothing to do.

    Attributes:
        count: how many elements there are, where that is known at run time only.
    """

    origin: Origin
    source: Operand
    output: int
    count: Index | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FillStep:
    """Every element of ``output`` is ``value``."""

    origin: Origin
    output: int
    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class CountStep:
    """The one element of ``target`` changes by ``amount``, or by ``-amount`` if ``down``.

    Integers wrap at their width, floats add. A negative amount is an error at run time.
    """

    origin: Origin
    target: int
    amount: Index
    down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """``output`` takes a region of a state.

    Attributes:
        lengths: registers that take the lengths of the region's ranges, None for those that are known.
        view: register that takes the place of the first element, where the output is the memory of the state itself.
        is_contiguous: whether the elements of the region lie in a row.
    """

    origin: Origin
    source: int
    region: Region
    output: int
    lengths: tuple[int | None, ...] = ()
    view: int | None = None
    is_contiguous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStep:
    """A region of a state takes ``source``, whose extents along the region's ranges are ``lengths``."""

    origin: Origin
    source: Operand
    target: int
    region: Region
    lengths: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearStep:
    """Every element of a region of a state is ``value``; ``left`` take the extents up to the last that is another."""

    origin: Origin
    target: int
    region: Region
    value: Scalar
    left: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStep:
    """Registers take values, all of which are computed first."""

    origin: Origin
    values: tuple[tuple[int, Index], ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a statement demands, in the words of the program.

    Attributes:
        text: such as ``reshape: 2*T must be 32``.
        sizes: those that it names, with their values.
    """

    text: str
    sizes: tuple[tuple[str, Index], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceStep:
    """A register takes the value of a setting, counted from an end and clipped as ``range`` says.

    A value that the operator refuses is an error at run time.
    """

    origin: Origin
    register: int
    value: Index
    range: PlaceRange
    demand: Demand | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualStep:
    """Two sizes have to be equal; an error at run time where they are not."""

    origin: Origin
    left: Index
    right: Index
    demand: Demand | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStep:
    """The entry of a table that a statement names has to exist; an error at run time where it does not.

    Other steps test the entries that are among their inputs; this is for those that nothing computes with.
    """

    origin: Origin
    entry: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStep:
    """``output`` takes input ``number`` of the caller, or its default where there is none; ``count``: as `CopyStep`."""

    origin: Origin
    number: int
    output: int
    count: Index | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStep:
    """``body`` runs once for each index from ``start`` to below ``end``; both are evaluated once.

    ``runs`` says whether it is known to run at least once.
    """

    origin: Origin
    loop: int
    name: str
    index: str
    start: Index
    end: Index
    runs: bool
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStep:
    """Runs a procedure; with a condition (a one-element value), ``otherwise`` runs where it is false.

    Attributes:
        on_thread: whether the steps up to the `BarrierStep` that joins it may run at the same time. Data flow is that
            of a call; none of them touches what it writes (`openinfer.plan.parallel`). Nothing moves across it.
    """

    origin: Origin
    procedure: str
    condition: int | None = None
    otherwise: str | None = None
    on_thread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnStep:
    """Leaves the procedure, also from inside loops."""

    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierStep:
    """Nothing moves or fuses across it, and calls on threads of the procedures that it ``joins`` have ended."""

    origin: Origin
    joins: tuple[str, ...] = ()


Step: TypeAlias = (
    KernelStep
    | ComputeStep
    | LoopProgramStep
    | CopyStep
    | FillStep
    | CountStep
    | LoadStep
    | StoreStep
    | ClearStep
    | SetStep
    | PlaceStep
    | EqualStep
    | EntryStep
    | InputStep
    | LoopStep
    | CallStep
    | ReturnStep
    | BarrierStep
)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A block of the program as steps."""

    name: str
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"<Procedure {self.name}: {counted(len(self.steps), 'step')}>"
