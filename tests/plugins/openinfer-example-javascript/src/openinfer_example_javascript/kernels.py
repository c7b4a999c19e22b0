"""Loop programs as JavaScript functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plugin import F32, F64, Notation, SynthesisError, linearise, loops, tree
from openinfer_example_javascript.scalars import expression, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTATION = Notation(
    variable=lambda var: f"n_{var.name}",
    quotient=lambda of, by: f"Math.floor(({of}) / ({by}))",
    remainder=lambda of, by: f"(({of}) % ({by}))",
    quotient_down=lambda of, by: f"Math.floor(({of}) / ({by}))",
    remainder_down=lambda of, by: f"((({of}) % ({by}) + ({by})) % ({by}))",
)
index, tests_of = NOTATION.index, NOTATION.tests


def function(name: str, kernel: loops.Kernel) -> list[str]:
    """Return a function whose parameters are the arrays of a kernel's buffers, and then its sizes.

    Raises:
        SynthesisError: the kernel is for a machine with threads.
    """
    writer = _Writer({buffer.name for buffer in kernel.buffers})
    writer.block(kernel.body)
    bits = [f"const {view} = raw({view.removesuffix('_bits')});" for view in writer.raw]
    names = [f"b_{buffer.name}" for buffer in kernel.buffers] + list(map(NOTATION.variable, kernel.parameters))
    return [f"function {name}({', '.join(names)}) {{", *bits, *writer.lines, "}"]


class _Writer:
    def __init__(self, operands: set[str]) -> None:
        self._operands = operands
        self.lines: list[str] = []
        self.raw: dict[str, None] = {}

    def block(self, body: Sequence[loops.Statement]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: loops.Statement) -> None:
        line = self.lines.append
        match statement:
            case loops.For(var, bind, body) if bind not in (loops.Bind.GROUP, loops.Bind.LOCAL):
                name = NOTATION.variable(var)
                self._nested(f"for (let {name} = 0; {name} < {NOTATION.extent(var)}; ++{name})", body)
            case loops.If(tests, body):
                self._nested(f"if ({tests_of(tests)})", body)
            case loops.Let(name, value) | loops.Set(name, value):
                line(f"{'let ' if isinstance(statement, loops.Let) else ''}r_{name} = {self._value(value)};")
            case loops.Lookup(var, value):
                line(f"const {NOTATION.variable(var)} = Number({self._value(value)});")
            case loops.Fail(refused, _):
                line(f'if ({self._value(refused)}) fail("an element");')
            case loops.Store(buffer, address, value):
                if not self._move(statement):
                    line(f"{buffer.dtype}.store(b_{buffer.name}, {index(address)}, {self._value(value)});")
            case loops.Alloc(buffer) if not buffer.dtype.is_packed:
                line(f"const b_{buffer.name} = new {buffer.dtype}.array(Math.max({index(buffer.size)}, 0));")
            case _:
                raise SynthesisError(f"{type(statement).__name__} has no form in JavaScript")

    def _nested(self, head: str, body: Sequence[loops.Statement]) -> None:
        self.lines.append(f"{head} {{")
        self.block(body)
        self.lines.append("}")

    def _move(self, store: loops.Store) -> bool:
        """Append the copy of a float's bits, if that is all that is stored: engines may change those of a NaN."""
        value = store.value
        leaf = value.leaves[0] if isinstance(value.expr, tree.Input) and value.dtype in (F32, F64) else None
        if not isinstance(leaf, loops.Load) or not {store.buffer.name, leaf.buffer.name} <= self._operands:
            return False
        target, source = (f"b_{buffer.name}_bits" for buffer in (store.buffer, leaf.buffer))
        self.raw |= {target: None, source: None}
        copied = f"{target}[{index(store.address)}] = {source}[{index(leaf.address)}];"
        if leaf.fill is not None:
            other = f"b_{store.buffer.name}[{index(store.address)}] = {literal(leaf.dtype, leaf.fill.value)};"
            copied = f"if ({tests_of(leaf.guards)}) {copied} else {other}"
        self.lines.append(copied)
        return True

    def _value(self, value: loops.Value) -> str:
        inputs = [self._leaf(leaf) for leaf in value.leaves]
        lines, result = expression(linearise(value.expr), inputs, f"t{len(self.lines)}_")
        self.lines += lines
        return result

    def _leaf(self, leaf: loops.Leaf) -> str:
        match leaf:
            case loops.Load(buffer, address, guards, fill):
                element = f"{buffer.dtype}.load(b_{buffer.name}, {index(address)})"
                return (
                    element if fill is None else f"{tests_of(guards)} ? {element} : {literal(fill.dtype, fill.value)}"
                )
            case loops.Register(name, _):
                return f"r_{name}"
            case loops.Number(place, dtype):
                return f"cast(i64, {dtype}, BigInt({index(place)}))"
            case loops.Across(name, buffer):
                return f"across(b_{buffer.name}, {buffer.dtype}.{name})"
