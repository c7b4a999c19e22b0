"""Loop programs as functions of the generated source: equal ones are one function, which steps call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type, item_type
from openinfer.ir.types import TensorType
from openinfer.loops import Fail
from openinfer.synth.identifiers import Identifiers
from openinfer_synth_c.code import Code
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.function_parts import in_parts
from openinfer_synth_c.loop_programs import counter, operand_name, write_kernel
from openinfer_synth_c.ordered_terms import in_order
from openinfer_synth_c.polls import with_polls
from openinfer_synth_c.repeated_statements import with_loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops import Buffer, Kernel, Statement
    from openinfer_synth_c.function_parts import Part

_WORD = re.compile(r"\w+")

DEFINITION = """\
/* A function for one kind of step. Compilers treat each for itself, which is quicker and gives better loops. */
#if defined(__GNUC__)
#define KERNEL __attribute__((noinline)) static
#else
#define KERNEL static
#endif

/* Bytes at a multiple of four. */
#if defined(__GNUC__)
#define IN_WORDS(bytes) (bytes) = __builtin_assume_aligned((bytes), 4)
#else
#define IN_WORDS(bytes) (void)(bytes)
#endif
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: a buffer of the loop program.

    Attributes:
        is_written: whether the function stores in it.
        is_alone: whether no other parameter may point to its elements.
        is_pointer: false for the one element of a loop index, which is handed over itself.
        is_in_words: whether it points to bytes at a multiple of four, which a core may need to move words of them.
    """

    buffer: Buffer
    is_written: bool
    is_alone: bool = True
    is_pointer: bool = True
    is_in_words: bool = False

    @property
    def name(self) -> str:
        """The name in C."""
        return operand_name(self.buffer.name)

    @property
    def text(self) -> str:
        """The declaration in C."""
        if not self.is_pointer:
            return f"const {c_type(self.buffer.dtype)} {self.name}"
        const = "" if self.is_written else "const "
        return f"{const}{item_type(self.buffer.dtype)} *{'restrict ' if self.is_alone else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """A function of the source.

    Attributes:
        parameters: the buffers that it uses, which need not be all of the loop program.
        sizes: names of the parameters after them, sizes that are known at run time only.
        definitions: types and functions of vectors that it uses, by name.
        has_status: whether it returns a status; others return nothing.
        scratch_nbytes: bytes that it works in, at the address of its last parameter; it has none where they are 0.
        work: an estimate of what it does.
        parts: the functions that only it calls, in the order of their definitions.
        is_apart: whether compilers are to treat it for itself, not in place of its call.
    """

    name: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[str, ...]
    lines: tuple[str, ...]
    helpers: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]
    has_status: bool
    work: int
    scratch_nbytes: int = 0
    parts: tuple[KernelFunction, ...] = ()
    is_apart: bool = True

    @property
    def head(self) -> str:
        """The line before the body."""
        result = "int32_t" if self.has_status else "void"
        parameters = [*(p.text for p in self.parameters), *(f"ptrdiff_t {name}" for name in self.sizes)]
        parameters += ["unsigned char *restrict scratch"] if self.scratch_nbytes else []
        return f"{'KERNEL' if self.is_apart else 'static'} {result} {self.name}({', '.join(parameters) or 'void'})"


class KernelFunctions:
    """The functions of one source, in the order in which they are first called.

    Args:
        has_vector_types: whether vectors have the types of GCC and Clang, not those of plain C99.
        has_helium: whether they have Arm's instructions for microcontrollers.
        is_in_order: whether terms of totals are kept one after another.
        polls: whether long loops test the flag that a step is left by.
    """

    def __init__(
        self,
        *,
        has_vector_types: bool = False,
        has_helium: bool = False,
        is_in_order: bool = False,
        polls: bool = False,
    ) -> None:
        self._names = Identifiers()
        self._has_vector_types = has_vector_types
        self._has_helium = has_helium
        self._is_in_order = is_in_order
        self._polls = polls
        self._found: dict[tuple[object, ...], KernelFunction] = {}
        self._bodies: dict[tuple[object, ...], int] = {}
        self._numbers: dict[int, tuple[Kernel, int]] = {}

    def of(self, kernel: Kernel, parameters: Sequence[Parameter]) -> KernelFunction:
        """Return the function of a loop program."""
        key = (self._number(kernel), *parameters)
        if key not in self._found:
            self._found[key] = self._made(kernel, tuple(parameters))
        return self._found[key]

    def _number(self, kernel: Kernel) -> int:
        """Return the same number for loop programs with equal bodies; equal steps share one, which is hashed once."""
        if id(kernel) not in self._numbers:
            body = (kernel.body, kernel.parameters)
            self._numbers[id(kernel)] = (kernel, self._bodies.setdefault(body, len(self._bodies)))
        return self._numbers[id(kernel)][1]

    def __iter__(self) -> Iterator[KernelFunction]:
        for function in self._found.values():
            yield from function.parts
            yield function

    def _made(self, kernel: Kernel, parameters: tuple[Parameter, ...]) -> KernelFunction:
        code = Code(depth=1, has_vector_types=self._has_vector_types, has_helium=self._has_helium, scratch="scratch")
        operands = {p.buffer.name: _bound(p, code) for p in parameters}
        write_kernel(code, kernel, operands)
        code.keep_rolled(0)
        lines, work = with_polls(code.lines, {}, {})
        words = set(_WORD.findall("\n".join(code.lines)))
        body = [line for text in (lines if self._polls else code.lines) for line in text.split("\n")]
        body = in_order(body) if self._is_in_order else body
        unused = [f"    (void){counter(var)};" for var in kernel.parameters if counter(var) not in words]
        moves_words = any("i8x4(" in line for line in code.lines)
        words_of = [f"    IN_WORDS({p.name});" for p in parameters if moves_words and p.is_in_words and p.name in words]
        has_status = _may_fail(kernel.body) or (self._polls and lines != code.lines)
        name, sizes = self._names.name("k_", kernel.name), tuple(counter(var) for var in kernel.parameters)
        whole = (
            *unused,
            *words_of,
            *with_loops(body, code.helpers, has_vector_types=self._has_vector_types),
            *(("    return MODEL_OK;",) if has_status else ()),
        )
        names = [*(p.name for p in parameters), *sizes]
        whole, parts = in_parts(whole, names, lambda: self._names.name("k_", f"{name[2:]}_part"))
        return KernelFunction(
            name=name,
            parameters=tuple(p for p in parameters if p.name in words),
            sizes=sizes,
            lines=whole,
            helpers=tuple(code.helpers),
            definitions=tuple(code.definitions.items()),
            has_status=has_status,
            work=work,
            scratch_nbytes=code.scratch_nbytes,
            parts=tuple(_function(part, parameters) for part in parts),
        )


def _function(part: Part, parameters: Sequence[Parameter]) -> KernelFunction:
    """Return the function of a part, whose work and helpers are those of the function that it is a part of."""
    by_name = {parameter.name: parameter for parameter in parameters}
    return KernelFunction(
        name=part.name,
        parameters=tuple(by_name[name] for name in part.names if name in by_name),
        sizes=tuple(name for name in part.names if name not in by_name),
        lines=part.lines,
        helpers=(),
        definitions=(),
        has_status=False,
        work=0,
        is_apart=part.is_loop,
    )


def _bound(parameter: Parameter, code: Code) -> Bound:
    # Nothing needs a size that is known at run time only.
    size = parameter.buffer.size.constant or 0
    return Bound(
        parameter.name,
        TensorType(parameter.buffer.dtype, (size,)),
        code,
        pointer=parameter.is_pointer,
    )


def _may_fail(body: Sequence[Statement]) -> bool:
    return any(isinstance(s, Fail) or _may_fail(getattr(s, "body", ())) for s in body)
