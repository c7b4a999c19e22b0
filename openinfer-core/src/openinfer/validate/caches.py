"""Statements on persistent memory: types, and the shapes that reads yield (``specification: language.cache``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.dims import simplified
from openinfer.ir.nodes import CacheAccess, CacheRead, CacheReset, CacheWrite, Loop, Single, Slice
from openinfer.ir.places import part
from openinfer.ir.resolved import Storage
from openinfer.ir.text import access_text, ref_text
from openinfer.symbolic import BinOp, Const
from openinfer.validate.operators import writable_type
from openinfer.validate.references import are_integers, readable_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Graph, VarDecl
    from openinfer.ir.places import Place
    from openinfer.ir.resolved import ResolvedVar
    from openinfer.ir.types import TensorType
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope

    Extents: TypeAlias = tuple[int | None, ...]
    """A shape; None for what is only known when the program runs."""


def varying_names(graph: Graph, variables: Mapping[str, ResolvedVar], sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the variables to which ``cache.read`` may give another shape than the declared one."""
    indices = {node.kind.index for _, node in graph.nodes() if isinstance(node.kind, Loop)}
    fixed = {name: size for name, size in sizes.items() if name not in variables and name not in indices}
    names: set[str] = set()
    for _, node in graph.nodes():
        if isinstance(node.kind, CacheRead) and node.kind.src.base in variables:
            source = variables[node.kind.src.base]
            if None in read_extents(node.kind.src, source, fixed):
                names.add(node.kind.dst)
    return frozenset(names)


def read_extents(access: CacheAccess, source: ResolvedVar, known_sizes: Mapping[str, int]) -> Extents:
    """Return the shape that a read of a persistent variable yields, as far as named sizes give it."""
    decl = source.decl
    if decl is None or not decl.formals:
        return source.type.shape
    tables = len(decl.formals) - len(decl.auto_dim)
    table, auto = access.slots[:tables], access.slots[tables:]
    sizes = dict(decl.fixed)
    lengths: list[int | None] = []
    for number, formal in enumerate(decl.formals[:tables]):
        slot = table[number] if number < len(table) else None
        if not isinstance(slot, Single):
            lengths.append(_length(slot, sizes.get(formal), known_sizes))
    return (*lengths, *_entry_extents(auto, decl, source.type, known_sizes))


def _entry_extents(
    slots: tuple[Single | Slice, ...], decl: VarDecl, kind: TensorType, known_sizes: Mapping[str, int]
) -> Iterator[int | None]:
    if not decl.auto_dim:
        yield from kind.shape
        return
    selects = any(not isinstance(slot, Single) for slot in slots)
    for number in range(len(decl.auto_dim)):
        slot = slots[number] if number < len(slots) else None
        if selects and isinstance(slot, Single):
            continue
        yield _length(None if isinstance(slot, Single) else slot, None, known_sizes)


def symbolic_extents(
    access: CacheAccess, source: ResolvedVar, known_sizes: Mapping[str, int]
) -> tuple[IntExpr | None, ...]:
    """Return the shape that a read yields as expressions of named sizes; None for what is known only at run time."""
    numbers = read_extents(access, source, known_sizes)
    decl = source.decl
    if decl is None or not decl.formals:
        return source.dims
    tables = len(decl.formals) - len(decl.auto_dim)
    slots = [*access.slots[:tables], *[Slice()] * (tables - len(access.slots[:tables]))]
    ranges = [slot for slot in slots if not isinstance(slot, Single)]
    lengths = [_range_expression(slot, number) for slot, number in zip(ranges, numbers, strict=False)]
    rest = numbers[len(ranges) :]
    entry = source.dims if not decl.auto_dim else [None if extent is None else Const(extent) for extent in rest]
    return (*lengths, *entry)


def _range_expression(slot: Slice, number: int | None) -> IntExpr | None:
    """Return the length of a range, as an expression where its end is one and does not count from the size."""
    if number is None:
        return None
    if slot.end is None or (isinstance(slot.end, Const) and slot.end.value < 0):
        return Const(number)
    return slot.end if slot.start is None else simplified(BinOp("-", slot.end, slot.start))


def _length(slot: Slice | None, size: int | None, known_sizes: Mapping[str, int]) -> int | None:
    """Return the length of a range; ``size`` is what an open or negative end counts from."""
    start = 0 if slot is None or slot.start is None else _value(slot.start, known_sizes)
    end = size if slot is None or slot.end is None else _value(slot.end, known_sizes)
    if end is not None and end < 0:
        end = None if size is None else size + end
    return None if start is None or end is None or end < start else end - start


def _value(expr: IntExpr, known_sizes: Mapping[str, int]) -> int | None:
    try:
        return _evaluated(expr, known_sizes)
    except symbolic.DivisionError:
        return None


def _evaluated(expr: IntExpr, known_sizes: Mapping[str, int]) -> int | None:
    """Return the value of an expression where the names in it are known; raises `DivisionError`."""
    if any(name not in known_sizes for name in symbolic.names(expr)):
        return None
    return symbolic.evaluate(expr, known_sizes.__getitem__)


