"""What the names of a loop program stand for in C."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index
from openinfer.expr import tree
from openinfer.expr.c_renderer import c_type, item_type
from openinfer.expr.linear import linearise
from openinfer.loops import Let, Load, Memory, Set, Store
from openinfer_synth_c.loop_programs.addresses import pointer_text
from openinfer_synth_c.loop_programs.guards import NamedTests
from openinfer_synth_c.loop_programs.vector_functions import is_narrow, rounded_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.expr.tree import Expr
    from openinfer.loops import Buffer, Leaf, Statement, Value
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.elements import Bound

_WORD = re.compile(r"\w+")

_Pointers: TypeAlias = "dict[tuple[str, Index], tuple[str, int]]"
"""Names of pointers, and the constant part of their addresses, by the part that depends on variables."""


@dataclass(slots=True)
class Places:
    """What the names of a loop program are in C.

    Attributes:
        operands: buffers that have elements in memory.
        vectors: private buffers that are vectors, by name of the buffer.
        fresh: returns a number for a new name.
        tests: the tests of loads whose indices have names.
    """

    code: Code
    operands: dict[str, Bound]
    vectors: dict[str, str]
    fresh: Callable[[], int]
    tests: NamedTests = field(init=False)
    _pointers: _Pointers = field(default_factory=dict[tuple[str, Index], tuple[str, int]])

    def __post_init__(self) -> None:
        self.tests = NamedTests(self.fresh)

    def element(self, buffer: Buffer, address: Index) -> tuple[Bound, Index]:
        """Return the array that holds an element, and the index of the element in it."""
        bound = self.operands[buffer.name]
        if self._pointers:
            steps, constant = _split(address)
            pointer = self._pointers.get((buffer.name, steps))
            if pointer is not None:
                name, first = pointer
                return replace(bound, variable=name), Index.of(constant - first)
        return bound, address

    @contextmanager
    def pointers(self, body: Sequence[Statement], lane: Var) -> Generator[None]:
        """Append pointers to elements of a loop over lanes whose addresses differ by constants, and use them in it."""
        shared: dict[tuple[str, Index], list[int]] = defaultdict(list)
        written = {statement.buffer.name for statement in body if isinstance(statement, Store)}
        for buffer, address in _accesses(body):
            bound = self.operands.get(buffer.name)
            if bound is not None and bound.pointer and not buffer.dtype.is_packed:
                steps, constant = _split(address - lane if address.coefficient(lane) == 1 else address)
                if steps.terms and lane not in steps.variables():
                    shared[buffer.name, steps].append(constant)
        for (name, steps), constants in shared.items():
            if len(constants) > 1:
                # The least of the addresses in use: a pointer must not lie outside of its array.
                least, pointer, bound = min(constants), f"p{self.fresh()}", self.operands[name]
                kind = f"{'' if name in written else 'const '}{item_type(bound.stored.dtype)}"
                self.code.line(f"{kind} *const {pointer} = {pointer_text(bound.variable, steps + least)};")
                self._pointers[name, steps] = pointer, least
        first = len(self.code.lines)
        yield
        # Some elements are used in a form that counts addresses itself.
        used = set(_WORD.findall("\n".join(self.code.lines[first:])))
        idle = [f" *const {pointer} = " for pointer, _ in self._pointers.values() if pointer not in used]
        self.code.lines[:] = [line for line in self.code.lines if not any(text in line for text in idle)]
        self._pointers.clear()

    def scalar(self, value: Value, leaf_text: Callable[[Leaf], str]) -> str:
        """Append what computes a value of one element; return the text of its result, which is used once."""
        rounding = _rounding(value.expr)
        program = linearise(value.expr if rounding is None else rounding)
        inputs = {number: leaf_text(leaf) for number, leaf in enumerate(value.leaves)}
        text = self.code.nested(program, inputs, f"v{self.fresh()}_")
        return text if rounding is None else rounded_scalar(self.code, value.dtype, text)

    def named_scalar(self, value: Value, leaf_text: Callable[[Leaf], str]) -> str:
        """Append what computes a value of one element; return a name or an element that has it."""
        text = self.scalar(value, leaf_text)
        if is_plain(text):
            return text
        name = f"v{self.fresh()}"
        self.code.line(f"const {c_type(value.dtype)} {name} = {text};")
        return name


def _rounding(expr: Expr) -> Expr | None:
    """Return the f32 that an expression rounds to an integer of 8 or 16 bits, halves to even; None: it does not."""
    match expr:
        case tree.Apply("cast", (tree.Apply("round_even", (given,), source),), result) if is_narrow(source, result):
            return given
        case tree.Apply("cast", (tree.Apply("trunc", (tree.Apply("round_even", (given,)),), source),), result) if (
            is_narrow(source, result)
        ):
            return given
        case _:
            return None


def is_plain(text: str) -> bool:
    """Return whether the text of an element binds as tightly as a name."""
    name, _, rest = text.partition("[")
    return name.isidentifier() and "[" not in rest and (not rest or rest.index("]") == len(rest) - 1)


def _split(address: Index) -> tuple[Index, int]:
    """Return an address as a part that variables decide and a constant."""
    if address.terms and not address.terms[-1][0]:
        return Index(address.terms[:-1]), address.terms[-1][1]
    return address, 0


def _accesses(body: Sequence[Statement]) -> Iterator[tuple[Buffer, Index]]:
    """Yield the elements that statements certainly use."""
    for statement in body:
        if isinstance(statement, (Let, Set, Store)):
            for leaf in statement.value.leaves:
                if isinstance(leaf, Load) and leaf.buffer.memory is not Memory.PRIVATE and not leaf.guards:
                    yield leaf.buffer, leaf.address
        if isinstance(statement, Store) and statement.buffer.memory is not Memory.PRIVATE:
            yield statement.buffer, statement.address
