"""Loops over lanes as C: statement by statement, each for all lanes.

That is the same as lane by lane, since no lane uses what another writes (`openinfer.loops.races`). A statement is one
on whole vectors, or a short loop of constant length where lanes differ in more than values; what is the same in all
lanes is computed before it, once.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from openinfer.dtypes import I8, I32
from openinfer.expr import tree
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type
from openinfer.expr.linear import linearise
from openinfer.loops import If, Let, Load, Memory, Register, Set, Store, Value
from openinfer.loops.joined_lanes import joined_lanes, joined_term
from openinfer_synth_c.loop_programs.addresses import address_text, counter, loop_head, register, tests_text
from openinfer_synth_c.loop_programs.formulas import formula, repeated_formulas
from openinfer_synth_c.loop_programs.helium import WORDS, dot_product_of_bytes, narrow_store
from openinfer_synth_c.loop_programs.lane_names import Form, Lanes
from openinfer_synth_c.loop_programs.lane_values import lane_value
from openinfer_synth_c.loop_programs.lanes import bytes_of_sum, has_vector_type, is_set, sum_of_product, tests_vary
from openinfer_synth_c.loop_programs.vector_functions import added_product
from openinfer_synth_c.loop_programs.vector_types import store, vector_type
from openinfer_synth_c.loop_programs.vector_values import is_choice, roundings, vector_value
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.affine import Index, Within
    from openinfer.expr.linear import Program
    from openinfer.loops import Buffer, Statement


@dataclass(slots=True)
class LaneLoop(Lanes):
    """Writes the body of one loop over lanes."""

    _repeated: frozenset[Program] = field(init=False)
    _joined: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        # Not by super(): the decorator makes another class, with slots, and super() would look for the first one.
        Lanes.__post_init__(self)
        stored = [self._widened_store(statement) for statement in self.body]
        self._repeated = repeated_formulas(stored, self.count)
        self._joined = joined_lanes(self.body)

    def _widened(self, value: Value) -> Value | None:
        """Return the vector of i32 of which a value has the low bytes, where one instruction stores these."""
        match value.expr:
            case tree.Apply("cast", (wide,), dtype) if dtype is I8 and wide.dtype is I32:
                return Value(wide, value.leaves) if self.places.code.has_helium and self.count == WORDS else None
            case _:
                return None

    def _widened_store(self, statement: Statement) -> Statement:
        wide = self._widened(statement.value) if isinstance(statement, Store) else None
        return statement if wide is None or not isinstance(statement, Store) else replace(statement, value=wide)

    def write(self, *, in_braces: bool = True) -> None:
        """Append the statements, in braces if they name anything and others are next to them."""
        with self.places.pointers(self.body, self.lane):
            self._block(self.body, (), "", in_braces=in_braces)

    @property
    def is_plain(self) -> bool:
        """Whether the loop is written as one over elements, each of which is stored for itself."""
        return all(isinstance(statement, Store) and self._is_plain(statement.value) for statement in self.body)

    def _block(
        self, body: Sequence[Statement], tests: tuple[Within, ...], head: str, *, in_braces: bool = True
    ) -> None:
        names_any = in_braces and any(isinstance(statement, Let) for statement in body)
        with self.places.code.braces(head) if head or names_any else nullcontext():
            for value, statements in groupby(body, lambda statement: self._common_value(statement, tests)):
                if value is not None:
                    stores = (statement for statement in statements if isinstance(statement, Store))
                    self._set_all([self.places.vectors[store.buffer.name] for store in stores], value)
                    continue
                for statement in statements:
                    self._statement(statement, tests)

    def _common_value(self, statement: Statement, tests: tuple[Within, ...]) -> Value | None:
        """Return what a statement stores in a vector, where it reads no vector that statements before it store."""
        if tests or not isinstance(statement, Store) or statement.buffer.name not in self.places.vectors:
            return None
        loads = (leaf for leaf in statement.value.leaves if isinstance(leaf, Load))
        return None if any(load.buffer.memory is Memory.PRIVATE for load in loads) else statement.value

    def _set_all(self, vectors: Sequence[str], value: Value) -> None:
        """Append the assignment of one value to several vectors."""
        text = self._vector(value)
        if text is not None:
            self.places.code.listed("", (*vectors, text), " = ", ";")
            return
        self._assign(vectors[0], value, ())
        if len(vectors) > 1:
            self.places.code.listed("", (*vectors[1:], vectors[0]), " = ", ";")

    def _statement(self, statement: Statement, tests: tuple[Within, ...]) -> None:
        match statement:
            case If(more, body):
                same = [test for test in more if not tests_vary((test,), self.lane)]
                differ = [test for test in more if tests_vary((test,), self.lane)]
                self._block(body, (*tests, *differ), f"if ({tests_text(same)})" if same else "")
            case Let(name, value):
                self._let(name, value, tests)
            case Set(name, value):
                self._set(name, value, tests)
            case Store(buffer, address, value):
                self._store(buffer, address, value, tests)
            case _:
                raise AssertionError(f"{type(statement).__name__} in a loop over lanes: verify the loop program")

    # --- Statements ---------------------------------------------------------------------------------------------

    def _let(self, name: str, value: Value, tests: tuple[Within, ...]) -> None:
        code, kind = self.places.code, c_type(value.dtype)
        if name not in self.varying:
            const = "" if is_set(self.body, name) else "const "
            code.line(f"{const}{kind} {register(name)} = {self._uniform(value)};")
            return
        if not tests and has_vector_type(value.dtype, self.count):
            self._let_vector(name, value)
            return
        self.forms[name] = Form.ARRAY
        # Compilers do not know that lanes without a value are unused, nor analysers that a loop sets all lanes.
        code.line(f"{kind} {register(name)}[{self.count}] = {{0}};")
        self._set(name, value, tests)

    def _let_vector(self, name: str, value: Value) -> None:
        self.forms[name] = Form.VECTOR
        kind, text = vector_type(self.places.code, value.dtype, self.count), self._vector(value)
        if text is not None:
            const = "" if is_set(self.body, name) else "const "
            self.places.code.line(f"{const}{kind} {register(name)} = {text};")
            return
        self.places.code.line(f"{kind} {register(name)};")
        self._assign(register(name), value, ())

    def _set(self, name: str, value: Value, tests: tuple[Within, ...]) -> None:
        code, place = self.places.code, register(name)
        if name in self._joined:
            self._join(name, value, tests)
            return
        if name not in self.varying:
            code.assign(place, self._uniform(value))
            return
        if self.forms[name] is Form.VECTOR:
            self._assign(place, value, tests)
            return
        element = f"{place}[{counter(self.lane)}]"
        self._over_lanes(value, tests, lambda text: f"{element} = {text};")

    def _join(self, name: str, value: Value, tests: tuple[Within, ...]) -> None:
        """Append the addition of all lanes to a total."""
        factors = None if tests else bytes_of_sum(value)
        vectors = () if factors is None else tuple(self._vector(factor) for factor in factors)
        function = dot_product_of_bytes(self.places.code, self.count) if all(vectors) and vectors else None
        if function is not None:
            self.places.code.line(f"{register(name)} = {function}({register(name)}, {', '.join(map(str, vectors))});")
            return
        total, term = register(name), joined_term(value, name)
        if term is None:
            raise AssertionError(f"{name} is not one to which lanes are added")
        types = (value.dtype, value.dtype)

        def added(text: str) -> str:
            return self.places.code.noted(call_text("add", types, value.dtype, (total, text)))

        self._over_lanes(term, tests, lambda text: f"{total} = {added(text)};")

    def _store(self, buffer: Buffer, address: Index, value: Value, tests: tuple[Within, ...]) -> None:
        vector = self.places.vectors.get(buffer.name)
        if vector is not None:
            self._assign(vector, value, tests)
            return
        row = None if self._is_plain(value) else self.row(buffer, address)
        wide = self._widened(value)
        if not tests and row is not None and wide is not None:
            text = self._vector(wide)
            if text is not None:
                self.places.code.line(narrow_store(self.places.code, row, text))
                return
        if not tests and row is not None and has_vector_type(value.dtype, self.count):
            text = self._vector(value)
            if text is not None:
                self.places.code.line(store(self.places.code, value.dtype, self.count, row, text))
                return
        bound, index = self.places.element(buffer, address)
        self._over_lanes(value, tests, lambda text: bound.store_text(address_text(buffer, index), text))

    def _is_plain(self, value: Value) -> bool:
        """Return whether compilers make better code of a loop over elements in memory than of structures with lanes.

        They do of bytes that are rounded: of structures they test lane by lane what lies outside of the limits.
        """
        if self.places.code.has_vector_types or not roundings(linearise(value.expr).instructions):
            return False
        return not any(isinstance(leaf, Register) and self.is_varying(leaf) for leaf in value.leaves) and not any(
            map(self.vector_of, value.leaves)
        )

    def _assign(self, place: str, value: Value, tests: tuple[Within, ...]) -> None:
        """Append the assignment of a vector."""
        if not tests and self._add_product(place, value):
            return
        text = None if tests else self._vector(value)
        if text is not None:
            self.places.code.line(f"{place} = {text};")
            return
        code = self.places.code
        lanes = f"v{self.places.fresh()}"
        with code.braces():
            code.line(f"{c_type(value.dtype)} {lanes}[{self.count}] = {{0}};")
            if tests:
                code.line(f"memcpy({lanes}, &{place}, sizeof {lanes});")
            self._over_lanes(value, tests, lambda text: f"{lanes}[{counter(self.lane)}] = {text};")
            code.line(f"memcpy(&{place}, {lanes}, sizeof {lanes});")

    def _add_product(self, place: str, value: Value) -> bool:
        """Append a product added to a vector, if the assignment has that form."""
        parts = sum_of_product(value)
        if parts is None or not has_vector_type(value.dtype, self.count):
            return False
        is_fused = isinstance(value.expr, tree.Apply) and value.expr.function == "fma"
        a, b, total = parts
        if not self.is_varying(b.leaves[0]):
            a, b = b, a
        if not self.is_varying(b.leaves[0]) or self.vector_of(total.leaves[0]) != place:
            return False
        is_scalar = not self.is_varying(a.leaves[0])
        code = self.places.code
        mark = code.mark()
        first = self._uniform(a) if is_scalar else self._vector(a)
        second = self._vector(b)
        if first is None or second is None:
            code.cut(mark)
            return False
        function = added_product(code, value.dtype, self.count, is_fused=is_fused, is_scalar=is_scalar)
        code.line(f"{function}(&{place}, {first}, {second});")
        return True

    # --- Values in all lanes --------------------------------------------------------------------------------------

    def _uniform(self, value: Value) -> str:
        """Append what computes a value that is the same in all lanes; return its text."""
        return self.places.named_scalar(value, self.scalar_leaf)

    def _over_lanes(self, value: Value, tests: tuple[Within, ...], last: Callable[[str], str]) -> None:
        """Append a loop that computes a value for each lane; ``last`` is the statement that uses its text."""
        code = self.places.code
        statements, text = lane_value(self, value, tests)
        lines = [*statements, last(text)]
        if tests:
            lines = [f"if ({tests_text(tests)}) {{", *(f"    {line}" for line in lines), "}"]
        head = rolled(loop_head(self.lane))
        if len(lines) == 1:
            code.line(f"{head} {{ {lines[0]} }}")
            return
        with code.braces(head):
            code.line(*lines)

    def _vector(self, value: Value) -> str | None:
        """Append what computes a value as a vector; return its text, None where it has no such form."""
        program = linearise(value.expr)
        if program in self._repeated:
            leaves = (value.leaves[number] for number in program.inputs)
            given = [self._vector(Value(tree.Input(0, leaf.dtype), (leaf,))) or "" for leaf in leaves]
            return f"{formula(self.places.code, program, self.count)}({', '.join(given)})"
        instructions = program.instructions
        varying = [False] * len(instructions)
        for number, step in enumerate(instructions):
            if step.function == "input":
                varying[number] = self.is_varying(value.leaves[step.index])
            else:
                varying[number] = any(varying[operand] for operand in step.operands)
            is_vector = has_vector_type(step.dtype, self.count) or is_choice(instructions, number)
            if varying[number] and not is_vector:
                return None
        return vector_value(self, value, varying)
