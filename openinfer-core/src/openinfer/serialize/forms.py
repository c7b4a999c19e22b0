"""Forms: how one kind of value is written as JSON and read back, strictly and without coercions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast
from uuid import UUID

from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import BY_JSON_TAG, DType
from openinfer.ir.text import ref_text
from openinfer.ir.values import Ref
from openinfer.symbolic import LITERAL_WORDS, Const, IntExpr, SymbolicSyntaxError, constants
from openinfer.symbolic import parse as parse_expression
from openinfer.symbolic import text as expression_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Path: TypeAlias = "tuple[str | int, ...]"
ValueT = TypeVar("ValueT")

I64 = (-(2**63), 2**63 - 1)
U64 = (0, 2**64 - 1)

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LITERALS = "|".join(LITERAL_WORDS)
_IDENTIFIER = re.compile(rf"(?!(?:{_LITERALS})\Z)[A-Za-z_][A-Za-z0-9_]*\Z")
_REFERENCE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\[(?P<indices>[^\[\]]*)\])?\Z")
_TARGET = re.compile(
    rf"(?!(?:{_LITERALS})(?:\.|\Z))[A-Za-z_][A-Za-z0-9_]*(?:\.(?!(?:{_LITERALS})\Z)[A-Za-z_][A-Za-z0-9_]*)?\Z"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a JSON value.

    Attributes:
        message: one line.
        code: kind of the finding that it becomes.
        path: where inside the value.
        is_predicate: whether the message goes on after the key at the end of the path, which it is about.
    """

    message: str
    code: str = "wrong-value"
    path: Path = ()
    is_predicate: bool = False

    @property
    def text(self) -> str:
        """The message as a sentence of its own."""
        return f"`{self.path[-1]}` {self.message}" if self.is_predicate and self.path else self.message

    def within(self, path: Path) -> Problem:
        """Return the same problem, placed inside a value that holds this one at ``path``."""
        return replace(self, path=path + self.path)


MISSING = Problem("is missing", "missing-field", is_predicate=True)
NULL = Problem("must not be null", "wrong-type", is_predicate=True)
UNKNOWN = Problem("unknown field", "unknown-field")
MISTYPED = Problem("expected an object", "wrong-type")


class FormError(ValueError):
    """A JSON value does not have the form that is requested: what is wrong, and where inside the value."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems

    def within(self, *path: str | int) -> FormError:
        """Return the same problems, placed inside a value that holds this one at ``path``."""
        return FormError(*(problem.within(path) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Form(Generic[ValueT]):
    """A way to write values and to read them back. ``read`` raises `FormError`.

    ``schema`` says as JSON Schema what is read, as far as that can: it takes everything that ``read`` does.
    """

    write: Callable[[ValueT], Any]
    read: Callable[[object], ValueT]
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


def wrong(message: str, *path: str | int) -> FormError:
    """Return the error of a value, or of what is at a path inside it."""
    return FormError(Problem(message, path=path))


def wrong_type(message: str) -> FormError:
    """Return the error of a value of another JSON type."""
    return FormError(Problem(message, "wrong-type"))


def shown(value: object) -> str:
    """Return what a message says was found: the kind of a value, with scalars as they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        value = value if len(value) <= 60 else f"{value[:57]}…"
    text = repr(value) if value is not None else "null"
    return text if len(text) <= 80 else f"{text[:77]}…"


def plain(value: object) -> Any:
    """Return a value that JSON holds as it is."""
    return value


# Strings


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise wrong_type(f"expected a string, found {shown(value)}")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise wrong("the string holds half of a surrogate pair")
    return value


def _read_identifier(value: object) -> str:
    if not isinstance(value, str) or _IDENTIFIER.match(value) is None:
        raise wrong_type(f"expected a name (letters, digits and _), found {shown(value)}{_literal(value)}")
    return value


def _literal(value: object) -> str:
    """Return what to add to a message about a word that is a value."""
    words = value.split(".") if isinstance(value, str) else ()
    return next((f": `{word}` is a value of the language" for word in words if word in LITERAL_WORDS), "")


