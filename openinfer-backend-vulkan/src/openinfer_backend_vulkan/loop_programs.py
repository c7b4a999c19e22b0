"""Loop programs as GLSL: the iterations of loops over groups and threads are invocations of a compute shader.

Where a program has no loop over threads (`Bind.LOCAL`), each iteration over groups is one invocation, and workgroups
are filled with them. Loops over threads that follow one another in a group have a barrier between them. Numbers of
loops over threads, and of shared and private buffers, belong to the schedule and are written out; all others are
numbers of the run (`openinfer_backend_vulkan.index_text`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from openinfer.dtypes import I32, U32
from openinfer.errors import UnsupportedError
from openinfer.expr import tree
from openinfer.expr.glsl_renderer import helper_source, render
from openinfer.expr.glsl_types import literal_text, required_extensions
from openinfer.expr.linear import Program, linearise
from openinfer.loops import Alloc, Bind, Fail, For, If, Let, Load, Lookup, Memory, Number, Register, Set, Store, Value
from openinfer_backend_vulkan.elements import Elements, code_of
from openinfer_backend_vulkan.index_text import HELPERS, Numbers, counter_text, name_text
from openinfer_backend_vulkan.loop_nests import (
    chain,
    computed_types,
    extent_of,
    over_groups,
    statements_of,
    thread_counts,
)
from openinfer_backend_vulkan.shaders import GROUP_SIZE, PORTABLE, Fault, Shader, ShaderTarget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.expr.tree import Literal
    from openinfer.ir.types import TensorType
    from openinfer.loops import Buffer, Kernel, Leaf, Statement

ITERATIONS = "iterations of loops over groups"
"""Stands for their number among the numbers of a shader; no parameter has such a name."""

_FEATURES = {"i64": "shaderInt64", "u64": "shaderInt64", "f64": "shaderFloat64"}


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
        faults = tuple(_fault(op, tensors.get(name), rule) for name, rule in self.rules)
        threads = iterations * self.local
        return Shader(self.source, numbers, threads, self.features, faults, self.group_size, is_pushed=self.is_pushed)


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


class _Printer:
    def __init__(self, kernel: Kernel, target: ShaderTarget) -> None:
        self._kernel = kernel
        self._narrow = target.narrow
        self._numbers = Numbers(kernel.parameters, target.pushed_words)
        self._groups, self._body = over_groups(kernel.body)
        self._threads = max(thread_counts(self._body), default=0)
        written = {statement.buffer.name for statement in statements_of(kernel.body) if isinstance(statement, Store)}
        self._reads = tuple(buffer for buffer in kernel.buffers if buffer.name not in written)
        self._writes = tuple(buffer for buffer in kernel.buffers if buffer.name in written)
        self._computed = set(computed_types(kernel.body))
        self._lines: list[str] = []
        self._shared: list[str] = []
        self._depth = 1
        self._values = count()
        self._rules: list[tuple[str, str]] = []
        self._read_in: dict[str, Load | None] = {}
        self._helpers: dict[str, None] = {}
        self._extensions: dict[str, None] = {}
        self._features: set[str] = set()

    def printed(self) -> Printed:
        self._start(self._numbers.named_number(ITERATIONS))
        self._block(self._body, is_last=True)
        return Printed(
            source=self._source(),
            reads=tuple(buffer.name for buffer in self._reads),
            writes=tuple(buffer.name for buffer in self._writes),
            numbers=tuple(self._numbers.values),
            places=tuple(0 if var.extent is None else var.extent for var in self._groups),
            local=max(self._threads, 1),
            group_size=self._threads or GROUP_SIZE,
            is_pushed=self._numbers.is_pushed,
            features=frozenset(self._features),
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
            *(f"#extension {extension} : require" for extension in self._extensions),
            f"layout(local_size_x = {self._threads or GROUP_SIZE}) in;",
            *reads,
            *writes,
            *fault,
            self._numbers.declared(used),
            *self._shared,
            *([HELPERS.rstrip()] if self._numbers.needs_helpers else []),
            *([helper_source(self._helpers).rstrip()] if self._helpers else []),
            "void main() {",
            *(f"    {statement}" for statement in self._numbers.named()),
            *self._lines,
            "}",
        ]
        return "\n".join(parts) + "\n"

    def _binding(self, number: int, buffer: Buffer, kind: str) -> str:
        name = name_text("b", buffer.name)
        elements = self._elements(buffer.dtype)
        if elements.is_computed:
            self._note_type(buffer.dtype)
        self._extensions.update(dict.fromkeys(elements.extensions))
        return f"layout(std430, set = 0, binding = {number}) {kind} Buffer{number} {{ {elements.declared} {name}[]; }};"

    def _start(self, count_text: str) -> None:
        group = "gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x"
        if self._threads:
            self._line("int thread = int(gl_LocalInvocationID.x);")
            self._line(f"uint place = {group};")
        else:
            self._line(f"uint place = ({group}) * {GROUP_SIZE}u + gl_LocalInvocationID.x;")
        self._line(f"if (place >= uint({count_text})) {{ return; }}")
        for number, var in reversed(list(enumerate(self._groups))):
            if not number:
                self._line(f"int {counter_text(var)} = int(place);")
                continue
            extent = self._numbers.extent(var)
            self._line(f"int {counter_text(var)} = int(place % uint({extent}));")
            self._line(f"place /= uint({extent});")

    # Statements.

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _block(self, body: Sequence[Statement], *, is_last: bool = False) -> None:
        for number, statement in enumerate(body):
            self._statement(statement, is_last=is_last and number == len(body) - 1)

    def _statement(self, statement: Statement, *, is_last: bool) -> None:
        match statement:
            case For(_, Bind.LOCAL, _):
                self._over_threads(statement)
                if not is_last:
                    self._line("barrier();")
            case For(var, Bind.SERIAL | Bind.UNROLL as bind, body):
                name = counter_text(var)
                extent = str(extent_of(var)) if bind is Bind.UNROLL else self._numbers.extent(var)
                self._inside(f"for (int {name} = 0; {name} < {extent}; ++{name})", body)
            case If(tests, body):
                self._inside(f"if ({self._numbers.tests(tests, fixed=self._is_fixed(body))})", body)
            case Let(name, value):
                self._read_in[name] = self._first_read(value)
                text = self._value(value)
                self._line(f"{self._held_type(value.dtype)} {name_text('r', name)} = {text};")
            case Set(name, value):
                self._line(f"{name_text('r', name)} = {self._value(value)};")
            case Lookup(var, value):
                self._line(f"int {counter_text(var)} = {self._looked_up(value)};")
            case Fail(refused, rule):
                self._fail(refused, rule)
            case Store(buffer, address, value):
                self._store(buffer, address, self._value(value))
            case Alloc(buffer):
                self._allocate(buffer)
            case _:
                raise UnsupportedError(f"{self._kernel.name}: a loop program with lanes has no form in GLSL")

    def _inside(self, head: str, body: Sequence[Statement]) -> None:
        self._line(head + " {")
        self._depth += 1
        self._block(body)
        self._depth -= 1
        self._line("}")

    def _over_threads(self, loop: For) -> None:
        """Append loops over threads that stand one in the other: one test of this thread's number, and its digits."""
        axes, body = chain(loop, Bind.LOCAL)
        size = math.prod(extent_of(var) for var in axes)
        self._line(f"if (thread < {size}) {{" if size < self._threads else "{")
        self._depth += 1
        step = size
        for var in axes:
            step //= extent_of(var)
            quotient = f"thread / {step}" if step > 1 else "thread"
            digit = quotient if var == axes[0] else f"{quotient} % {extent_of(var)}"
            self._line(f"int {counter_text(var)} = {digit};")
        self._block(body)
        self._depth -= 1
        self._line("}")

    def _is_fixed(self, body: Sequence[Statement]) -> bool:
        """Return whether a test is about threads and shared memory alone, as in the steps of a total over threads."""
        buffers = [each.buffer for each in statements_of(body) if isinstance(each, Store)]
        return bool(buffers) and all(buffer.memory in (Memory.SHARED, Memory.PRIVATE) for buffer in buffers)

    def _looked_up(self, value: Value) -> str:
        match value:
            case Value(tree.Input(), (Number(index, _),)):
                return self._numbers.text(index)
            case _:
                return f"int({self._value(value)})"

    def _fail(self, refused: Value, rule: str) -> None:
        if self._threads:
            raise UnsupportedError(f"{self._kernel.name}: a test that can fail among the threads of a group")
        text, read = self._value(refused), self._first_read(refused)
        named = ("" if read is None else read.buffer.name, rule)
        if named not in self._rules:
            self._rules.append(named)
        element = "0" if read is None else self._numbers.text(read.address)
        self._line(f"if ({text}) {{ atomicMin(fault[{self._rules.index(named)}], uint({element})); return; }}")

    def _first_read(self, value: Value) -> Load | None:
        """Return the element that a value comes from, first of all."""
        for leaf in value.leaves:
            if isinstance(leaf, Load):
                return leaf
            if isinstance(leaf, Register) and self._read_in.get(leaf.name):
                return self._read_in[leaf.name]
        return None

    def _allocate(self, buffer: Buffer) -> None:
        size = buffer.size.constant
        if size is None:
            raise UnsupportedError(f"{self._kernel.name}: the buffer {buffer.name} has {buffer.size} elements")
        text = f"{self._held_type(buffer.dtype)} {name_text('b', buffer.name)}[{size}];"
        if buffer.memory is Memory.SHARED:
            self._shared.append(f"shared {text}")
        else:
            self._line(text)

    # Values.

    def _value(self, value: Value) -> str:
        """Append what computes a value; return the text of its result."""
        match value.expr:
            case tree.Literal() as literal:
                return self._literal(literal)
            case tree.Input(index=number):
                return self._leaf(value.leaves[number])
            case _:
                inputs = {number: self._leaf(leaf) for number, leaf in enumerate(value.leaves)}
                return self._rendered(value.expr, inputs)

    def _rendered(self, expr: tree.Expr, inputs: Mapping[int, str]) -> str:
        program = _counting_in_32_bits(linearise(expr))
        fragment = render(program, inputs, f"v{next(self._values)}_")
        self._helpers.update(dict.fromkeys(fragment.helpers))
        self._extensions.update(dict.fromkeys(fragment.requires))
        self._features |= {_FEATURES[s.dtype.name] for s in program.instructions if s.dtype.name in _FEATURES}
        for statement in fragment.statements:
            self._line(statement)
        return fragment.result

    def _leaf(self, leaf: Leaf) -> str:
        match leaf:
            case Load(buffer, address, guards, fill):
                element = self._element(buffer, address)
                if fill is None:
                    return element
                return f"({self._numbers.tests(guards)}) ? {element} : {self._literal(fill)}"
            case Register(name, _):
                return name_text("r", name)
            case Number(index, dtype):
                return self._rendered(tree.cast(tree.Input(0, I32), dtype), {0: self._numbers.text(index)})
            case _:
                raise UnsupportedError(f"{self._kernel.name}: a loop program with lanes has no form in GLSL")

    def _store(self, buffer: Buffer, address: Index, text: str) -> None:
        name = name_text("b", buffer.name)
        if _is_local(buffer):
            self._line(f"{name}[{self._numbers.text(address, fixed=True)}] = {text};")
            return
        elements = self._elements(buffer.dtype)
        for statement in elements.store(name, self._item(elements, name, address), text):
            self._line(statement)

    def _element(self, buffer: Buffer, address: Index) -> str:
        name = name_text("b", buffer.name)
        if _is_local(buffer):
            return f"{name}[{self._numbers.text(address, fixed=True)}]"
        elements = self._elements(buffer.dtype)
        return elements.load(name, self._item(elements, name, address))

    def _item(self, elements: Elements, name: str, address: Index) -> str:
        """Return the number of an element; where it shares a word, append a statement that gives it a name."""
        text = self._numbers.text(address, of=name)
        if not elements.is_packed:
            return text
        place = f"e{next(self._values)}"
        self._line(f"uint {place} = uint({text});")
        return place

    def _literal(self, literal: Literal) -> str:
        if literal.dtype.name in self._computed:
            self._note_type(literal.dtype)
            return literal_text(literal.dtype, literal.value)
        bits = code_of(literal.dtype, literal.value)
        if literal.dtype.bits == 64:
            return f"uvec2(0x{bits & 0xFFFFFFFF:x}u, 0x{bits >> 32:x}u)"
        return f"0x{bits:x}u"

    # Types: elements that are only moved are bits, whatever they mean, so that no device feature is needed for them.

    def _elements(self, dtype: DType) -> Elements:
        return Elements(dtype, is_computed=dtype.name in self._computed, narrow=self._narrow)

    def _held_type(self, dtype: DType) -> str:
        elements = self._elements(dtype)
        if elements.is_computed:
            self._note_type(dtype)
        return elements.held

    def _note_type(self, dtype: DType) -> None:
        self._extensions.update(dict.fromkeys(required_extensions(dtype)))
        if dtype.name in _FEATURES:
            self._features.add(_FEATURES[dtype.name])


def _is_local(buffer: Buffer) -> bool:
    """Return whether a buffer belongs to a group of threads, or to one: its elements are as registers hold them."""
    return buffer.memory in (Memory.SHARED, Memory.PRIVATE)


def _counting_in_32_bits(program: Program) -> Program:
    """Return a program in which constants that are only converted, such as numbers of terms, have 32 bits if they can.

    Devices without 64-bit integers can then compute it.
    """
    steps = program.instructions
    others = {place for step in steps if step.function != "cast" for place in step.operands} | {len(steps) - 1}
    return Program(
        tuple(
            replace(step, dtype=U32) if step.function == "literal" and _is_count(step) and place not in others else step
            for place, step in enumerate(steps)
        )
    )


def _is_count(step: Instruction) -> bool:
    is_whole = step.dtype.is_integer and step.dtype.bits == 64
    return is_whole and step.value is not None and 0 <= step.value < 1 << 32
