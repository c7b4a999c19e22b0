"""Rules for what is in brackets: prefix table entries and cache accesses (``specification: language.accesses``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.nodes import CacheReset, CacheWrite, Single, Slice
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.graph import VarDecl
    from openinfer.ir.nodes import CacheAccess, NodeKind
    from openinfer.ir.values import Ref


def ref_problem(ref: Ref, decl: VarDecl) -> tuple[str, str] | None:
    """Return code and message of what is wrong with the indices of a reference to a variable that is not persistent."""
    if decl.pattern is None:
        return ("not-indexable", f"`{decl.name}` is not a prefix table: it takes no indices") if ref.indices else None
    if not ref.indices:
        return "needs-index", f"`{decl.name}` is a prefix table: write `{decl.name}[{', '.join(decl.formals)}]`"
    if len(ref.indices) != len(decl.formals):
        wanted = len(decl.formals)
        return "index-count", f"`{decl.name}` takes {wanted} {_indices(wanted)}, found {len(ref.indices)}"
    if any(isinstance(index, Const) and index.value < 0 for index in ref.indices):
        return "negative-index", f"an index of `{decl.name}` is negative"
    return None


def access_problems(kind: NodeKind, access: CacheAccess, decl: VarDecl) -> Iterator[tuple[str, str]]:
    """Yield code and message of everything that is wrong with a cache access of a persistent variable."""
    name = decl.name
    if not decl.table and not decl.auto_dim:
        if access.bracketed:
            yield (
                "not-indexable",
                f"`{name}` is a plain persistent variable: write it without brackets, or make it a @table",
            )
        return
    if len(access.slots) > len(decl.formals):
        wanted = len(decl.formals)
        yield "index-count", f"`{name}` takes at most {wanted} {_indices(wanted)}, found {len(access.slots)}"
        return
    yield from _negative(access)
    tables = len(decl.formals) - len(decl.auto_dim)
    if isinstance(kind, CacheWrite):
        yield from _write_problems(access, decl, tables)
    elif isinstance(kind, CacheReset):
        yield from _reset_problems(access, decl, tables)
    elif decl.table and not access.bracketed:
        yield (
            "needs-index",
            f"`{name}` is a table: write `{name}[{', '.join(decl.formals)}]`, or `{name}[]` for all entries",
        )


def _indices(count: int) -> str:
    return "index" if count == 1 else "indices"


def _negative(access: CacheAccess) -> Iterator[tuple[str, str]]:
    for slot in access.slots:
        first = slot.index if isinstance(slot, Single) else slot.start
        if isinstance(first, Const) and first.value < 0:
            what = "an index" if isinstance(slot, Single) else "the start of a range"
            yield (
                "negative-index",
                f"{what} of `{access.base}` is {first.value}: only the end of a range may be negative",
            )


def _write_problems(access: CacheAccess, decl: VarDecl, tables: int) -> Iterator[tuple[str, str]]:
    name, slots = decl.name, access.slots
    if any(isinstance(slot, Slice) for slot in slots[tables:]):
        yield (
            "slice-not-allowed",
            f"cache.write stores whole matrices of `{name}`: only table indices may be ranges",
        )
    elif not slots and not decl.table:
        return
    elif not slots:
        yield (
            "needs-index",
            f"cache.write stores one entry or a range: write `{name}[{', '.join(decl.formals)}]`",
        )
    elif len(slots) not in (tables, len(decl.formals)) or (not decl.table and len(slots) < len(decl.formals)):
        yield "index-count", f"cache.write needs every index of `{name}`: `{name}[{', '.join(decl.formals)}]`"


def _reset_problems(access: CacheAccess, decl: VarDecl, tables: int) -> Iterator[tuple[str, str]]:
    name = decl.name
    if not decl.table:
        if access.bracketed:
            yield "not-indexable", f"cache.reset resets the whole of `{name}`: write it without brackets"
        return
    if any(isinstance(slot, Slice) for slot in access.slots):
        yield "slice-not-allowed", f"cache.reset takes entries of `{name}`: ranges and empty slots are for reading"
    elif len(access.slots) > tables:
        yield "index-count", f"cache.reset of `{name}` takes its table indices only: at most {tables}"
