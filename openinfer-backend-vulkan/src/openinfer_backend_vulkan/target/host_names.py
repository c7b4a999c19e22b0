"""Names in the host program, and how it spells what integer expressions are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, U64
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_packed import load_text
from openinfer.expr.c_types import item_type
from openinfer.plan.accesses import walk
from openinfer.plan.steps import CallStep, LoopIndex, LoopStep
from openinfer.plan.values import InputMemory, WeightMemory
from openinfer.synth.c_host.port_names import PortNames
from openinfer.synth.identifiers import Identifiers
from openinfer_backend_vulkan.target.integers import values_read
from openinfer_backend_vulkan.target.places import Place, fixed, whole

if TYPE_CHECKING:
    from openinfer.expr.fragment import Call
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Register, ValueRef
    from openinfer_backend_vulkan.target.places import Places

MIRROR_WIDTH = 8
"""Bytes of the buffer of the host that each value has which its program reads."""

MIRROR_START = 64
"""Where they begin: faults come before."""


class HostNames(PortNames):
    """Names of tables, blocks, loops, and of values that the host program reads.

    Attributes:
        mirrored: places of values that kernels write and the host program reads, each with its place among those.
        local: loops of the segment that is written, whose indices are local variables.
        helpers: functions of C that reading elements calls.
    """

    def __init__(self, plan: ExecutionPlan, places: Places) -> None:
        super().__init__(plan)
        self._plan = plan
        self._places = places
        tables, blocks, loops = Identifiers(), Identifiers(), Identifiers()
        self.tables = {table.number: tables.name("t_", table.name) for table in plan.tables}
        self.blocks = {procedure.name: blocks.name("block_", procedure.name) for procedure in plan.procedures}
        steps = [step for procedure in plan.procedures for step in walk(procedure.steps)]
        loop_steps = [step for step in steps if isinstance(step, LoopStep)]
        self.loops = {step.loop: loops.name("i_", step.index) for step in loop_steps}
        self.local: set[int] = set()
        self.used_tables: set[int] = set()
        self.helpers: dict[str, None] = {}
        read = [value for step in (*steps, *plan.reset) for value in values_read(step)]
        read += [step.condition for step in steps if isinstance(step, CallStep) and step.condition is not None]
        kept = [number for number in dict.fromkeys(read) if not self._is_given(number)]
        spots = dict.fromkeys(places.value(number) for number in kept)
        self.mirrored = {place: MIRROR_START + MIRROR_WIDTH * at for at, place in enumerate(spots)}

    @property
    def counts_start(self) -> int:
        """Where the words of the host's buffer begin that kernels write their counts to, one for each register."""
        return whole(MIRROR_START + MIRROR_WIDTH * len(self.mirrored))

    @property
    def numbers_start(self) -> int:
        """Where the numbers of segments begin in the host's buffer."""
        return self.counts_start + whole(4 * len(self._plan.registers))

    def _is_given(self, number: int) -> bool:
        return isinstance(self._plan.values[number].memory, InputMemory | WeightMemory)

    def place(self, meaning: LoopIndex | Register) -> str:
        """Return the index of a loop, or a register."""
        if not isinstance(meaning, LoopIndex):
            return self.register(meaning.number)
        name = self.loops[meaning.loop]
        return name if meaning.loop in self.local else f"model->{name}"

    def element(self, value: ValueRef) -> tuple[str, bool]:
        """Return the one element of a value, and whether it is a ``uint64_t``."""
        dtype = self._plan.values[value.value].stored.dtype
        if dtype.is_packed:
            return self._noted(load_text(dtype, self._pointer(value.value), "0")), False
        return f"{self._pointer(value.value)}[0]", dtype is U64

    def truth(self, number: int) -> str:
        """Return the test whether the one element of a value is not zero."""
        dtype = self._plan.values[number].stored.dtype
        pointer = self._pointer(number)
        text = self._noted(load_text(dtype, pointer, "0")) if dtype.is_packed else f"{pointer}[0]"
        return text if dtype is BOOL else self._noted(call_text("cast", (dtype,), BOOL, (text,)))

    def mirror(self, place: Place) -> Place:
        """Return where the host program finds a value that kernels write."""
        return fixed("host", self.mirrored[place], place.nbytes, place.what)

    def _pointer(self, number: int) -> str:
        value = self._plan.values[number]
        kind = item_type(value.stored.dtype)
        match value.memory:
            case InputMemory(number=at):
                return f"inputs->{self.inputs[at]}"
            case WeightMemory(number=at):
                return f"((const {kind} *)(const void *)(model_known + {self._places.known(at)}))"
            case _:
                at = self.mirrored[self._places.value(number)]
                return f"((const {kind} *)(const void *)(model->host.mapped + {at}))"

    def _noted(self, call: Call) -> str:
        self.helpers.update(dict.fromkeys(call.helpers))
        return call.text
