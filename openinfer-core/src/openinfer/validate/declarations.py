"""Declarations with their sizes known, linked to the model (runtime specification, sections 2 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import BY_NAME, DType, Kind
from openinfer.ir.graph import MemoryKind
from openinfer.ir.resolved import Filled, FromMetadata, FromTensor, PrefixTable, ResolvedVar, Storage
from openinfer.ir.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.diagnostics import Span
    from openinfer.ir.graph import VarDecl
    from openinfer.ir.resolved import Initial
    from openinfer.model import Model
    from openinfer.symbolic import IntExpr
    from openinfer.validate.findings import Findings

LARGEST_SIZE = 2**63 - 1
"""Most elements that a tensor may have."""

LARGEST_RANK = 32
"""Most dimensions that a tensor may have: what every backend's array library takes."""


def tensor_type(
    dtype: DType, dims: Sequence[IntExpr], sizes: Mapping[str, int], findings: Findings, span: Span | None
) -> TensorType | None:
    """Return the type with every dimension evaluated; None after an error was recorded."""
    shape: list[int] = []
    for dim in dims:
        unknown = [name for name in symbolic.names(dim) if name not in sizes]
        if unknown:
            if unknown[0] in findings.unknown_sizes:
                return None
            findings.unknown_sizes.add(unknown[0])
            hint = did_you_mean(unknown[0], sizes) or _known_sizes(sizes)
            message = f"unknown size variable `{unknown[0]}` in dimension `{symbolic.text(dim)}`"
            findings.error("unknown-sizevar", message, span=span, hint=hint)
            return None
        shape.append(symbolic.evaluate(dim, sizes.__getitem__))
    return _checked_type(TensorType(dtype, tuple(shape)), dims, findings, span)


def _known_sizes(sizes: Mapping[str, int]) -> str:
    return f"the model has: {', '.join(sizes)}" if sizes else "the model has no size variables"


def _checked_type(
    found: TensorType, dims: Sequence[IntExpr], findings: Findings, span: Span | None
) -> TensorType | None:
    for dim, extent in zip(dims, found.shape, strict=True):
        if extent < 0:
            value = extent if extent >= -LARGEST_SIZE else f"below -{LARGEST_SIZE}"
            findings.error(
                "bad-dim", f"dimension `{symbolic.text(dim)}` is {value}: it must not be negative", span=span
            )
            return None
    if len(dims) > LARGEST_RANK:
        findings.error("bad-dim", f"a tensor has {len(dims)} dimensions, more than {LARGEST_RANK}", span=span)
        return None
    if found.count > LARGEST_SIZE:
        shown = ", ".join(symbolic.text(dim) for dim in dims)
        findings.error("bad-dim", f"a tensor [{shown}] has more than {LARGEST_SIZE} elements", span=span)
        return None
    return found


def resolve_declaration(
    decl: VarDecl, model: Model, sizes: Mapping[str, int], findings: Findings
) -> ResolvedVar | PrefixTable | None:
    """Return the declaration with sizes and initial value known; None after an error was recorded."""
    found = tensor_type(decl.dtype, decl.dims, sizes, findings, decl.span)
    if found is None:
        return None
    storage = Storage(decl.kind.value)
    if decl.pattern is not None:
        zero = Filled(_zero(decl.dtype) if decl.init is None else decl.init)
        return PrefixTable(
            name=decl.name,
            storage=storage,
            type=found,
            formals=decl.formals,
            pattern=decl.pattern,
            initial=zero,
            decl=decl,
        )
    _check_link(decl, found, model, findings)
    initial = _initial(decl, found, model, findings)
    return ResolvedVar(
        name=decl.name, storage=storage, type=found, initial=initial, decl=decl, dims=decl.dims, span=decl.span
    )


def _zero(dtype: DType) -> int | float | bool:
    """Return the value that zero bits stand for."""
    if dtype.is_float:
        return 0.0
    if dtype.kind is Kind.BOOL:
        return False
    return -1 if dtype.name == "t1" else 0


