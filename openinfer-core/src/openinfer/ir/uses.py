"""Which names a statement reads and writes, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.language import with_variables
from openinfer.ir.nodes import (
    Assign,
    Await,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Loop,
    Op,
    Return,
    Transfer,
    Yield,
)
from openinfer.ir.values import ExprListValue, ExprValue, VarValue
from openinfer.symbolic import names as names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.nodes import CacheAccess, Node, NodeKind
    from openinfer.ir.places import Place
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.symbolic import IntExpr


def reads(node: Node) -> frozenset[str]:
    """Return every name that a statement itself reads (not what a loop body or a called block reads).

    Names inside indices, bounds and settings count; some of them may be sizes or loop indices. A number counts where a
    constant holds it.
    """
    kind = node.kind
    if isinstance(kind, Op) and not kind.settings:
        names = frozenset([ref.name for ref in kind.inputs if ref.name])
        return names.union(*(names_in(index) for ref in kind.inputs for index in ref.indices))
    return frozenset(_reads(node))


def _reads(node: Node) -> Iterator[str]:
    match node.kind:
        case Op(_, inputs, _, settings):
            for ref in inputs:
                yield from _ref(ref)
            for name, value in settings.items():
                yield from _value(name, value)
        case Transfer(src):
            yield from _ref(src)
        case CacheRead(access) | CacheReset(access):
            yield from _access(access)
        case CacheWrite(src, access):
            yield from _ref(src)
            yield from _slots(access)
        case CacheIncrement(target, amount) | CacheDecrement(target, amount):
            yield target
            yield from names_in(amount)
        case Branch(_, cond) if cond is not None:
            yield cond
        case Loop(_, _, start, end):
            yield from names_in(start)
            yield from names_in(end)
        case Return(names):
            yield from names
        case _:
            pass


def _ref(ref: Ref) -> Iterator[str]:
    if ref.name:
        yield ref.name
    for index in ref.indices:
        yield from names_in(index)


def _value(setting: str, value: AttrValue) -> Iterator[str]:
    value = with_variables(setting, value)
    if isinstance(value, VarValue):
        yield from _ref(value.ref)
    elif isinstance(value, ExprValue):
        yield from names_in(value.expr)
    elif isinstance(value, ExprListValue):
        for expr in value.exprs:
            yield from names_in(expr)


def _access(access: CacheAccess) -> Iterator[str]:
    yield access.base
    yield from _slots(access)


def _slots(access: CacheAccess) -> Iterator[str]:
    for bound in access.expressions():
        yield from names_in(bound)


def expressions(node: Node) -> Iterator[IntExpr]:
    """Yield the integer expressions of a statement: dimensions, indices, bounds, values of settings."""
    match node.kind:
        case Assign(_, _, dims):
            yield from dims
        case Op(_, inputs, _, settings):
            yield from (index for ref in inputs for index in ref.indices)
            for name, value in settings.items():
                yield from _expressions_of(name, value)
        case Transfer(src):
            yield from src.indices
        case CacheRead(access) | CacheReset(access):
            yield from access.expressions()
        case CacheWrite(src, access):
            yield from src.indices
            yield from access.expressions()
        case CacheIncrement(_, amount) | CacheDecrement(_, amount):
            yield amount
        case Loop(_, _, start, end):
            yield from (start, end)
        case _:
            pass


def _expressions_of(setting: str, value: AttrValue) -> tuple[IntExpr, ...]:
    value = with_variables(setting, value)
    if isinstance(value, VarValue):
        return value.ref.indices
    if isinstance(value, ExprValue):
        return (value.expr,)
    return value.exprs if isinstance(value, ExprListValue) else ()


def writes(node: Node) -> frozenset[str]:
    """Return every variable that a statement itself writes."""
    match node.kind:
        case Assign(name):
            return frozenset({name})
        case Op(_, _, outputs):
            return frozenset(outputs)
        case Transfer(_, dst) | CacheRead(_, dst):
            return frozenset({dst})
        case CacheWrite(_, access) | CacheReset(access):
            return frozenset({access.base})
        case CacheIncrement(target) | CacheDecrement(target):
            return frozenset({target})
        case _:
            return frozenset()


def operands(node: Node) -> tuple[str, ...]:
    """Return the names that a statement itself reads or writes as they are, in the order written.

    Names inside indices, bounds and settings are left out: what they mean depends on types and sizes. So are numbers.
    """
    read, written, _ = _written_order(node.kind)
    return tuple(filter(None, read)) + written


def place_of_use(node: Node, name: str) -> Place | None:
    """Return the first place of a statement's text, if it has one, that stands for a variable."""
    if node.places is None:
        return None
    read, written, named = _written_order(node.kind)
    for names, places in ((read, node.places.reads), (written, node.places.writes), (named, node.places.operands)):
        if name in names and len(places) == len(names):
            return places[names.index(name)]
    if isinstance(node.kind, Op):
        for setting, value in node.kind.settings.items():
            if name in _value(setting, value) and setting in node.places.settings:
                return node.places.settings[setting][1]
    return None


def _written_order(kind: NodeKind) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the names whose places are those of what is read, what is written, and the operands."""
    match kind:
        case Op(_, inputs, outputs):
            return tuple(ref.name for ref in inputs), outputs, ()
        case Transfer(src, dst):
            return (src.name,), (dst,), ()
        case CacheRead(src, dst):
            return (src.base,), (dst,), ()
        case CacheWrite(src, dst):
            return (src.name,), (dst.base,), ()
        case CacheReset(target):
            return (), (target.base,), ()
        case CacheIncrement(target) | CacheDecrement(target) | Assign(target):
            return (), (target,), ()
        case Branch(_, cond) if cond is not None:
            return (cond,), (), ()
        case Yield(names) | Await(names) | Return(names):
            return (), (), names
        case _:
            return (), (), ()
