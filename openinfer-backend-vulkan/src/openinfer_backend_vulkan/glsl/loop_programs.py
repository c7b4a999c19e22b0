"""Loop programs as GLSL: the iterations of loops over groups and threads are invocations of a compute shader.

Where a program has no loop over threads (`Bind.LOCAL`), each iteration over groups is one invocation, and workgroups
are filled with them. Loops over threads that follow one another in a group have a barrier between them. Numbers of
loops over threads, and of shared and private buffers, belong to the schedule and are written out; all others are
numbers of the run (`openinfer_backend_vulkan.glsl.index_text`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import UnsupportedError
from openinfer.expr import tree
from openinfer.expr.glsl_renderer import helper_source
from openinfer.loops import (
    Alloc,
    Barrier,
    Bind,
    Fail,
    For,
    If,
    Join,
    Let,
    Load,
    Lookup,
    Memory,
    Number,
    Prefetch,
    Register,
    Set,
    Store,
    TileAlloc,
    Value,
)
from openinfer.loops.teams import is_meeting, team
from openinfer_backend_vulkan.glsl.index_text import HELPERS, counter_text, name_text
from openinfer_backend_vulkan.glsl.lanes import view_name
from openinfer_backend_vulkan.glsl.loop_nests import extent_of, over_groups, statements_of, thread_counts
from openinfer_backend_vulkan.glsl.shaders import PORTABLE, Fault, Shader, ShaderTarget
from openinfer_backend_vulkan.glsl.tile_printer import TilePrinter
from openinfer_backend_vulkan.glsl.values import vector_type
from openinfer_backend_vulkan.glsl.words import VECTOR, WORD_BITS, item_type, loads_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.ir.types import TensorType
    from openinfer.loops import Buffer, Kernel, Statement


ITERATIONS = "iterations of loops over groups"
"""Stands for their number among the numbers of a shader; no parameter has such a name."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A loop program as a shader.

    Attributes:
        reads, writes: names of buffers in the order of their bindings, those that are written last.
        numbers: what the shader is run with; names stand for parameters of the loop program, and `ITERATIONS` for how
            often its loops over groups are run.
        is_pushed: whether they are push constants.
        places: extents of the loops over groups.
        local: invocations of each of their iterations.
        rules: for each test that can fail the name of the buffer that it is about ("" for none), and what it says.
    """

    source: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    numbers: tuple[int | str, ...]
    places: tuple[int | Index, ...]
    local: int
    group_size: int
    is_pushed: bool
    features: frozenset[str]
    rules: tuple[tuple[str, str], ...]

    def iterations(self, parameters: Mapping[str, int]) -> int:
        """Return how often loops over groups are run for values of the parameters."""
        extents = (extent if isinstance(extent, int) else extent.evaluate(parameters) for extent in self.places)
        return math.prod(max(extent, 0) for extent in extents)

    def shader(self, parameters: Mapping[str, int], op: str, tensors: Mapping[str, TensorType]) -> Shader:
        """Return the shader for values of the parameters; faults name the operator and elements of its tensors."""
        iterations = self.iterations(parameters)
        values = {**parameters, ITERATIONS: iterations}
        numbers = tuple(values[number] if isinstance(number, str) else number for number in self.numbers)
        threads, faults = iterations * self.local, self.faults(op, tensors)
        return Shader(self.source, numbers, threads, self.features, faults, self.group_size, is_pushed=self.is_pushed)

    def faults(self, op: str, tensors: Mapping[str, TensorType]) -> tuple[Fault, ...]:
        """Return what is wrong where tests fail, in the words of an operator and elements of its tensors."""
        return tuple(_fault(op, tensors.get(name), rule) for name, rule in self.rules)


def _fault(op: str, tensor: TensorType | None, rule: str) -> Fault:
    what = op if tensor is None else f"{op}: {tensor}"
    return Fault(what, () if tensor is None else tensor.shape, "the element{at} is out of range", rule)


def printed(kernel: Kernel, target: ShaderTarget = PORTABLE) -> Printed:
    """Return a loop program as GLSL.

    Raises:
        ExprError: GLSL cannot hold a type of an expression, or has no such function on it.
        UnsupportedError: an index may need more than 32 bits, or a loop is over lanes.
    """
    return _Printer(kernel, target).printed()


class _Printer(TilePrinter):
    def __init__(self, kernel: Kernel, target: ShaderTarget) -> None:
        super().__init__(kernel, target)
        self._groups, self._body = over_groups(kernel.body)
        self._threads = max(thread_counts(self._body), default=0)
        written = {statement.buffer.name for statement in statements_of(kernel.body) if isinstance(statement, Store)}
        self._reads = tuple(buffer for buffer in kernel.buffers if buffer.name not in written)
        self._writes = tuple(buffer for buffer in kernel.buffers if buffer.name in written)
        self._rules: list[tuple[str, str]] = []
        self._read_in: dict[str, Load | None] = {}

    def printed(self) -> Printed:
        self._start(self.numbers.named_number(ITERATIONS))
        self._block(self._body, is_last=True)
        return Printed(
            source=self._source(),
            reads=tuple(buffer.name for buffer in self._reads),
            writes=tuple(buffer.name for buffer in self._writes),
            numbers=tuple(self.numbers.values),
            places=tuple(0 if var.extent is None else var.extent for var in self._groups),
            local=max(self._threads, 1),
            group_size=self._threads or self.target.group_size,
            is_pushed=self.numbers.is_pushed,
            features=frozenset(self.features),
            rules=tuple(self._rules),
        )

    # The frame: buffers, numbers, and which iterations this invocation is.

    def _source(self) -> str:
        reads = [self._binding(n, b, "readonly buffer") for n, b in enumerate(self._reads)]
        writes = [self._binding(len(reads) + n, b, "buffer") for n, b in enumerate(self._writes)]
        used = len(reads) + len(writes)
        fault = [f"layout(std430, set = 0, binding = {used}) buffer Fault {{ uint fault[]; }};"] if self._rules else []
        used += len(fault)
        parts = [
            "#version 450",
            *(["#pragma use_vulkan_memory_model"] if self.constants else []),
            *(f"#extension {extension} : require" for extension in self.extensions),
            f"layout(local_size_x = {self._threads or self.target.group_size}) in;",
            *reads,
            *writes,
            *fault,
            self.numbers.declared(used),
            *self.constants,
            *self.shared,
            *([HELPERS.rstrip()] if self.numbers.needs_helpers else []),
            *([helper_source(self.helpers, halves=self.target.keeps_halves).rstrip()] if self.helpers else []),
            "void main() {",
            *(f"    {statement}" for statement in self.numbers.named()),
            *self.lines,
            "}",
        ]
        return "\n".join(parts) + "\n"

    def _binding(self, number: int, buffer: Buffer, kind: str) -> str:
        name = self.buffer_text(buffer.name)
        elements = self.elements(buffer.dtype)
        if elements.is_computed:
            self.note_type(buffer.dtype)
        head = f"layout(std430, set = 0, binding = {number}) {kind} Buffer{number}"
        declared: list[str] = []
        for width in sorted(self.views[buffer.name]) or [0]:
            if not width:
                self.extensions.update(dict.fromkeys(elements.extensions))
            item = item_type(width) if width else elements.declared
            declared.append(f"{head}{f'w{width}' if width else ''} {{ {item} {view_name(name, width)}[]; }};")
        return "\n".join(declared)

    def _start(self, count_text: str) -> None:
        group = "gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x"
        if self._threads:
            self.line(f"int thread = int({self._thread()});")
            self.line(f"uint place = {group};")
        else:
            self.line(f"uint place = ({group}) * {self.target.group_size}u + gl_LocalInvocationID.x;")
        self.line(f"if (place >= uint({count_text})) {{ return; }}")
        for number, var in reversed(list(enumerate(self._groups))):
            if not number:
                self.line(f"int {counter_text(var)} = int(place);")
                continue
            extent = self.numbers.extent(var)
            self.line(f"int {counter_text(var)} = int(place % uint({extent}));")
            self.line(f"place /= uint({extent});")

    def _thread(self) -> str:
        """Return the number of this invocation in its group; where threads join, those of a subgroup follow another."""
        if self.target.subgroup > 1 and any(
            isinstance(statement, Join | TileAlloc) for statement in statements_of(self._body)
        ):
            self.extensions["GL_KHR_shader_subgroup_basic"] = None
            return "gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID"
        return "gl_LocalInvocationID.x"

    # Statements.

    def _block(self, body: Sequence[Statement], *, is_last: bool = False) -> None:
        for number, statement in enumerate(body):
            self.statement(statement)
            at_end = is_last and number == len(body) - 1
            if isinstance(statement, For) and statement.bind is Bind.LOCAL and not at_end:
                self.line("barrier();")

    def statement(self, statement: Statement) -> None:
        match statement:
            case For():
                self._loop(statement)
            case If(tests, body):
                is_of_first = all(test.extent.constant == 1 and len(test.index.terms) == 1 for test in tests)
                with self.inside(f"if ({self.numbers.tests(tests, fixed=is_of_first)})"):
                    self._block(body)
            case Join():
                self.join(statement)
            case Barrier():
                self.line("barrier();")
            case Let(name, value):
                self._read_in[name] = self._first_read(value)
                text = self.value(value)
                self.line(f"{self.held_type(value.dtype)} {name_text('r', name)} = {text};")
            case Set(name, value):
                self.line(f"{name_text('r', name)} = {self.value(value)};")
            case Lookup(var, value):
                self.line(f"int {counter_text(var)} = {self._looked_up(value)};")
            case Fail(refused, rule):
                self._fail(refused, rule)
            case Store(buffer, address, value):
                self.store(buffer, address, self.value(value))
            case Alloc(buffer):
                self._allocate(buffer)
            case Prefetch():
                pass
            case _:
                self.of_tiles(statement)

    def _loop(self, loop: For) -> None:
        name = counter_text(loop.var)
        match loop.bind:
            case Bind.LANES:
                self.lanes(loop)
            case Bind.LOCAL:
                self._over_threads(loop)
            case Bind.UNROLL if self.copied(loop):
                pass
            case Bind.UNROLL if self._is_in_words(loop):
                self.lanes(loop)
            case Bind.UNROLL:
                self.extensions["GL_EXT_control_flow_attributes"] = None
                self._in_turns(f"[[unroll]] for (int {name} = 0; {name} < {extent_of(loop.var)}; ++{name})", loop.body)
            case Bind.SERIAL:
                extent = self.numbers.extent(loop.var)
                self._in_turns(f"for (int {name} = 0; {name} < {extent}; ++{name})", loop.body)
            case Bind.GROUP:
                raise UnsupportedError(f"{self.kernel.name}: a loop over groups inside of other loops")

    def _in_turns(self, head: str, body: Sequence[Statement]) -> None:
        self.turns += 1
        with self.inside(head):
            self._block(body)
        self.turns -= 1

    def _is_in_words(self, loop: For) -> bool:
        """Return whether copies of statements load or store neighbours, and none stores what another loads."""
        stores = {statement.buffer.name for statement in statements_of(loop.body) if isinstance(statement, Store)}
        loads = loads_of(loop.body)
        if any(load.buffer.name in stores and load.buffer.memory is not Memory.PRIVATE for load in loads):
            return False
        return bool(self.loads_in_words(loop.var, loop.body) or self.stores_in_words(loop.var, loop.body))

    def _over_threads(self, loop: For) -> None:
        """Append nested loops over threads: one test of this thread's number, and its digits."""
        axes, body = team(loop)
        size = math.prod(extent_of(var) for var in axes)
        if is_meeting(body) and size < self._threads:
            message = f"{self.kernel.name}: {size} of {self._threads} threads of a group meet"
            raise UnsupportedError(message)
        self.axes = axes
        with self.inside(f"if (thread < {size})" if size < self._threads else ""):
            step = size
            for var in axes:
                step //= extent_of(var)
                quotient = f"thread / {step}" if step > 1 else "thread"
                digit = quotient if var == axes[0] else f"{quotient} % {extent_of(var)}"
                self.line(f"int {counter_text(var)} = {digit};")
            self._block(body, is_last=True)
        self.axes = ()

    def _looked_up(self, value: Value) -> str:
        match value:
            case Value(tree.Input(), (Number(index, _),)):
                return self.numbers.text(index)
            case _:
                return f"int({self.value(value)})"

    def _fail(self, refused: Value, rule: str) -> None:
        if self._threads:
            raise UnsupportedError(f"{self.kernel.name}: a test that can fail among the threads of a group")
        text, read = self.value(refused), self._first_read(refused)
        named = ("" if read is None else read.buffer.name, rule)
        if named not in self._rules:
            self._rules.append(named)
        element = "0" if read is None else self.numbers.text(read.address)
        self.line(f"if ({text}) {{ atomicMin(fault[{self._rules.index(named)}], uint({element})); return; }}")

    def _first_read(self, value: Value) -> Load | None:
        """Return the element from which a value is first computed."""
        for leaf in value.leaves:
            if isinstance(leaf, Load):
                return leaf
            if isinstance(leaf, Register) and self._read_in.get(leaf.name):
                return self._read_in[leaf.name]
        return None

    def _allocate(self, buffer: Buffer) -> None:
        size = buffer.size.constant
        if size is None:
            raise UnsupportedError(f"{self.kernel.name}: the buffer {buffer.name} has {buffer.size} elements")
        held = self.held_type(buffer.dtype)
        if buffer.name in self.packed:
            held, size = item_type(VECTOR), size * buffer.dtype.bits // (VECTOR * WORD_BITS)
        kind, items = (vector_type(held), size // VECTOR) if buffer.name in self.vectors else (held, size)
        text = f"{kind} {self.buffer_text(buffer.name)}[{items}];"
        if buffer.memory is Memory.SHARED:
            self.shared.append(f"shared {text}")
        else:
            self.line(text)