def _check_link(decl: VarDecl, found: TensorType, model: Model, findings: Findings) -> None:
    """The model tensor of that name, if any, must have the declared type, whatever the section."""
    name = decl.ref or decl.name
    info = model.var_info(name)
    if info is None:
        if decl.ref is not None and not (decl.kind is MemoryKind.CONSTANT and name in model.typed_metadata):
            hint = did_you_mean(name, model.tensors)
            findings.error(
                "unbound", f"`{decl.name}` refers to `{name}`, which {model.name} lacks", span=decl.span, hint=hint
            )
        return
    in_file = TensorType(info.dtype, info.shape)
    if decl.table:
        findings.error(
            "model-mismatch", f"table `{decl.name}` has the name of a model tensor {in_file}", span=decl.span
        )
    elif in_file != found:
        message = f"`{decl.name}` is declared {found}, the model's `{name}` is {in_file}"
        findings.error("model-mismatch", message, span=decl.span)
    elif decl.init is not None and info.has_data and decl.kind is not MemoryKind.DYNAMIC:
        findings.warn("init-unused", f"@init of `{decl.name}` is not used: the model has data for it", span=decl.span)


def _initial(decl: VarDecl, found: TensorType, model: Model, findings: Findings) -> Initial | None:
    name = decl.ref or decl.name
    info = model.var_info(name)
    if decl.kind is MemoryKind.DYNAMIC:
        return None if decl.init is None else Filled(decl.init)
    if info is not None and info.has_data and not decl.table:
        return FromTensor(name)
    if decl.kind is MemoryKind.CONSTANT and name in model.typed_metadata:
        _check_metadata(decl, name, found, model, findings)
        if decl.init is not None:
            findings.warn(
                "init-unused", f"@init of `{decl.name}` is not used: the model has metadata for it", span=decl.span
            )
        return FromMetadata(name)
    if decl.init is not None:
        return Filled(decl.init)
    if decl.kind is MemoryKind.CONSTANT:
        hint = (
            did_you_mean(name, [*model.tensors, *model.typed_metadata]) or "give the model a value, or write @init(...)"
        )
        findings.error(
            "unbound", f"constant `{decl.name}` has no value: no tensor, metadata or @init", span=decl.span, hint=hint
        )
    return Filled(_zero(decl.dtype))


def _check_metadata(decl: VarDecl, name: str, found: TensorType, model: Model, findings: Findings) -> None:
    item = model.typed_metadata[name]
    if item.dtype == "str":
        findings.error(
            "model-mismatch", f"metadata `{name}` is a string, `{decl.name}` is declared {found}", span=decl.span
        )
        return
    array = model.load_metadata_tensor(name)
    shape = () if array is None else array.shape
    if shape != found.shape or not _narrows(BY_NAME[item.dtype], found.dtype, array):
        in_file = TensorType(BY_NAME[item.dtype], shape)
        told = f"{in_file}{_value(array)}"
        message = f"`{decl.name}` is declared {found}, which cannot hold the model's metadata `{name}`: {told}"
        findings.error("model-mismatch", message, span=decl.span)


def _value(array: object) -> str:
    import numpy as np

    values = np.asarray(array)
    return f" of {values.item()}" if values.size == 1 else ""


def _narrows(source: DType, target: DType, array: object) -> bool:
    """Metadata floats may be narrowed to a declared float, integers to a declared integer that can hold them."""
    import numpy as np

    if source is target or (source.is_float and target.is_float):
        return source.bits >= target.bits
    if not (source.is_integer and target.is_integer):
        return False
    values = np.asarray(array)
    low, high = target.minimum or 0, target.maximum or 0
    return values.size == 0 or (low <= int(values.min()) and int(values.max()) <= high)


def entry_problem(table: PrefixTable, indices: tuple[int, ...], model: Model) -> str | None:
    """Return why the entry of these indices cannot be used, or None."""
    name = table.tensor_name(indices)
    access = f"{table.name}[{','.join(map(str, indices))}]"
    if any(index < 0 for index in indices):
        return f"{access} has a negative index"
    info = model.var_info(name)
    if info is None:
        hint = did_you_mean(name, model.tensors)
        return f"{access} needs the model tensor `{name}`: {model.name} has no tensor of that name" + (
            f"; {hint}" if hint else ""
        )
    in_file = TensorType(info.dtype, info.shape)
    return None if in_file == table.type else f"{access} is declared {table.type}, the model's `{name}` is {in_file}"
