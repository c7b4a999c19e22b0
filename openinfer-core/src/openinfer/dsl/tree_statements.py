"""From the matcher's trees to statements and block heads of the syntax tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dsl.syntax import (
    AssignStatement,
    LoopStatement,
    OpStatement,
    Place,
    ScopeStatement,
    Setting,
    Statement,
    Word,
)
from openinfer.dsl.tree_values import (
    dims_of,
    expression_of,
    hints_of,
    integer_of,
    listed,
    names_of,
    optional,
    place_of,
    place_without_last,
    reference_of,
    setting_of,
    signed_of,
    target_of,
    text_of,
    word_of,
)
from openinfer.ir.nodes import (
    Await,
    Barrier,
    Branch,
    CacheAccess,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Return,
    Single,
    Slice,
    Transfer,
    Yield,
)
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dsl.grammar import Tree
    from openinfer.dsl.syntax import Body
    from openinfer.ir.values import Ref
    from openinfer.symbolic import IntExpr


def statement_of(tree: Tree) -> Statement:
    """Return the statement of a tree; the body of a loop or scope is still empty."""
    body, hints = _BODIES[tree.expr_name](tree)
    return Statement(body, hints, place_without_last(tree))


def block_header(tree: Tree) -> tuple[Word, tuple[Setting, ...], Place]:
    """Return name, hints and place of a block's head."""
    _, name, hints, _ = tree.children
    return word_of(name), hints_of(hints), place_without_last(tree)


_Parts = tuple["Body", tuple[Setting, ...]]


def _assign(tree: Tree) -> _Parts:
    _, name, _, dtype, dims, _ = tree.children
    return AssignStatement(text_of(name), word_of(dtype), dims_of(dims)), ()


def _op(tree: Tree) -> _Parts:
    _, name, _, inner, _, _, first, rest, hints, _ = tree.children
    given = optional(inner)
    arguments = listed(given.children[0], given.children[1]) if given is not None else ()
    outputs = tuple(text_of(output) for output in listed(first, rest))
    return OpStatement(text_of(name), tuple(map(_argument, arguments)), outputs), hints_of(hints)


def _argument(tree: Tree) -> tuple[Ref, Place] | Setting:
    chosen = tree.children[0]
    return setting_of(chosen) if chosen.expr_name == "setting" else (reference_of(chosen), place_of(chosen))


def _transfer(tree: Tree) -> _Parts:
    _, source, _, target, hints, _ = tree.children
    return Transfer(reference_of(source), text_of(target)), hints_of(hints)


def access_of(tree: Tree) -> CacheAccess:
    """Return the cache access of an ``access`` tree."""
    name, slots = tree.children
    bracketed = optional(slots)
    if bracketed is None:
        return CacheAccess(text_of(name))
    _, first, rest, _ = bracketed.children
    written = [optional(first), *(optional(pair.children[1]) for pair in rest.children)]
    if written == [None]:
        return CacheAccess(text_of(name), bracketed=True)
    return CacheAccess(text_of(name), bracketed=True, slots=tuple(_slot(slot) for slot in written))


def _slot(tree: Tree | None) -> Single | Slice:
    if tree is None:
        return Slice()
    chosen = tree.children[0]
    if chosen.expr_name == "index":
        return Single(_index(chosen))
    start, _, end = (optional(part) for part in chosen.children)
    return Slice(_index(start) if start is not None else None, _index(end) if end is not None else None)


def _index(tree: Tree) -> IntExpr:
    chosen = tree.children[0]
    return Const(signed_of(chosen)) if chosen.expr_name == "minus" else expression_of(chosen)


def _cache_read(tree: Tree) -> _Parts:
    _, _, _, access, _, target, hints, _ = tree.children
    return CacheRead(access_of(access), text_of(target)), hints_of(hints)


def _cache_write(tree: Tree) -> _Parts:
    _, _, _, source, _, access, hints, _ = tree.children
    return CacheWrite(reference_of(source), access_of(access)), hints_of(hints)


def _amount(tree: Tree) -> tuple[str, int, tuple[Setting, ...]]:
    _, _, _, amount, name, hints, _ = tree.children
    given = optional(amount)
    return text_of(name), integer_of(given) if given is not None else 1, hints_of(hints)


def _increment(tree: Tree) -> _Parts:
    name, amount, hints = _amount(tree)
    return CacheIncrement(name, amount), hints


def _decrement(tree: Tree) -> _Parts:
    name, amount, hints = _amount(tree)
    return CacheDecrement(name, amount), hints


def _reset(tree: Tree) -> _Parts:
    _, _, _, access, hints, _ = tree.children
    return CacheReset(access_of(access)), hints_of(hints)


def _branch(tree: Tree) -> _Parts:
    _, first, rest, _ = tree.children
    blocks = optional(rest)
    if blocks is None:
        return Branch(text_of(first)), ()
    then_block, else_block = (text_of(name) for name in blocks.children)
    return Branch(then_block, text_of(first), else_block), ()


def _loop(tree: Tree) -> _Parts:
    _, name, _, index, _, start, _, end, _, hints, _ = tree.children
    return LoopStatement(text_of(name), text_of(index), expression_of(start), expression_of(end), ()), hints_of(hints)


def _scope(tree: Tree) -> _Parts:
    _, name, hints, _ = tree.children
    return ScopeStatement(target_of(name), ()), hints_of(hints)


def _dep(tree: Tree) -> _Parts:
    return Dep(_dotted(tree.children[3]), _dotted(tree.children[7])), ()


def _dotted(tree: Tree) -> str:
    name, rest = tree.children
    member = optional(rest)
    return text_of(name) if member is None else f"{text_of(name)}.{text_of(member.children[1])}"


def _return(tree: Tree) -> _Parts:
    given = optional(tree.children[1])
    names = listed(given.children[0], given.children[1]) if given is not None else ()
    return Return(tuple(text_of(name) for name in names)), ()


def _texts(tree: Tree) -> tuple[str, ...]:
    return tuple(word.text for word in names_of(tree))


_BODIES: dict[str, Callable[[Tree], _Parts]] = {
    "assign": _assign,
    "op": _op,
    "transfer": _transfer,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "cache_increment": _increment,
    "cache_decrement": _decrement,
    "cache_reset": _reset,
    "branch": _branch,
    "loop": _loop,
    "scope": _scope,
    "barrier": lambda _: (Barrier(), ()),
    "dep": _dep,
    "yield": lambda tree: (Yield(_texts(tree.children[1])), ()),
    "await": lambda tree: (Await(_texts(tree.children[1])), ()),
    "return": _return,
}
