"""Declarations with their sizes known, linked to the model (``specification: runtime.links``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.diagnostics import MOST_LISTED, did_you_mean
from openinfer.dtypes import BY_NAME, DType, Kind
from openinfer.ir.graph import MemoryKind
from openinfer.ir.places import span_of
from openinfer.ir.resolved import Filled, FromMetadata, FromTensor, PrefixTable, ResolvedVar, Storage
from openinfer.ir.types import LARGEST_SIZE, TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.diagnostics import Span
    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import VarDecl
    from openinfer.ir.resolved import Initial
    from openinfer.model import Model, VarInfo
    from openinfer.symbolic import IntExpr

LARGEST_RANK = 32
"""Maximum number of dimensions of a tensor: the limit of the array library of every backend."""


def tensor_type(
    dtype: DType,
    dims: Sequence[IntExpr],
    sizes: Mapping[str, int],
    findings: Findings,
    span: Span | None,
    places: Sequence[Span | None] = (),
) -> TensorType | None:
    """Return the type with every dimension evaluated; None after an error was recorded.

    ``places`` are those of the dimensions, where known; ``span`` is that of the declaration around them.
    """
    shape: list[int] = []
    for number, dim in enumerate(dims):
        where = places[number] if number < len(places) else span
        extent = _extent(dim, sizes, findings, where)
        if extent is None:
            return None
        shape.append(extent)
    kind = TensorType(dtype, tuple(shape))
    if len(dims) > LARGEST_RANK:
        findings.error("bad-dim", f"a tensor has {len(dims)} dimensions, more than {LARGEST_RANK}", span=span)
        return None
    if not kind.fits:
        shown = ", ".join(symbolic.text(dim) for dim in dims)
        what = "elements" if kind.count > LARGEST_SIZE else "bytes, or elements if no dim were 0"
        message = f"a tensor [{shown}] has more than {LARGEST_SIZE} {what}{_where_from(dims, findings)}"
        findings.error("bad-dim", message, span=span)
        return None
    return kind


def _extent(dim: IntExpr, sizes: Mapping[str, int], findings: Findings, span: Span | None) -> int | None:
    unknown = [name for name in symbolic.names(dim) if name not in sizes]
    if unknown:
        if unknown[0] not in findings.unknown_sizes:
            findings.unknown_sizes.add(unknown[0])
            hint = _size_hint(unknown[0], sizes, findings)
            message = f"unknown size variable `{unknown[0]}` in dimension `{symbolic.text(dim)}`"
            findings.error("unknown-sizevar", message, span=span, hint=hint)
        return None
    try:
        extent = symbolic.evaluate(dim, sizes.__getitem__)
    except symbolic.DivisionError as error:
        message = f"in a dimension, {error}{_where_from([dim], findings)}"
        findings.error("bad-division", message, span=span)
        return None
    if extent >= 0:
        return extent
    value = extent if extent >= -LARGEST_SIZE else f"below -{LARGEST_SIZE}"
    message = f"dimension `{symbolic.text(dim)}` is {value}: it must not be negative{_where_from([dim], findings)}"
    findings.error("bad-dim", message, span=span)
    return None


def _where_from(dims: Sequence[IntExpr], findings: Findings) -> str:
    names = dict.fromkeys(name for dim in dims for name in symbolic.names(dim))
    return f"; {', '.join(map(findings.sizes.text, names))}" if names else ""


def _size_hint(name: str, sizes: Mapping[str, int], findings: Findings) -> str:
    if name in findings.variables:
        return f"`{name}` is a variable: extents are made of integers and of size variables of the model"
    if not sizes:
        return "the model has no size variables"
    return did_you_mean(name, sizes) or f"the model has: {', '.join(sizes)}"


def resolve_declaration(
    decl: VarDecl, model: Model, sizes: Mapping[str, int], findings: Findings
) -> ResolvedVar | PrefixTable | None:
    """Return the declaration with sizes and initial value known; None after an error was recorded."""
    places = [span_of(decl.span, dim) for dim in decl.places.dims] if decl.places is not None else []
    kind = tensor_type(decl.dtype, decl.dims, sizes, findings, decl.span, places)
    if kind is None:
        return None
    storage = Storage(decl.kind.value)
    if decl.pattern is not None:
        zero = Filled(_zero(decl.dtype) if decl.init is None else decl.init)
        return PrefixTable(
            name=decl.name,
            storage=storage,
            type=kind,
            formals=decl.formals,
            pattern=decl.pattern,
            initial=zero,
            decl=decl,
        )
    variable = ResolvedVar(
        name=decl.name, storage=storage, type=kind, initial=None, decl=decl, dims=decl.dims, span=decl.span
    )
    _check_link(decl, variable, model, findings)
    return replace(variable, initial=_initial(decl, variable, model, findings))


def _zero(dtype: DType) -> int | float | bool:
    """Return the value that zero bits stand for."""
    if dtype.is_float:
        return 0.0
    if dtype.kind is Kind.BOOL:
        return False
    return -1 if dtype.name == "t1" else 0


def _attribute(decl: VarDecl, name: str) -> Span | None:
    """Return the place of an attribute, or else of the declaration."""
    return span_of(decl.span, decl.places.attributes.get(name) if decl.places is not None else None)


def _check_link(decl: VarDecl, variable: ResolvedVar, model: Model, findings: Findings) -> None:
    """The model tensor of that name, if any, must have the declared type, whatever the section."""
    name = decl.ref or decl.name
    info = _linked(decl, name, model)
    if info is None:
        if decl.ref is not None and not (decl.kind is MemoryKind.CONSTANT and name in model.typed_metadata):
            message = f"`{decl.name}` refers to `{name}`, which {model.name} does not have"
            hint = did_you_mean(name, model.tensors)
            findings.error("unbound", message, span=_attribute(decl, "ref"), hint=hint)
        return
    in_file = TensorType(info.dtype, info.shape)
    if decl.table:
        message = f"table `{decl.name}` has the name of a model tensor {in_file}"
        findings.error("model-mismatch", message, span=decl.span)
    elif in_file != variable.type:
        quantised = f"; {_QUANTISED}" if info.quantised and info.dtype is not decl.dtype else ""
        message = f"`{decl.name}` is declared {variable.type}, the model's `{name}` is {in_file}{quantised}"
        elsewhere = {f"the model's `{name}`": info.shape}
        sized = _if_sized(variable, info.shape)
        hint = _other_way_round(decl, variable, info.shape)
        findings.error("model-mismatch", message, span=decl.span, hint=hint, sized=sized, found=elsewhere)
    elif decl.init is not None and info.has_data and decl.kind is not MemoryKind.DYNAMIC:
        message = f"@init of `{decl.name}` is not used: the model has data for it"
        findings.warn("init-unused", message, span=_attribute(decl, "init"))


def _other_way_round(decl: VarDecl, variable: ResolvedVar, in_file: tuple[int, ...]) -> str | None:
    """Return a hint where a declaration has the last two dims of a tensor in the other order."""
    shape = variable.type.shape
    if len(shape) < 2 or shape == in_file or (*shape[:-2], shape[-1], shape[-2]) != in_file:
        return None
    *leading, rows, columns = decl.dims
    dims = ", ".join(symbolic.text(dim) for dim in (*leading, columns, rows))
    return f"the dims are the other way round: write `{decl.name}: {variable.type.dtype}[{dims}]`"


def _linked(decl: VarDecl, name: str, model: Model) -> VarInfo | None:
    """Return the tensor that a declaration is linked to; what the host gives is never a quantised tensor's reals."""
    info = model.linked(name, decl.dtype)
    made = info is not None and info.name != name
    return model.var_info(name) if made and decl.kind is MemoryKind.DYNAMIC else info


