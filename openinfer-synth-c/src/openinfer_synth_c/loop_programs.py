"""Loop programs as C: loops over counters of type ``ptrdiff_t`` around scalar statements."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Var
from openinfer.dtypes import I64
from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.loops import Alloc, Barrier, Bind, Fail, For, If, Let, Load, Lookup, Number, Register, Set, Store
from openinfer_synth_c.elements import Bound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Within
    from openinfer.affine.index import Atom
    from openinfer.loops import Buffer, Kernel, Leaf, Statement, Value
    from openinfer_synth_c.code import Code


def write_kernel(code: Code, kernel: Kernel, operands: Mapping[str, Bound]) -> None:
    """Append a loop program. ``operands`` has what stands for each of its buffers, by name.

    A failed test returns ``MODEL_INDEX`` from the function around it.

    Raises:
        SynthesisError: the program has sizes that are known at run time only, or a construct of another machine.
    """
    if kernel.parameters:
        names = ", ".join(var.name for var in kernel.parameters)
        raise SynthesisError(f"{kernel.name} depends on {names} at run time, which the target c has no form for yet")
    _Writer(code, dict(operands)).block(kernel.body)


_OWN_NAME = re.compile(r"i\d+(_\d+)?")
"""Names of variables that definitions of operators are given: words that the rest of the source does not use."""


class _Writer:
    """Appends statements; other names of the loop program get a prefix each, so that none is a word of C."""

    def __init__(self, code: Code, operands: dict[str, Bound]) -> None:
        self._code = code
        self._operands = operands
        self._numbers = count()

    def block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        code = self._code
        match statement:
            case For(_, Bind.GROUP | Bind.LOCAL, _):
                raise SynthesisError("a loop program with threads has no form in C")
            case For(var, _, body):
                name = _counter(var)
                with code.braces(f"for (ptrdiff_t {name} = 0; {name} < {_extent(var)}; ++{name})"):
                    self.block(body)
            case If(tests, body):
                with code.braces(f"if ({_tests(tests)})"):
                    self.block(body)
            case Let(name, value):
                code.line(f"{c_type(value.dtype)} {_register(name)} = {self._value(value)};")
            case Set(name, value):
                code.line(f"{_register(name)} = {self._value(value)};")
            case Lookup(var, value):
                code.line(f"const ptrdiff_t {_counter(var)} = (ptrdiff_t){self._value(value)};")
            case Fail(refused, _):
                code.line(f"if ({self._value(refused)}) {{ return MODEL_INDEX; }}")
            case Store(buffer, address, value):
                self._operands[buffer.name].store(_address_text(buffer, address), self._value(value))
            case Alloc(buffer):
                self._allocate(buffer)
            case Barrier():
                raise SynthesisError("a loop program with threads has no form in C")

    def _allocate(self, buffer: Buffer) -> None:
        size = buffer.size.constant
        if size is None or buffer.dtype.is_packed:
            raise SynthesisError(f"the buffer {buffer.name} of {buffer.size} {buffer.dtype} has no form in C")
        name = f"b_{buffer.name}"
        self._code.scratch(c_type(buffer.dtype), name, size)
        self._operands[buffer.name] = Bound(name, TensorType(buffer.dtype, (size,)), self._code)

    def _value(self, value: Value) -> str:
        """Append what computes a value; return the text of its result."""
        inputs = {number: self._leaf(leaf) for number, leaf in enumerate(value.leaves)}
        return self._code.compute(linearise(value.expr), inputs, f"v{next(self._numbers)}_")

    def _leaf(self, leaf: Leaf) -> str:
        match leaf:
            case Load(buffer, address, guards, fill):
                element = self._operands[buffer.name].at(_address_text(buffer, address))
                return (
                    element
                    if fill is None
                    else f"{_tests(guards)} ? {element} : {literal_text(fill.dtype, fill.value)}"
                )
            case Register(name, _):
                return _register(name)
            case Number(index, dtype):
                return self._code.cast(f"((int64_t)({_index_text(index)}))", I64, dtype)
            case _:
                raise SynthesisError("a loop program with lanes has no form in C yet")


def _counter(var: Var) -> str:
    return var.name if _OWN_NAME.fullmatch(var.name) else f"n_{var.name}"


def _register(name: str) -> str:
    return f"r_{name}"


def _extent(var: Var) -> str:
    return _index_text(var.extent) if isinstance(var.extent, Index) else str(var.extent)


def _address_text(buffer: Buffer, address: Index) -> str:
    """Return an address; functions that find elements of packed types take a ``size_t``."""
    text = _index_text(address)
    return f"(size_t)({text})" if buffer.dtype.is_packed else text


def _tests(tests: Sequence[Within]) -> str:
    """Return the tests that are not certain to hold."""
    texts: list[str] = []
    for test in tests:
        low, slack = test.index.interval.low, (test.extent - 1 - test.index).interval.low
        index = _index_text(test.index)
        texts += [f"{index} >= 0"] if low is None or low < 0 else []
        texts += [f"{index} < {_index_text(test.extent)}"] if slack is None or slack < 0 else []
    return " && ".join(texts) or "true"


def _index_text(index: Index) -> str:
    """Return an index as a C expression of signed integers."""
    if not index.terms:
        return "0"
    first, *others = [_term_text(atoms, factor) for atoms, factor in index.terms]
    return first + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)


def _term_text(atoms: tuple[Atom, ...], factor: int) -> str:
    product = " * ".join(map(_atom_text, atoms))
    if not atoms:
        return str(factor)
    if abs(factor) != 1:
        return f"{factor} * {product}"
    return product if factor > 0 else f"-{product}"


def _atom_text(atom: Atom) -> str:
    """Return a variable, or a quotient rounded down: C rounds toward zero, which differs below zero."""
    if isinstance(atom, Var):
        return _counter(atom)
    of, by = _index_text(atom.of), _index_text(atom.by)
    low = atom.of.interval.low
    if low is not None and low >= 0:
        return f"(({of}) {'/' if isinstance(atom, Quotient) else '%'} ({by}))"
    if isinstance(atom, Quotient):
        return f"(({of}) >= 0 ? ({of}) / ({by}) : -((({by}) - 1 - ({of})) / ({by})))"
    return f"((({of}) % ({by}) + ({by})) % ({by}))"