def persistent(name: str, scope: Scope, findings: Findings, place: Place | None) -> ResolvedVar | None:
    """Return a persistent variable; None after an error was recorded, or when its declaration is wrong."""
    variable = scope.variables.get(name)
    if variable is None or variable.storage is Storage.PERSISTENT:
        return variable
    message = f"`{name}` is {variable.storage.value}, expected a persistent variable"
    findings.error("persistent-direct", message, place=place, decl=variable.decl)
    return None


def check_read(read: CacheRead, scope: Scope, findings: Findings) -> None:
    """Check ``cache.read``."""
    accessed, written = part(findings.places.reads, 0), part(findings.places.writes, 0)
    source = persistent(read.src.base, scope, findings, accessed)
    wanted = writable_type(read.dst, scope, findings, written)
    if source is None or wanted is None or not _check_indices(read.src, source, scope, findings, accessed):
        return
    known_sizes = {name: size for name, size in scope.sizes.items() if scope.is_size(name)}
    extents = read_extents(read.src, source, known_sizes)
    agree = all(extent is None or extent == other for extent, other in zip(extents, wanted.shape, strict=False))
    shape = ",".join("?" if extent is None else str(extent) for extent in extents)
    message = f"`{access_text(read.src)}` is {source.type.dtype}[{shape}], `{read.dst}` is {wanted}"
    declared = scope.declared(read.src.base, read.dst)
    if source.type.dtype is not wanted.dtype:
        hint = f"read it into a variable of {source.type.dtype}, and convert that with `op cast`"
        findings.misfit(message, declared, written, conversion=hint)
    elif len(extents) != len(wanted.shape) or not agree:
        findings.misfit(message, declared, written)


def check_write(write: CacheWrite, scope: Scope, findings: Findings) -> None:
    """Check ``cache.write``."""
    stored, accessed = part(findings.places.reads, 0), part(findings.places.writes, 0)
    stored_type = readable_type(write.src, scope, findings, stored)
    target = persistent(write.dst.base, scope, findings, accessed)
    if stored_type is None or target is None or not _check_indices(write.dst, target, scope, findings, accessed):
        return
    grows = target.decl is not None and bool(target.decl.auto_dim)
    varies = write.src.name in scope.variables and scope.variables[write.src.name].varying
    known_sizes = {name: size for name, size in scope.sizes.items() if scope.is_size(name)}
    wanted = _written_extents(write.dst, target, known_sizes)
    ranks_differ = len(stored_type.shape) != len(wanted)
    agree = all(extent is None or extent == own for extent, own in zip(wanted, stored_type.shape, strict=False))
    shapes_differ = ranks_differ or not (grows or varies or agree)
    shape = ",".join("?" if extent is None else str(extent) for extent in wanted)
    message = f"`{ref_text(write.src)}` is {stored_type}, `{access_text(write.dst)}` is {target.type.dtype}[{shape}]"
    declared = scope.declared(write.src.name, write.dst.base)
    if stored_type.dtype is not target.type.dtype:
        hint = f"convert it with `op cast` into a variable of {target.type.dtype}, and write that"
        findings.misfit(message, declared, stored, conversion=hint)
    elif shapes_differ:
        findings.misfit(message, declared, stored)


def _written_extents(access: CacheAccess, target: ResolvedVar, known_sizes: Mapping[str, int]) -> Extents:
    """Return the shape of what a write stores: the lengths of ranges in front of the entry."""
    decl = target.decl
    if decl is None or not decl.table:
        return target.type.shape
    tables, sizes = len(decl.formals) - len(decl.auto_dim), dict(decl.fixed)
    slots = zip(decl.formals, access.slots[:tables], strict=False)
    lengths = (_length(slot, sizes.get(formal), known_sizes) for formal, slot in slots if not isinstance(slot, Single))
    return (*lengths, *target.type.shape)


def check_reset(reset: CacheReset, scope: Scope, findings: Findings) -> None:
    """Check ``cache.reset``."""
    place = part(findings.places.writes, 0)
    target = persistent(reset.target.base, scope, findings, place)
    if target is not None:
        _check_indices(reset.target, target, scope, findings, place)


def _check_indices(
    access: CacheAccess, variable: ResolvedVar, scope: Scope, findings: Findings, place: Place | None
) -> bool:
    """Record names in brackets that are not integers, and positions that can never be; whether all is well."""
    counts: Collection[str] = () if variable.decl is None else variable.decl.auto_dim
    known_sizes = {name: size for name, size in scope.sizes.items() if scope.is_size(name) and name not in counts}
    what = f"index of `{access_text(access)}`"
    for bound in access.expressions():
        names = (name for name in symbolic.names(bound) if name not in counts)
        if not are_integers(names, what, scope, findings, place):
            return False
        try:
            value = _evaluated(bound, known_sizes)
        except symbolic.DivisionError as error:
            findings.error("bad-division", f"{what}: {error}", place=place)
            return False
        if value is not None and value not in symbolic.INT64:
            message = f"{what}: {symbolic.value_text(value)} does not fit 64 bits"
            findings.error("integer-range", message, place=place)
            return False
    return True
