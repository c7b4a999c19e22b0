"""Phase B for declarations: attributes in any order, each at most once, with literals that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from openinfer.diagnostics import did_you_mean
from openinfer.dsl.syntax import Literal
from openinfer.dtypes import BY_NAME
from openinfer.ir.graph import AttrArg, VarDecl
from openinfer.ir.language import ATTRIBUTES
from openinfer.scalars import check_fits, converted

if TYPE_CHECKING:
    from openinfer.dsl.syntax import Attribute, Declaration, Setting, Word
    from openinfer.dsl.value_lowering import ValueLowering
    from openinfer.dtypes import DType
    from openinfer.scalars import Scalar


def lower_declaration(values: ValueLowering, written: Declaration) -> VarDecl:
    """Return the declaration; report what is wrong with it."""
    dtype = values.dtype(written.dtype)
    known: dict[str, Attribute] = {}
    others: dict[str, tuple[AttrArg, ...]] = {}
    for attribute in written.attributes:
        if attribute.name in (known if attribute.known else others):
            values.error("duplicate-attr", f"duplicate @{attribute.name} attribute", attribute.place)
        elif attribute.known:
            known[attribute.name] = attribute
        else:
            others[attribute.name] = _arguments(values, attribute)
    is_known = written.dtype.text in BY_NAME
    return VarDecl(
        name=written.name.text,
        kind=written.kind,
        dtype=dtype,
        dims=written.dims,
        init=_init(values, known.get("init"), dtype) if is_known else None,
        ref=_text(known.get("ref")),
        pattern=_text(known.get("pattern")),
        formals=_names(written.formals),
        table="table" in known,
        auto_dim=_names(_words(known.get("auto_dim"))),
        fixed=_fixed(known.get("fixed")),
        attrs=tuple(others.items()),
        span=values.positions.of(written.place),
        places=written.places,
    )


def _init(values: ValueLowering, attribute: Attribute | None, dtype: DType) -> Scalar | None:
    if attribute is None:
        return None
    literal = cast("Literal", attribute.content)
    value = cast("Scalar", literal.value)
    misfit = check_fits(dtype, value)
    if misfit is None:
        return converted(dtype, value)
    values.error("init-mismatch", f"@init: {misfit}", literal.place)
    return None


def _text(attribute: Attribute | None) -> str | None:
    return cast("str", attribute.content) if attribute is not None else None


def _words(attribute: Attribute | None) -> tuple[Word, ...]:
    return cast("tuple[Word, ...]", attribute.content) if attribute is not None else ()


def _names(words: tuple[Word, ...]) -> tuple[str, ...]:
    return tuple(word.text for word in words)


def _fixed(attribute: Attribute | None) -> tuple[tuple[str, int], ...]:
    bounds = cast("tuple[tuple[Word, int], ...]", attribute.content) if attribute is not None else ()
    return tuple((name.text, count) for name, count in bounds)


def _arguments(values: ValueLowering, attribute: Attribute) -> tuple[AttrArg, ...]:
    """Return the arguments of an attribute that the language does not know, and warn about it."""
    hint = did_you_mean(attribute.name, (name for name in ATTRIBUTES if name != "reference"))
    message = f"unknown attribute @{attribute.name}"
    values.warn("unknown-attr", message, attribute.place, hint, name=attribute.name)
    arguments: list[AttrArg] = []
    for setting in cast("tuple[Setting, ...]", attribute.content):
        value = values.value(setting)
        if value is not None:
            arguments.append(AttrArg(value, setting.name.text if setting.name is not None else None))
    return tuple(arguments)
