"""From the matcher's trees to declarations of the syntax tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from openinfer.dsl.syntax import Attribute, Declaration, Literal, Place, Setting, Word
from openinfer.dsl.tree_values import (
    I64_MAX,
    U64_MAX,
    dim_places,
    dims_of,
    inside,
    integer_of,
    listed,
    names_of,
    optional,
    place_of,
    place_without_last,
    scalar_of,
    string_of,
    target_of,
    text_of,
    value_of,
    word_of,
)
from openinfer.ir.places import DeclarationPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openinfer.dsl.grammar import Tree
    from openinfer.ir.graph import MemoryKind


def declaration_of(tree: Tree, kind: MemoryKind) -> Declaration:
    """Return the declaration of a ``declaration`` tree."""
    name, formals, _, dtype, dims, attributes, _ = tree.children
    inner = optional(formals)
    indices = names_of(inner and inner.children[1])
    is_u64 = text_of(dtype) == "u64"
    given = tuple(_attribute(attribute, U64_MAX if is_u64 else I64_MAX) for attribute in attributes.children)
    head = word_of(name)
    places = DeclarationPlaces(
        name=head.place,
        dims=dim_places(dims),
        formals=tuple(index.place for index in indices),
        attributes={attribute.name: attribute.place for attribute in given},
    )
    return Declaration(kind, head, indices, word_of(dtype), dims_of(dims), given, place_without_last(tree), places)


def _attribute(tree: Tree, largest: int) -> Attribute:
    sequence = tree.children[0]
    chosen = sequence.children[1]
    if chosen.expr_name == "other":
        _, name, arguments = chosen.children
        return Attribute(text_of(name), _arguments(arguments), place_of(tree), known=False)
    known = chosen.children[0]
    return Attribute(known.expr_name, _CONTENT[known.expr_name](known, largest), place_of(tree), known=True)


def old_spellings(tree: Tree) -> Iterator[tuple[str, Place, str]]:
    """Yield message, place and hint for each known attribute of a declaration that is written in an older way."""
    for attribute in tree.children[5].children:
        at, chosen = attribute.children[0].children
        known = chosen.children[0]
        if chosen.expr_name == "known" and not at.text.startswith("@"):
            hint = f"write `@{known.text.rstrip()}`"
            yield f"attribute `{known.expr_name}` without `@`", place_of(attribute), hint
        if known.expr_name == "ref" and known.text.startswith("reference"):
            hint = f"write `@ref{known.text.rstrip().removeprefix('reference')}`"
            yield "`@reference` is an older spelling of `@ref`", place_of(attribute), hint


def _arguments(tree: Tree) -> tuple[Setting, ...]:
    return tuple(map(_given, listed(inside(tree, 1))))


def _given(tree: Tree) -> Setting:
    named, value = tree.children
    inner = optional(named)
    return Setting(word_of(inner.children[0]) if inner is not None else None, value_of(value))


def _init(tree: Tree, largest: int) -> Literal:
    literal = scalar_of(tree.children[2].children[0], largest)
    return cast("Literal", literal)


def _bounds(tree: Tree) -> tuple[tuple[Word, int], ...]:
    return tuple((word_of(bound.children[0]), integer_of(bound.children[2])) for bound in listed(tree, 2))


def _nothing(*_: object) -> tuple[Word, ...]:
    return ()


_CONTENT: dict[str, Callable[[Tree, int], Literal | str | tuple[Word, ...] | tuple[tuple[Word, int], ...]]] = {
    "init": _init,
    "ref": lambda tree, _: target_of(tree.children[2]),
    "pattern": lambda tree, _: string_of(tree.children[2]),
    "table": _nothing,
    "auto_dim": lambda tree, _: names_of(tree.children[2]),
    "fixed": lambda tree, _: _bounds(tree),
}
