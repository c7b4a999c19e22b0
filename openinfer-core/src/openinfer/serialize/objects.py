"""JSON objects through marshmallow: the one place where its schemas and fields meet our forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from marshmallow import RAISE, Schema, ValidationError
from marshmallow.fields import Field

from openinfer.serialize.forms import MISSING, MISTYPED, NULL, UNKNOWN, Form, FormError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.serialize.forms import Path, Problem, ValueT


_OF_MEMBERS = {"required": MISSING, "null": NULL}
_OF_OBJECTS = {"type": MISTYPED, "unknown": UNKNOWN}
"""What marshmallow calls messages are problems with codes here."""


class Member(Field[Any]):
    """A member of an object, written and read by a form; null is allowed only if a default makes it optional."""

    default_error_messages: Any = _OF_MEMBERS

    def __init__(self, form: Form[Any], **options: Any) -> None:
        options.setdefault("required", "load_default" not in options)
        cast("Any", super()).__init__(**options)
        self.form = form

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        del attr, obj, kwargs
        return None if value is None else self.form.write(value)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        del attr, data, kwargs
        try:
            return self.form.read(value)
        except FormError as error:
            raise ValidationError(cast("Any", list(error.problems))) from error


class ObjectSchema(Schema):
    """An object whose findings are problems with codes."""

    error_messages: Any = _OF_OBJECTS


def record(kind: Callable[..., ValueT], /, **members: Form[Any] | Member) -> Form[ValueT]:
    """Return the form of an object whose members are the fields of a class."""
    return object_form(members, lambda data: kind(**data))


def object_form(
    members: Mapping[str, Form[Any] | Member],
    build: Callable[[dict[str, Any]], ValueT],
    parts: Callable[[ValueT], Any] | None = None,
    *,
    unknown: str = RAISE,
) -> Form[ValueT]:
    """Return the form of an object.

    Args:
        members: a form is that of a member that has to be there.
        build: makes the value from the members read; may raise `FormError`.
        parts: what is written, when that is not the value itself.
        unknown: what becomes of other members: marshmallow's ``RAISE``, ``EXCLUDE`` or ``INCLUDE``.
    """
    fields = {name: member if isinstance(member, Member) else Member(member) for name, member in members.items()}
    schema: Schema = cast("Any", ObjectSchema).from_dict(fields)(unknown=unknown)

    def read(value: object) -> ValueT:
        try:
            loaded: Any = cast("Any", schema).load(value)
        except ValidationError as error:
            raise FormError(*_flat(cast("Any", error).messages)) from error
        return build(loaded)

    def write(value: ValueT) -> Any:
        return cast("Any", schema).dump(value if parts is None else parts(value))

    return Form(write, read, object_schema(schema))


def object_schema(schema: Schema) -> dict[str, Any]:
    """Return the JSON Schema of an object from marshmallow's; unknown members are left to the reader."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, member in cast("dict[str, Member]", cast("Any", schema).fields).items():
        absent_as_null = cast("bool", cast("Any", member).allow_none)
        form = member.form.schema
        properties[name] = {"anyOf": [form, {"type": "null"}]} if absent_as_null and form else form
        if cast("Any", member).required:
            required.append(name)
    return {"type": "object", "properties": properties, "required": sorted(required)}


def _flat(messages: Any, path: Path = ()) -> Iterator[Problem]:
    """Yield every problem in marshmallow's nested form, with its path."""
    if isinstance(messages, dict):
        for key, inner in cast("dict[str | int, Any]", messages).items():
            yield from _flat(inner, path if key == "_schema" else (*path, key))
    elif isinstance(messages, list):
        for message in cast("list[Any]", messages):
            yield from _flat(message, path)
    else:
        yield cast("Problem", messages).within(path)