_QUANTISED = "it is quantised: declare its own type for the stored integers, or a float for its reals"


def _if_sized(variable: ResolvedVar, other: tuple[int, ...]) -> tuple[ResolvedVar, ...]:
    """Return the variable if its shape is not the ``other`` and has names: the finding itself says all else."""
    return (variable,) if variable.type.shape != other and any(symbolic.names(dim) for dim in variable.dims) else ()


def _initial(decl: VarDecl, variable: ResolvedVar, model: Model, findings: Findings) -> Initial | None:
    name = decl.ref or decl.name
    info = _linked(decl, name, model)
    if decl.kind is MemoryKind.DYNAMIC:
        return None if decl.init is None else Filled(decl.init)
    if info is not None and info.has_data and not decl.table:
        return FromTensor(info.name)
    if decl.kind is MemoryKind.CONSTANT and name in model.typed_metadata:
        _check_metadata(decl, name, variable, model, findings)
        if decl.init is not None:
            message = f"@init of `{decl.name}` is not used: the model has metadata for it"
            findings.warn("init-unused", message, span=_attribute(decl, "init"))
        return FromMetadata(name)
    if decl.init is not None:
        return Filled(decl.init)
    is_reported = decl.ref is not None and info is None
    if decl.kind is MemoryKind.CONSTANT and not is_reported:
        message = f"constant `{decl.name}` has no value: no tensor, metadata or @init"
        hint = did_you_mean(name, [*model.tensors, *model.typed_metadata]) or _unbound_hint(variable, model)
        findings.error("unbound", message, span=decl.span, hint=hint)
    return Filled(_zero(decl.dtype))


