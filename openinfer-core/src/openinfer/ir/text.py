"""Canonical program text of a graph (``specification: language.canonical``) and of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.graph import MemoryKind
from openinfer.ir.nodes import (
    ONE,
    Assign,
    Await,
    Barrier,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Loop,
    Op,
    Return,
    Single,
    Transfer,
    Yield,
)
from openinfer.ir.strings import quoted
from openinfer.ir.values import (
    Attrs,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    FloatValue,
    IntListValue,
    IntValue,
    Number,
    StrValue,
    UIntValue,
    VarValue,
)
from openinfer.scalars import shortest_float
from openinfer.symbolic import BinOp
from openinfer.symbolic import text as expression_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.graph import AttrArg, Block, Graph, VarDecl
    from openinfer.ir.nodes import CacheAccess, Node, NodeKind, Slice
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.scalars import Scalar
    from openinfer.symbolic import IntExpr


def graph_text(graph: Graph) -> str:
    """Return program text that parses back to an equal graph."""
    sections = [_section(kind, graph) for kind in MemoryKind]
    blocks = sorted(graph.blocks.values(), key=lambda block: block.name != "entry")
    return "\n".join([*filter(None, sections), *map(_block, blocks)])


def _section(kind: MemoryKind, graph: Graph) -> str:
    lines = [f"  {declaration_text(decl)}\n" for decl in graph.vars.values() if decl.kind is kind]
    return f"{kind.value} {{\n{''.join(lines)}}}\n" if lines else ""


def declaration_text(decl: VarDecl) -> str:
    """Return a declaration with its attributes in canonical order, such as ``x: f32[B] @init(0.0);``."""
    formals = f"({', '.join(decl.formals)})" if decl.formals else ""
    return " ".join([f"{decl.name}{formals}: {type_text(decl.dtype, decl.dims)}", *_attributes(decl)]) + ";"


def type_text(dtype: DType, dims: Sequence[IntExpr]) -> str:
    """Return an element type with extents, such as ``f32[B, 3*D]``."""
    return f"{dtype.name}[{', '.join(map(expression_text, dims))}]" if dims else dtype.name


def _attributes(decl: VarDecl) -> Iterator[str]:
    if decl.init is not None:
        yield f"@init({scalar_text(decl.dtype, decl.init)})"
    if decl.ref is not None:
        yield f"@ref({quoted(decl.ref)})"
    if decl.pattern is not None:
        yield f"@pattern({quoted(decl.pattern)})"
    if decl.table:
        yield "@table"
    if decl.auto_dim:
        yield f"@auto_dim({', '.join(decl.auto_dim)})"
    if decl.fixed:
        yield f"@fixed({', '.join(f'{name}={count}' for name, count in decl.fixed)})"
    for name, arguments in decl.attrs:
        yield f"@{name}({', '.join(map(_argument, arguments))})" if arguments else f"@{name}"


def _argument(argument: AttrArg) -> str:
    value = value_text(argument.value)
    return value if argument.name is None else f"{argument.name}={value}"


def scalar_text(dtype: DType, value: Scalar) -> str:
    """Return an element as a literal: the shortest float that rounds to it, an integer, or a truth value."""
    if dtype.is_float:
        return shortest_float(dtype, float(value))
    return _truth(value) if isinstance(value, bool) else str(value)


def _truth(value: bool) -> str:
    return "true" if value else "false"


def value_text(value: AttrValue) -> str:
    """Return the value of a setting, hint or attribute argument."""
    match value:
        case IntValue(number) | UIntValue(number):
            return str(number)
        case DoubleValue(number) | FloatValue(number):
            return _float(number)
        case BoolValue(truth):
            return _truth(truth)
        case StrValue(text):
            return quoted(text)
        case IntListValue(values):
            return f"[{', '.join(map(str, values))}]"
        case DoubleListValue(values):
            return f"[{', '.join(map(_float, values))}]"
        case VarValue(ref):
            return ref_text(ref)
        case DTypeValue(dtype):
            return dtype.name
        case DTypeListValue(dtypes):
            return f"[{', '.join(dtype.name for dtype in dtypes)}]"
        case ExprValue(expr):
            return expression_text(expr)
        case ExprListValue(exprs):
            return f"[{', '.join(map(expression_text, exprs))}]"


def _float(value: float) -> str:
    return "nan" if value != value else repr(value)


def ref_text(ref: Ref) -> str:
    """Return a variable or prefix table entry in its stored form, or a number: ``x``, ``QKV[l,h]``, ``0.5``."""
    if isinstance(ref, Number):
        return value_text(ref.value)
    return f"{ref.name}[{','.join(map(expression_text, ref.indices))}]" if ref.indices else ref.name


def call_text(op: str, inputs: Iterable[tuple[Ref, object | None]]) -> str:
    """Return an operator with its inputs and their types, where these are known: ``add(x: f32[4], W[l])``."""
    shown = (ref_text(ref) if type_ is None else f"{ref_text(ref)}: {type_}" for ref, type_ in inputs)
    return f"{op}({', '.join(shown)})"


def access_text(access: CacheAccess) -> str:
    """Return a cache access in its compact form: ``K``, ``K[]``, ``A[1,2..3]``, ``A[,3]``."""
    if not access.bracketed:
        return access.base
    slots = [_slot(slot) for slot in access.slots]
    return f"{access.base}[{'..' if slots == [''] else ','.join(slots)}]"


def _slot(slot: Single | Slice) -> str:
    if isinstance(slot, Single):
        return expression_text(slot.index)
    if slot.start is None and slot.end is None:
        return ""
    return "..".join(expression_text(bound) if bound is not None else "" for bound in (slot.start, slot.end))


def node_desc(node: Node) -> str:
    """Return the one-line description of a node (``specification: runtime.traces.5``), indices as written."""
    return kind_desc(node.kind)


def kind_desc(kind: NodeKind) -> str:
    """Return what `node_desc` says of a node of this kind."""
    return _description(kind, lambda op: ",".join(map(ref_text, op.inputs)))


def _description(kind: NodeKind, arguments: Callable[[Op], str]) -> str:  # noqa: C901
    match kind:
        case Assign(name):
            return f"assign {name}"
        case Op() as op:
            return f"op {op.op}({arguments(op)}) >> {', '.join(op.outputs)}"
        case Transfer(src, dst):
            return f"transfer {ref_text(src)} >> {dst}"
        case CacheRead(src, dst):
            return f"cache.read {access_text(src)} >> {dst}"
        case CacheWrite(src, dst):
            return f"cache.write {ref_text(src)} >> {access_text(dst)}"
        case CacheIncrement(target, amount):
            return f"cache.increment {_amount(amount)}{target}"
        case CacheDecrement(target, amount):
            return f"cache.decrement {_amount(amount)}{target}"
        case CacheReset(target):
            return f"cache.reset {access_text(target)}"
        case Branch(then_block, cond, else_block):
            return " ".join(filter(None, ["branch", cond, then_block, else_block]))
        case Loop() as loop:
            bounds = f"{expression_text(loop.start)}..{expression_text(loop.end)}"
            return f"loop {loop.name} ({loop.index} in {bounds})"
        case Barrier():
            return "barrier"
        case Dep(after, before):
            return f"dep after({after}) before({before})"
        case Yield(names):
            return f"yield {', '.join(names)}"
        case Await(names):
            return f"await {', '.join(names)}"
        case Return(names):
            return f"return {', '.join(names)}".rstrip()


def _amount(amount: IntExpr) -> str:
    """Return an amount with the space after it: an expression in parentheses, a number or name without."""
    if amount == ONE:
        return ""
    return f"({expression_text(amount)}) " if isinstance(amount, BinOp) else f"{expression_text(amount)} "


# Blocks


def _block(block: Block) -> str:
    lines = [f"block {block.name}{hints_text(block.hints)} {{"]
    lines += _statements(block.nodes, (), 1)
    return "\n".join([*lines, "}", ""])


def _statements(nodes: Sequence[Node], outer: tuple[str, ...], level: int) -> Iterator[str]:
    """Yield the lines of nodes inside the scopes ``outer``, opening and closing scopes as the nodes ask for."""
    opened: list[str] = []
    for node in nodes:
        scopes = list(node.scope[len(outer) :] if node.scope[: len(outer)] == outer else node.scope)
        shared = 0
        while shared < min(len(opened), len(scopes)) and opened[shared] == scopes[shared]:
            shared += 1
        while len(opened) > shared:
            opened.pop()
            yield _indented("}", level + len(opened))
        for name in scopes[shared:]:
            yield _indented(f"scope {quoted(name)} {{", level + len(opened))
            opened.append(name)
        yield from _statement(node, level + len(opened))
    while opened:
        opened.pop()
        yield _indented("}", level + len(opened))


def _statement(node: Node, level: int) -> Iterator[str]:
    kind = node.kind
    if isinstance(kind, Loop):
        yield _indented(f"{node_desc(node)}{hints_text(node.hints)} {{", level)
        yield from _statements(kind.body, node.scope, level + 1)
        yield _indented("}", level)
        return
    if isinstance(kind, Assign):
        yield _indented(f"assign {kind.name}: {type_text(kind.dtype, kind.dims)};", level)
        return
    yield _indented(f"{_description(kind, _call)}{hints_text(node.hints)};", level)


def _call(op: Op) -> str:
    settings = (f"{name}={value_text(value)}" for name, value in op.settings.items())
    return ", ".join([*map(ref_text, op.inputs), *settings])


def hints_text(hints: Attrs) -> str:
    """Return hints as they follow a statement, with a space in front; "" where there are none."""
    if not hints:
        return ""
    return f" with {{ {', '.join(f'{name} = {value_text(value)}' for name, value in hints.items())} }}"


def _indented(line: str, level: int) -> str:
    return "  " * level + line
