"""Values of loop programs as GLSL: the statements that compute them, elements of buffers, types and constants."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from openinfer.dtypes import F16, I32, U32
from openinfer.errors import UnsupportedError
from openinfer.expr import tree
from openinfer.expr.glsl_renderer import render
from openinfer.expr.glsl_types import literal_text, required_extensions
from openinfer.expr.linear import Program, linearise
from openinfer.loops import Alloc, Load, Memory, Number, Peer, Register, Value
from openinfer_backend_vulkan.glsl.elements import Elements, code_of
from openinfer_backend_vulkan.glsl.index_text import Numbers, name_text
from openinfer_backend_vulkan.glsl.loop_nests import computed_types, statements_of
from openinfer_backend_vulkan.glsl.words import VECTOR, in_vectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.expr.tree import Literal
    from openinfer.loops import Buffer, Kernel, Leaf, Statement
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

_TEMPORARY = re.compile(r"t\d+")
"""Names of temporaries in definitions of operators."""

_VECTORS = {"float": "vec4", "int": "ivec4", "uint": "uvec4"}
_FEATURES = {"i64": "shaderInt64", "u64": "shaderInt64", "f64": "shaderFloat64"}


class ValuePrinter:
    """Appends statements to the lines of a shader, and notes what they need of the rest of it.

    Attributes:
        helpers, extensions, features: names of functions, of extensions of GLSL and of features of the device.
        known: names of what was loaded before, by the leaf that would load it.
        unpacked: expressions of those that are halves of words as f32, where the device keeps halves.
        vectors: names of shared buffers that are arrays of vectors.
        views: for each buffer the widths in words under which its items are declared; 0: as elements.
    """

    def __init__(self, kernel: Kernel, target: ShaderTarget) -> None:
        self.kernel = kernel
        self.target = target
        self.numbers = Numbers(kernel.parameters, target.pushed_words)
        self.lines: list[str] = []
        self.depth: int = 1
        self.helpers: dict[str, None] = {}
        self.extensions: dict[str, None] = {}
        self.features: set[str] = set()
        self.views: dict[str, set[int]] = {buffer.name: set() for buffer in kernel.buffers}
        self._buffer_names = _buffer_names([*kernel.buffers, *allocated(kernel.body)])
        self._computed = set(computed_types(kernel.body))
        self.vectors = {name for name in in_vectors(kernel.body) if self._is_of_vectors(kernel, name)}
        self._new = count()
        self.known: dict[Leaf, str] = {}
        self.unpacked: dict[Leaf, str] = {}

    def _is_of_vectors(self, kernel: Kernel, name: str) -> bool:
        """Return whether a shared buffer can be an array of vectors."""
        buffer = next(b for b in allocated(kernel.body) if b.name == name)
        return self.held_type(buffer.dtype) in _VECTORS and (buffer.size.constant or 1) % VECTOR == 0

    def buffer_text(self, name: str) -> str:
        """Return what the shader calls a buffer."""
        return self._buffer_names.get(name) or name_text("b", name)

    def local(self, buffer: Buffer, address: Index) -> str:
        """Return an element that belongs to a group of threads, or to one."""
        name, text = self.buffer_text(buffer.name), self.numbers.text(address, fixed=True)
        if buffer.name not in self.vectors:
            return f"{name}[{text}]"
        number = self.fresh("e")
        self.line(f"int {number} = {text};")
        return f"{name}[{number} >> 2][{number} & 3]"

    def line(self, text: str) -> None:
        """Append a statement."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        """Return a name that the shader does not have yet."""
        return f"{prefix}{next(self._new)}"

    def value(self, value: Value) -> str:
        """Append what computes a value; return the text of its result."""
        match value.expr:
            case tree.Literal() as literal:
                return self._literal(literal)
            case tree.Input(index=number):
                return self.leaf(value.leaves[number])
            case _:
                inputs = {number: self.leaf(leaf) for number, leaf in enumerate(value.leaves)}
                return self._rendered(value.expr, inputs, self._widened(value.leaves, inputs))

    def _widened(self, leaves: Sequence[Leaf], inputs: Mapping[int, str]) -> dict[int, str]:
        """Return the f16 among inputs as f32 as hardware converts them, which may lose the signs of NaNs."""
        if not self.target.keeps_halves:
            return {}
        halves = [(number, leaf) for number, leaf in enumerate(leaves) if leaf.dtype is F16]
        return {number: self.unpacked.get(leaf) or unpacked_text(inputs[number], 0) for number, leaf in halves}

    def _rendered(self, expr: tree.Expr, inputs: Mapping[int, str], widened: Mapping[int, str] | None = None) -> str:
        program = _counting_in_32_bits(linearise(expr))
        fragment = render(program, inputs, self.fresh("v") + "_", widened)
        self.helpers.update(dict.fromkeys(fragment.helpers))
        self.extensions.update(dict.fromkeys(fragment.requires))
        self.features |= {_FEATURES[s.dtype.name] for s in program.instructions if s.dtype.name in _FEATURES}
        for statement in fragment.statements:
            self.line(statement)
        return fragment.result

    def leaf(self, leaf: Leaf) -> str:
        if leaf in self.known:
            return self.known[leaf]
        match leaf:
            case Load(buffer, address, guards, fill):
                element = self._element(buffer, address)
                if fill is None:
                    return element
                return f"({self.numbers.tests(guards)}) ? {element} : {self._literal(fill)}"
            case Register(name, _):
                return name_text("r", name)
            case Number(index, dtype):
                return self._rendered(tree.cast(tree.Input(0, I32), dtype), {0: self.numbers.text(index)})
            case Peer():
                raise UnsupportedError(f"{self.kernel.name}: the scalar of another thread outside of a join")
            case _:
                raise UnsupportedError(
                    f"{self.kernel.name}: the elements of a private buffer as one have no form in GLSL"
                )

    def store(self, buffer: Buffer, address: Index, text: str) -> None:
        name = self.buffer_text(buffer.name)
        if is_local(buffer):
            self.line(f"{self.local(buffer, address)} = {text};")
            return
        self.views[buffer.name].add(0)
        elements = self.elements(buffer.dtype)
        for statement in elements.store(name, self._item(elements, name, address), text):
            self.line(statement)

    def _element(self, buffer: Buffer, address: Index) -> str:
        name = self.buffer_text(buffer.name)
        if is_local(buffer):
            return self.local(buffer, address)
        self.views[buffer.name].add(0)
        elements = self.elements(buffer.dtype)
        return elements.load(name, self._item(elements, name, address))

    def _item(self, elements: Elements, name: str, address: Index) -> str:
        """Return the number of an element; where it shares a word, append a statement that gives it a name."""
        text = self.numbers.text(address, of=name)
        if not elements.is_packed:
            return text
        item = self.fresh("e")
        self.line(f"uint {item} = uint({text});")
        return item

    def _literal(self, literal: Literal) -> str:
        if literal.dtype.name in self._computed:
            self.note_type(literal.dtype)
            return literal_text(literal.dtype, literal.value)
        bits = code_of(literal.dtype, literal.value)
        if literal.dtype.bits == 64:
            return f"uvec2(0x{bits & 0xFFFFFFFF:x}u, 0x{bits >> 32:x}u)"
        return f"0x{bits:x}u"

    # Types: elements that are only moved are bits, whatever they mean, so that no device feature is needed for them.

    def elements(self, dtype: DType) -> Elements:
        return Elements(dtype, is_computed=dtype.name in self._computed, narrow=self.target.narrow)

    def held_type(self, dtype: DType) -> str:
        elements = self.elements(dtype)
        if elements.is_computed:
            self.note_type(dtype)
        return elements.held

    def note_type(self, dtype: DType) -> None:
        self.extensions.update(dict.fromkeys(required_extensions(dtype)))
        if dtype.name in _FEATURES:
            self.features.add(_FEATURES[dtype.name])


def unpacked_text(word: str, lane: int) -> str:
    """Return one of the two f16 in a word as f32; of place 0, bits above it are ignored."""
    return f"unpackHalf2x16({word}).{'xy'[lane]}"


def vector_type(held: str) -> str:
    """Return the GLSL type of vectors of a type."""
    return _VECTORS[held]


def allocated(body: Sequence[Statement]) -> Iterator[Buffer]:
    """Yield the buffers that statements allocate."""
    return (statement.buffer for statement in statements_of(body) if isinstance(statement, Alloc))


def _buffer_names(buffers: Sequence[Buffer]) -> dict[str, str]:
    """Return names of temporaries, by their place among them: stages that differ in these alone are one shader."""
    temporaries = dict.fromkeys(buffer.name for buffer in buffers if _TEMPORARY.fullmatch(buffer.name))
    return {name: f"t{number}" for number, name in enumerate(temporaries)}


def is_local(buffer: Buffer) -> bool:
    """Return whether a buffer belongs to a group of threads, or to one: its elements are as registers hold them."""
    return buffer.memory in (Memory.SHARED, Memory.PRIVATE)


def _counting_in_32_bits(program: Program) -> Program:
    """Return a program in which constants that are only converted, such as numbers of terms, have 32 bits if they can.

    Devices without 64-bit integers can then compute it.
    """
    steps = program.instructions
    others = {operand for step in steps if step.function != "cast" for operand in step.operands} | {len(steps) - 1}
    return Program(
        tuple(
            replace(step, dtype=U32)
            if step.function == "literal" and _is_count(step) and number not in others
            else step
            for number, step in enumerate(steps)
        )
    )


def _is_count(step: Instruction) -> bool:
    is_whole = step.dtype.is_integer and step.dtype.bits == 64
    return is_whole and step.value is not None and 0 <= step.value < 1 << 32