def _read_setting_name(value: object) -> str:
    if not isinstance(value, str) or _WORD.match(value) is None:
        raise wrong_type(f"expected a name (letters, digits and _), found {shown(value)}")
    return value


def _read_target(value: object) -> str:
    if not isinstance(value, str) or _TARGET.match(value) is None:
        raise wrong_type(f"expected a name or `cache.…`, found {shown(value)}{_literal(value)}")
    return value


def one_of(value: object, legal: Iterable[str], what: str) -> str:
    """Return a string that is one of the legal ones.

    Raises:
        FormError: it is none of them; the message lists them.
    """
    names = list(legal)
    if isinstance(value, str) and value in names:
        return value
    near = did_you_mean(value, names) if isinstance(value, str) and len(value) < 60 else None
    message = f"expected {what}, one of {', '.join(names)}; found {shown(value)}"
    raise wrong(message + (f": {near}" if near else ""))


def _read_uuid(value: object) -> UUID:
    try:
        if isinstance(value, str):
            return UUID(value)
    except ValueError:
        pass
    raise wrong_type(f"expected a UUID, found {shown(value)}")


def matching(pattern: re.Pattern[str]) -> dict[str, Any]:
    """Return the JSON Schema of strings that match as a whole."""
    # Names of groups are spelt differently in JavaScript, whose expressions JSON Schema takes, and mean nothing here.
    unnamed = re.sub(r"\(\?P<\w+>", "(?:", pattern.pattern)
    return {"type": "string", "pattern": "^" + unnamed.replace("\\Z", "$")}


TEXT: Form[str] = Form(plain, _read_text, {"type": "string"})
IDENTIFIER: Form[str] = Form(plain, _read_identifier, matching(_IDENTIFIER))
SETTING_NAME: Form[str] = Form(plain, _read_setting_name, matching(_WORD))
"""As an identifier, literal words included: an operator may have a setting called ``nan``."""
DEP_TARGET: Form[str] = Form(plain, _read_target, matching(_TARGET))
DTYPE: Form[DType] = Form(
    lambda dtype: dtype.json_tag,
    lambda value: BY_JSON_TAG[one_of(value, BY_JSON_TAG, "a dtype")],
    {"enum": sorted(BY_JSON_TAG)},
)
IDENTIFICATION: Form[UUID] = Form(str, _read_uuid, {"type": "string", "minLength": 32})


# Numbers


