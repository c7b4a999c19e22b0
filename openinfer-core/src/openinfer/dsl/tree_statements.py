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
)
from openinfer.dsl.tree_values import (
    dim_places,
    dims_of,
    expression_of,
    hints_of,
    listed,
    names_of,
    number_of,
    optional,
    place_of,
    place_without_last,
    places_of,
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
from openinfer.ir.places import Places
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openinfer.dsl.grammar import Tree
    from openinfer.dsl.syntax import Body, Word
    from openinfer.ir.places import NamedPlaces
    from openinfer.ir.values import Ref
    from openinfer.symbolic import IntExpr


def statement_of(tree: Tree) -> Statement:
    """Return the statement of a tree; the body of a loop or scope is still empty."""
    body, hints, places = _BODIES[tree.expr_name](tree)
    return Statement(body, hints, place_without_last(tree), places)


def block_header(tree: Tree) -> tuple[Word, tuple[Setting, ...], Place]:
    """Return name, hints and place of a block's head."""
    _, name, hints, _ = tree.children
    return word_of(name), hints_of(hints), place_without_last(tree)


_Parts = tuple["Body", tuple[Setting, ...], Places]


def _named(settings: Iterable[Setting]) -> NamedPlaces:
    return {s.name.text: (s.name.place, s.value.place) for s in settings if s.name is not None}


def _assign(tree: Tree) -> _Parts:
    _, name, _, dtype, dims, _ = tree.children
    places = Places(writes=(place_of(name),), operands=dim_places(dims))
    return AssignStatement(text_of(name), word_of(dtype), dims_of(dims)), (), places


def _op(tree: Tree) -> _Parts:
    _, name, _, inner, _, _, _, _, hints, _ = tree.children
    arguments = tuple(map(_argument, listed(optional(inner))))
    outputs = [word_of(output) for output in listed(tree, 6)]
    known = hints_of(hints)
    places = Places(
        name=place_of(name),
        reads=tuple(argument[1] for argument in arguments if not isinstance(argument, Setting)),
        writes=tuple(output.place for output in outputs),
        settings=_named(argument for argument in arguments if isinstance(argument, Setting)),
        hints=_named(known),
    )
    return OpStatement(text_of(name), arguments, tuple(output.text for output in outputs)), known, places


def _argument(tree: Tree) -> tuple[Ref, Place] | Setting:
    chosen = tree.children[0]
    if chosen.expr_name == "setting":
        return setting_of(chosen)
    return (number_of(chosen) if chosen.expr_name == "literal" else reference_of(chosen)), place_of(chosen)


def _copying(read: Tree, written: Tree, hints: tuple[Setting, ...]) -> Places:
    return Places(reads=(place_of(read),), writes=(place_of(written),), hints=_named(hints))


def _transfer(tree: Tree) -> _Parts:
    _, source, _, target, hints, _ = tree.children
    known = hints_of(hints)
    return Transfer(reference_of(source), text_of(target)), known, _copying(source, target, known)


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
    known = hints_of(hints)
    return CacheRead(access_of(access), text_of(target)), known, _copying(access, target, known)


def _cache_write(tree: Tree) -> _Parts:
    _, _, _, source, _, access, hints, _ = tree.children
    known = hints_of(hints)
    return CacheWrite(reference_of(source), access_of(access)), known, _copying(source, access, known)


def _counter(kind: type[CacheIncrement | CacheDecrement]) -> Callable[[Tree], _Parts]:
    def read(tree: Tree) -> _Parts:
        chosen = tree.children[3].children[0]
        name, hints = chosen.children[-3], chosen.children[-2]
        given = chosen.children[0] if chosen.expr_name == "amount_of" else None
        known = hints_of(hints)
        operands = () if given is None else (place_of(given),)
        places = Places(writes=(place_of(name),), operands=operands, hints=_named(known))
        return kind(text_of(name), Const(1) if given is None else expression_of(given)), known, places

    return read


def _reset(tree: Tree) -> _Parts:
    _, _, _, access, hints, _ = tree.children
    known = hints_of(hints)
    return CacheReset(access_of(access)), known, Places(writes=(place_of(access),), hints=_named(known))


def _branch(tree: Tree) -> _Parts:
    _, first, rest, _ = tree.children
    blocks = optional(rest)
    if blocks is None:
        return Branch(text_of(first)), (), Places(operands=(place_of(first),))
    then_block, else_block = (text_of(name) for name in blocks.children)
    places = Places(reads=(place_of(first),), operands=places_of(blocks.children))
    return Branch(then_block, text_of(first), else_block), (), places


def _loop(tree: Tree) -> _Parts:
    _, name, _, index, _, start, _, end, _, hints, _ = tree.children
    known = hints_of(hints)
    places = Places(place_of(name), writes=(place_of(index),), operands=places_of((start, end)), hints=_named(known))
    head = LoopStatement(text_of(name), text_of(index), expression_of(start), expression_of(end), ())
    return head, known, places


def _scope(tree: Tree) -> _Parts:
    _, name, hints, _ = tree.children
    known = hints_of(hints)
    return ScopeStatement(target_of(name), ()), known, Places(hints=_named(known))


def _dep(tree: Tree) -> _Parts:
    targets = (tree.children[3], tree.children[7])
    return Dep(*map(_dotted, targets)), (), Places(operands=places_of(targets))


def _dotted(tree: Tree) -> str:
    name, rest = tree.children
    member = optional(rest)
    return text_of(name) if member is None else f"{text_of(name)}.{text_of(member.children[1])}"


def _return(tree: Tree) -> _Parts:
    names, places = _names(optional(tree.children[1]))
    return Return(names), (), places


def _yield(tree: Tree) -> _Parts:
    names, places = _names(tree.children[1])
    return Yield(names), (), places


def _await(tree: Tree) -> _Parts:
    names, places = _names(tree.children[1])
    return Await(names), (), places


def _names(tree: Tree | None) -> tuple[tuple[str, ...], Places]:
    words = names_of(tree)
    return tuple(word.text for word in words), Places(operands=tuple(word.place for word in words))


_BODIES: dict[str, Callable[[Tree], _Parts]] = {
    "assign": _assign,
    "op": _op,
    "transfer": _transfer,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "cache_increment": _counter(CacheIncrement),
    "cache_decrement": _counter(CacheDecrement),
    "cache_reset": _reset,
    "branch": _branch,
    "loop": _loop,
    "scope": _scope,
    "barrier": lambda _: (Barrier(), (), Places()),
    "dep": _dep,
    "yield": _yield,
    "await": _await,
    "return": _return,
}