def _unbound_hint(variable: ResolvedVar, model: Model) -> str:
    """Return what to do about a constant without a value: name its tensor, likeliest one of its type."""
    wanted = (variable.type.dtype, variable.type.shape)
    alike = [name for name, info in model.tensors.items() if (info.dtype, info.shape) == wanted]
    names = [*alike, *(name for name in model.tensors if name not in alike)]
    if not names:
        return "give the model a value, or write @init(...); the model has no tensors"
    more = len(names) - MOST_LISTED
    listed = ", ".join(f"`{name}`" for name in names[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    reference = f'@ref("{names[0]}")'
    return f"name its tensor, such as {reference}, or write @init(...); the model's tensors are {listed}"


def _check_metadata(decl: VarDecl, name: str, variable: ResolvedVar, model: Model, findings: Findings) -> None:
    item, declared = model.typed_metadata[name], variable.type
    if item.dtype == "str":
        message = f"metadata `{name}` is a string, `{decl.name}` is declared {declared}"
        findings.error("model-mismatch", message, span=decl.span)
        return
    array = model.load_metadata_tensor(name)
    shape = () if array is None else array.shape
    if shape != declared.shape or not _narrows(BY_NAME[item.dtype], declared.dtype, array):
        in_file = TensorType(BY_NAME[item.dtype], shape)
        described = f"{in_file}{_value(array)}"
        message = f"`{decl.name}` is declared {declared}, which cannot hold the model's metadata `{name}`: {described}"
        elsewhere = {f"the model's metadata `{name}`": shape}
        findings.error("model-mismatch", message, span=decl.span, sized=_if_sized(variable, shape), found=elsewhere)


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


def entry_text(table: PrefixTable, indices: tuple[int, ...]) -> str:
    """Return how an entry is written, such as ``W[0]``."""
    return f"{table.name}[{','.join(map(str, indices))}]"


def entry_problem(table: PrefixTable, indices: tuple[int, ...], model: Model) -> str | None:
    """Return why the entry of these indices cannot be used, or None."""
    name = table.tensor_name(indices)
    access = entry_text(table, indices)
    if any(index < 0 for index in indices):
        return f"{access} has a negative index"
    info = model.linked(name, table.type.dtype)
    if info is None:
        hint = did_you_mean(name, model.tensors)
        return f"{access} needs the model tensor `{name}`: {model.name} has no tensor of that name" + (
            f"; {hint}" if hint else ""
        )
    in_file = TensorType(info.dtype, info.shape)
    return None if in_file == table.type else f"{access} is declared {table.type}, the model's `{name}` is {in_file}"
