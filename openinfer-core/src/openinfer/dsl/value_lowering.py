"""Values of phase B: element types, settings and hints, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from openinfer.diagnostics import Diagnostic, Severity, did_you_mean
from openinfer.dsl.settings import ListError, attr_value
from openinfer.dtypes import BY_NAME, F32, DType
from openinfer.ir.dtype_names import near_dtype
from openinfer.ir.language import KNOWN_HINTS
from openinfer.ir.values import Attrs, AttrValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.diagnostics import Span
    from openinfer.dsl.syntax import Place, Setting, Word


class Spans(Protocol):
    """Converts places to spans, if there is a source text to show."""

    def of(self, place: Place) -> Span | None: ...


class ValueLowering:
    """Returns values of a program, with the findings so far."""

    def __init__(self, positions: Spans) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.positions = positions

    def error(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        """Record an error."""
        self.errors.append(Diagnostic(code=code, message=message, span=self.positions.of(place), hint=hint))

    def warn(self, code: str, message: str, place: Place, hint: str | None = None, *, name: str | None = None) -> None:
        """Record a warning; ``name`` is that of what it is about."""
        span = self.positions.of(place)
        found = Diagnostic(code=code, message=message, severity=Severity.WARNING, span=span, hint=hint, name=name)
        self.warnings.append(found)

    def dtype(self, word: Word) -> DType:
        """Return the element type of that name; report an unknown one, and return a placeholder."""
        dtype = BY_NAME.get(word.text)
        if dtype is None:
            self.error("unknown-dtype", f"unknown element type `{word.text}`", word.place, near_dtype(word.text))
        return dtype or F32

    def settings(self, written: Iterable[Setting], duplicate: str) -> Attrs:
        """Return named values in the order written; report duplicates and mixed lists."""
        found: dict[str, AttrValue] = {}
        for setting in written:
            name = cast("Word", setting.name)
            if name.text in found:
                self.error(duplicate, f"`{name.text}` is given twice", name.place)
            value = self.value(setting, name.text)
            if value is not None:
                found.setdefault(name.text, value)
        return Attrs(found)

    def value(self, setting: Setting, name: str | None = None) -> AttrValue | None:
        """Return the value of a setting; report a list that mixes kinds."""
        try:
            return attr_value(setting.value, name)
        except ListError as error:
            self.error("bad-list", str(error), setting.value.place)
            return None

    def hints(self, written: tuple[Setting, ...]) -> Attrs:
        """Return hints; report wrong types of known ones, and warn about unknown ones."""
        hints = self.settings(written, "duplicate-hint")
        for setting in written:
            name = cast("Word", setting.name)
            known = KNOWN_HINTS.get(name.text)
            if known is None:
                self.warn(
                    "unknown-hint", f"unknown hint `{name.text}`", name.place, did_you_mean(name.text, KNOWN_HINTS)
                )
            elif name.text in hints and not isinstance(self.value(setting), known[0]):
                self.error("bad-hint", f"hint `{name.text}` takes {known[1]}", setting.value.place)
        return hints
