"""Which table each field of a dataclass instance, or item of a dict, belongs to."""

from __future__ import annotations

import dataclasses
import logging
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, cast

import numpy as np

from .contents import Contents, SizeVar, TensorSpec, UninitializedTensor
from .errors import Finding, OinfError
from .metadata import Bitset, ScalarValue

IntFields = Literal["metadata", "sizevar"]

_LOG = logging.getLogger("openinfer_oinf")
_TABLES = ("sizevars", "metadata", "tensors")


def _rejected(code: str, message: str, entry: str, table: str | None = None) -> OinfError:
    return OinfError(Finding(code=code, message=message, table=table, entry=entry))


@dataclasses.dataclass(frozen=True)
class _Marks:
    """What annotation and field metadata say of a field."""

    role: str = ""
    options: Mapping[str, object] = dataclasses.field(default_factory=dict[str, object])


class _Collector:
    """Gathers entries, refusing names that come up twice in a table."""

    def __init__(self) -> None:
        self.sizevars: dict[str, int] = {}
        self.metadata: dict[str, object] = {}
        self.tensors: dict[str, TensorSpec | UninitializedTensor] = {}

    def add(self, table: str, name: str, value: object) -> None:
        entries = cast("dict[str, object]", getattr(self, table))
        if name in entries:
            raise _rejected("E_DUPLICATE", "the name occurs twice in the table", name, table)
        entries[name] = value

    def add_tensor(self, name: str, value: object, marks: _Marks) -> None:
        tensor = _as_tensor(name, value, marks)
        self.add("tensors", tensor.name or name, tensor)

    def add_sizevar(self, name: str, value: object) -> None:
        size = value if isinstance(value, SizeVar) else SizeVar(cast("int", value))
        self.add("sizevars", name, size.value)

    def contents(self) -> Contents:
        return Contents(self.sizevars, self.metadata, self.tensors)


def _as_tensor(name: str, value: object, marks: _Marks) -> TensorSpec | UninitializedTensor:
    if isinstance(value, TensorSpec | UninitializedTensor):
        return value
    dtype = cast("str | int | None", marks.options.get("dtype"))
    if value is not None:
        return TensorSpec(value, dtype=dtype)
    shape = cast("tuple[int, ...] | None", marks.options.get("shape"))
    if dtype is None or shape is None:
        raise _rejected("E_DTYPE", "a tensor without data needs a dtype and a shape", name, "tensors")
    return UninitializedTensor(dtype, shape)


def contents_of(instance: object, *, int_fields: IntFields = "metadata") -> Contents:
    """Sort the fields of a dataclass instance (or the items of a dict) into the tables of a file.

    Dicts called `sizevars`, `metadata` or `tensors`, as fields or plain attributes, hold entries by name. A plain
    `int` is metadata; `int_fields="sizevar"` makes int-annotated fields size variables. Raises `OinfError`.
    """
    if int_fields not in ("metadata", "sizevar"):
        raise ValueError(f"int_fields={int_fields!r}: expected `metadata` or `sizevar`")
    collector = _Collector()
    for name, value, annotation, marks in _entries(instance):
        if name in _TABLES:
            _add_table(collector, name, value)
        elif _is_sizevar(value, annotation, marks, int_fields):
            collector.add_sizevar(name, value)
        elif _is_tensor(value, marks):
            collector.add_tensor(name, value, marks)
        else:
            _note_int(name, value, annotation)
            collector.add("metadata", name, _metadata_value(value, marks))
    return collector.contents()


_Entry = tuple[str, object, object, _Marks]


def _entries(instance: object) -> Iterator[_Entry]:
    """Name, value, annotation and marks of everything to be written."""
    if isinstance(instance, Mapping):
        for name, value in cast("Mapping[str, object]", instance).items():
            yield name, value, None, _Marks()
        return
    if not dataclasses.is_dataclass(instance) or isinstance(instance, type):
        message = f"expected an instance of a dataclass or a dict, not {instance!r:.80}"
        raise _rejected("E_INPUT", message, type(instance).__name__)
    annotations = _annotations(type(instance))
    fields = dataclasses.fields(instance)
    for each in fields:
        annotation = annotations.get(each.name)
        yield each.name, getattr(instance, each.name), annotation, _marks(annotation, each.metadata)
    known = {each.name for each in fields}
    for name in _TABLES:
        if name not in known and name in getattr(instance, "__dict__", {}):
            yield name, getattr(instance, name), None, _Marks()