def integer(low: int = 0, high: int = I64[1]) -> Form[int]:
    """Return the form of integers within bounds, both included."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(f"expected an integer, found {shown(value)}")
        if not low <= value <= high:
            raise wrong(f"{shown(value)} is out of range: expected {low} to {high}")
        return value

    return Form(plain, read, {"type": "integer", "minimum": low, "maximum": high})


def _read_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong(f"expected true or false, found {shown(value)}")
    return value


def _write_number(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(value)


def _read_number(value: object) -> float:
    if isinstance(value, str) and value in ("inf", "-inf", "nan"):
        return float(value)
    if value is None:
        raise wrong_type('expected a number, found null: its writer lost an infinity; write "inf" or "-inf"')
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(f'expected a number, "inf", "-inf" or "nan", found {shown(value)}')
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise wrong("the number does not fit f64")
    return number


INTEGER: Form[int] = integer(*I64)
COUNT: Form[int] = integer()
BOOLEAN: Form[bool] = Form(plain, _read_boolean, {"type": "boolean"})
NUMBER: Form[float] = Form(
    _write_number, _read_number, {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
)


# Expressions and references


def _read_expression(value: object) -> IntExpr:
    if not isinstance(value, str):
        raise wrong(f"expected the text of an integer expression, found {shown(value)}")
    try:
        expr = parse_expression(value)
    except SymbolicSyntaxError as error:
        raise wrong(f"no integer expression: {error}, at character {error.offset} of {shown(value)}") from error
    except (ValueError, RecursionError) as error:
        raise wrong(f"no integer expression: {shown(value)}") from error
    if any(number > I64[1] for number in constants(expr)):
        raise wrong(f"an integer of {shown(value)} does not fit 64 bits")
    return expr


def _read_element(value: object) -> IntExpr:
    """Read an element of an expression list, where a lone integer may be negative."""
    if isinstance(value, str) and re.fullmatch(r"-[0-9]{1,19}", value):
        return Const(INTEGER.read(int(value)))
    return _read_expression(value)


def _read_reference(value: object) -> Ref:
    match = _REFERENCE.match(value) if isinstance(value, str) else None
    if match is None or _IDENTIFIER.match(match["name"]) is None:
        raise wrong_type(f"expected a variable such as `x` or `W[l,0]`, found {shown(value)}")
    indices = match["indices"]
    return Ref(match["name"], tuple(_read_expression(i) for i in indices.split(",")) if indices is not None else ())


_EXPRESSION_TEXT = {"type": "string", "pattern": "^[-A-Za-z0-9_+*/%()\\s]+$"}

EXPRESSION: Form[IntExpr] = Form(expression_text, _read_expression, _EXPRESSION_TEXT)
LIST_ELEMENT: Form[IntExpr] = Form(expression_text, _read_element, _EXPRESSION_TEXT)
REFERENCE: Form[Ref] = Form(ref_text, _read_reference, matching(_REFERENCE))


# Lists and unions


def list_of(inner: Form[ValueT], *, least: int = 0) -> Form[tuple[ValueT, ...]]:
    """Return the form of a list of at least so many values of one form."""

    def read(value: object) -> tuple[ValueT, ...]:
        if not isinstance(value, list):
            raise wrong_type(f"expected a list, found {shown(value)}")
        items = cast("list[object]", value)
        if len(items) < least:
            raise wrong_type(f"expected a list of at least {least}, found {len(items)}")
        return tuple(collected(enumerate(items), inner.read))

    schema: dict[str, Any] = {"type": "array", "items": inner.schema, **({"minItems": least} if least else {})}
    return Form(lambda values: [inner.write(value) for value in values], read, schema)


def collected(items: Iterable[tuple[str | int, object]], read: Callable[[Any], ValueT]) -> list[ValueT]:
    """Return what is read from each item.

    Raises:
        FormError: with the problems of all items, each placed by the item's key.
    """
    loaded: list[ValueT] = []
    problems: list[Problem] = []
    for key, item in items:
        try:
            loaded.append(read(item))
        except FormError as error:
            problems += error.within(key).problems
    if problems:
        raise FormError(*problems)
    return loaded


def members(value: object, what: str) -> dict[str, object]:
    """Return the members of an object.

    Raises:
        FormError: it is none.
    """
    if not isinstance(value, dict):
        raise wrong_type(f"expected {what}, found {shown(value)}")
    return cast("dict[str, object]", value)


def tagged(value: object, what: str) -> tuple[str, object]:
    """Return tag and payload of a union written as an object with one key.

    Raises:
        FormError: it is none.
    """
    pairs = list(members(value, f"{what} as an object with one key").items())
    if len(pairs) != 1:
        raise wrong_type(f"expected {what} as an object with one key, found {len(pairs)} keys")
    return pairs[0]


def union_schema(payloads: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON Schema of an object with one key, the tag, from those of the payloads."""
    single = {"minProperties": 1, "maxProperties": 1, "additionalProperties": False}
    return {"type": "object", "properties": dict(payloads), **single}


def tagged_schema(forms: Mapping[str, Form[Any]]) -> dict[str, Any]:
    """Return the JSON Schema of what `read_tagged` reads."""
    return union_schema({tag: form.schema for tag, form in forms.items()})


def read_tagged(value: object, forms: Mapping[str, Form[Any]], what: str) -> tuple[str, Any]:
    """Return tag and read payload of a union.

    Raises:
        FormError: the tag is none of the forms' keys, or the payload is wrong.
    """
    tag, payload = tagged(value, what)
    form = forms[one_of(tag, forms, what)]
    try:
        return tag, form.read(payload)
    except FormError as error:
        raise error.within(tag) from error
