"""Rules for declarations: attributes and memory sections that go together (``specification: language.attributes``)."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.ir.graph import MemoryKind
from openinfer.ir.places import part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Graph, VarDecl
    from openinfer.ir.places import Place

_BRACES = re.compile(r"\{(?P<formal>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<stray>[{}])")
_ALLOWED: dict[MemoryKind, frozenset[str]] = {
    MemoryKind.DYNAMIC: frozenset(),
    MemoryKind.VOLATILE: frozenset({"ref", "pattern"}),
    MemoryKind.CONSTANT: frozenset({"ref", "pattern"}),
    MemoryKind.PERSISTENT: frozenset({"ref", "table", "fixed", "auto_dim"}),
}
_CACHE = ("table", "fixed", "auto_dim")


def check_declarations(graph: Graph, findings: Findings) -> None:
    """Check every declaration."""
    for decl in graph.vars.values():
        present = tuple(_present(decl))
        misplaced = _check_section(decl, present, findings)
        _check_together(decl, present, findings)
        if decl.pattern is not None:
            _check_pattern(decl, findings)
        if not misplaced:
            _check_table(decl, findings)


def _present(decl: VarDecl) -> Iterator[str]:
    """Yield the names of the attributes that a declaration has, except for ``@init``."""
    if decl.ref is not None:
        yield "ref"
    if decl.pattern is not None:
        yield "pattern"
    if decl.table:
        yield "table"
    if decl.auto_dim:
        yield "auto_dim"
    if decl.fixed:
        yield "fixed"


def _check_section(decl: VarDecl, present: tuple[str, ...], findings: Findings) -> bool:
    misplaced = [name for name in present if name not in _ALLOWED[decl.kind]]
    for name in misplaced:
        homes = [kind.value for kind in MemoryKind if name in _ALLOWED[kind]]
        message = f"@{name} is not allowed in `{decl.kind.value}`: only in {', '.join(homes)}"
        findings.of_declaration(decl, "attr-not-allowed", message, place=_attribute(decl, name))
    return bool(misplaced)


def _check_together(decl: VarDecl, present: tuple[str, ...], findings: Findings) -> None:
    for name in present:
        if name == "pattern":
            continue
        if "pattern" in present and name in _ALLOWED[decl.kind]:
            message = f"@{name} and @pattern exclude each other"
            findings.of_declaration(decl, "attr-not-allowed", message, place=_attribute(decl, name))
        if name == "ref" and any(cache in present for cache in _CACHE):
            message = "@ref is not allowed on a table or auto-dim variable"
            findings.of_declaration(decl, "attr-not-allowed", message, place=_attribute(decl, name))


def _attribute(decl: VarDecl, name: str) -> Place | None:
    return decl.places.attributes.get(name) if decl.places is not None else None


def _formal(decl: VarDecl, name: str) -> Place | None:
    return part(decl.places.formals, decl.formals.index(name)) if decl.places is not None else None


def _check_pattern(decl: VarDecl, findings: Findings) -> None:
    used: set[str] = set()
    pattern = _attribute(decl, "pattern")
    formals = set(decl.formals)
    for brace in _BRACES.finditer(decl.pattern or ""):
        formal = brace["formal"]
        if formal is None:
            message = f"@pattern of `{decl.name}` has a `{brace['stray']}` that is not part of `{{index}}`"
            findings.of_declaration(decl, "pattern-mismatch", message, place=pattern)
            return
        used.add(formal)
        if formal not in formals:
            message = f"@pattern names `{{{formal}}}`, which is not an index of `{decl.name}`"
            hint = did_you_mean(formal, decl.formals)
            findings.of_declaration(decl, "pattern-mismatch", message, place=pattern, hint=hint)
    for formal in decl.formals:
        if formal not in used:
            message = f"index `{formal}` of `{decl.name}` does not occur in its @pattern"
            hint = f"write `{{{formal}}}` there"
            findings.of_declaration(decl, "pattern-mismatch", message, place=_formal(decl, formal), hint=hint)
    if not decl.formals:
        message = f"@pattern needs indices: `{decl.name}(l)`"
        findings.of_declaration(decl, "pattern-mismatch", message, place=pattern)


def _check_table(decl: VarDecl, findings: Findings) -> None:
    for message, place in (*_formals_problems(decl), *_auto_dim_problems(decl), *_fixed_problems(decl)):
        findings.of_declaration(decl, "table-decl", message, place=place)


def _formals_problems(decl: VarDecl) -> Iterator[tuple[str, Place | None]]:
    """Yield message and place of what is wrong with the indices themselves."""
    for formal in _repeated(decl.formals):
        yield f"index `{formal}` of `{decl.name}` is named twice", _formal(decl, formal)
    if decl.formals and not decl.table and not decl.auto_dim and decl.pattern is None:
        message = f"`{decl.name}` has indices, but no @table, @auto_dim or @pattern"
        yield message, decl.places.name if decl.places is not None else None
    if not decl.formals:
        for name in _CACHE:
            if getattr(decl, name):
                yield f"@{name} needs indices: `{decl.name}(i)`", _attribute(decl, name)


def _auto_dim_problems(decl: VarDecl) -> Iterator[tuple[str, Place | None]]:
    if not decl.auto_dim or not decl.formals:
        return
    auto_dim = _attribute(decl, "auto_dim")
    strangers = [name for name in decl.auto_dim if name not in decl.formals]
    for name in strangers:
        yield f"@auto_dim names `{name}`, which is not an index of `{decl.name}`", auto_dim
    for name in _repeated(decl.auto_dim):
        yield f"@auto_dim names `{name}` twice", auto_dim
    if len(decl.auto_dim) != len(decl.dims):
        yield (
            f"@auto_dim names {len(decl.auto_dim)} indices for {len(decl.dims)} dimensions: one each is needed",
            auto_dim,
        )
    if strangers or _repeated(decl.auto_dim):
        return
    others = decl.formals[: -len(decl.auto_dim)]
    if decl.formals[len(others) :] != decl.auto_dim:
        yield f"@auto_dim must name the last indices of `{decl.name}`, in their order", auto_dim
    elif decl.table and not others:
        yield f"@table needs an index that @auto_dim does not name: `{decl.name}(l, …)`", _attribute(decl, "table")
    elif others and not decl.table:
        yield f"index `{others[0]}` of `{decl.name}` belongs to nothing: @table is missing", _formal(decl, others[0])


def _fixed_problems(decl: VarDecl) -> Iterator[tuple[str, Place | None]]:
    fixed = _attribute(decl, "fixed")
    for name, count in decl.fixed:
        if decl.formals and name not in decl.formals:
            yield f"@fixed names `{name}`, which is not an index of `{decl.name}`", fixed
        if count < 1:
            yield f"@fixed({name}={count}): a bound is at least 1", fixed
    for name in _repeated(tuple(name for name, _ in decl.fixed)):
        yield f"@fixed names `{name}` twice", fixed


def _repeated(names: tuple[str, ...]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