def _annotations(owner: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except (NameError, TypeError, AttributeError):
        # Names known only to type checkers: the annotations stay text, which `_bare` understands.
        return {
            name: text
            for base in reversed(owner.__mro__)
            for name, text in vars(base).get("__annotations__", {}).items()
        }


def _marks(annotation: object, field_metadata: Mapping[Any, Any]) -> _Marks:
    """Markers of `Annotated[T, "tensor", {...}]` or of `field(metadata={"tensor": True, ...})`."""
    extras = cast("tuple[object, ...]", getattr(annotation, "__metadata__", ()))
    role = next((extra for extra in extras if extra in ("sizevar", "tensor")), "")
    options: dict[str, object] = {}
    for extra in extras:
        if isinstance(extra, Mapping):
            options |= cast("Mapping[str, object]", extra)
    options |= field_metadata
    for name in ("sizevar", "tensor"):
        if options.get(name) or options.get("role") == name or options.get("kind") == name:
            role = name
    return _Marks(role, options)


def _bare(annotation: object) -> object:
    """An annotation without `Annotated` and `Optional`; text annotations become the class they name."""
    if isinstance(annotation, str):
        known: dict[str, type] = {each.__name__: each for each in (int, SizeVar, TensorSpec, UninitializedTensor)}
        return known.get(annotation.replace(" ", "").removesuffix("|None"))
    if hasattr(annotation, "__metadata__"):
        return _bare(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        return parts[0] if len(parts) == 1 else None
    return annotation


def field_role(owner: type, name: str) -> str:
    """What the annotation of a dataclass field asks for: "sizevar", "tensor", or "" for metadata."""
    annotation = _annotations(owner).get(name)
    metadata: dict[Any, Any] = {}
    for each in dataclasses.fields(owner):
        if each.name == name:
            metadata |= each.metadata
    bare = _bare(annotation)
    if bare is SizeVar:
        return "sizevar"
    if any(each in (TensorSpec, UninitializedTensor, np.ndarray) for each in (bare, typing.get_origin(bare))):
        return "tensor"
    return _marks(annotation, metadata).role


def _is_sizevar(value: object, annotation: object, marks: _Marks, int_fields: IntFields) -> bool:
    if isinstance(value, SizeVar) or marks.role == "sizevar":
        return True
    bare = _bare(annotation)
    return bare is SizeVar or (bare is int and int_fields == "sizevar")


def _is_tensor(value: object, marks: _Marks) -> bool:
    if isinstance(value, ScalarValue | Bitset):
        return False
    if isinstance(value, TensorSpec | UninitializedTensor | np.ndarray) or marks.role == "tensor":
        return True
    return isinstance(value, list | tuple) and "dtype" in marks.options


def _metadata_value(value: object, marks: _Marks) -> object:
    dtype = marks.options.get("dtype")
    if dtype is None or isinstance(value, ScalarValue):
        return value
    return ScalarValue(value, cast("str", dtype))


def _note_int(name: str, value: object, annotation: object) -> None:
    if _bare(annotation) is int and not isinstance(value, bool):
        _LOG.info("field %r is a plain int and becomes metadata; SizeVar makes a size variable", name)


def _add_table(collector: _Collector, table: str, value: object) -> None:
    if not isinstance(value, Mapping):
        message = f"a field called {table!r} holds a dict of entries, not {type(value).__name__}"
        raise _rejected("E_INPUT", message, table)
    for name, item in cast("Mapping[str, object]", value).items():
        if table == "sizevars":
            collector.add_sizevar(name, item)
        elif table == "tensors":
            collector.add_tensor(name, item, _Marks())
        else:
            collector.add("metadata", name, item)
