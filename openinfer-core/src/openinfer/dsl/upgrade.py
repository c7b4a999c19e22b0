"""The earlier syntax rewritten where its meaning is clear (``specification: language.earlier``).

Every rewriting is recorded with its line. Constructs that need a decision cause specific errors: undeclared model data
inside a graph, and all forms of the earlier syntax that the parser recognises. Temporaries stay without a declaration:
validation infers their types.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.diagnostics import Source
from openinfer.dsl.formatting import formatted
from openinfer.dsl.positions import Positions
from openinfer.dsl.tokens import Token, scan
from openinfer.dsl.upgrade_model import (
    Declared,
    ModelUse,
    by_shape,
    declared,
    linked,
    model_uses,
    replacement,
    undeclared,
)
from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.dsl.upgrade_model import TypeOf

_SECTIONS = {"inputs": "dynamic", "outputs": "volatile", "state": "persistent"}
_STATEMENT_START = ("", ";", "{", "}")
_DIVISIONS = ("div", "recip", "reciprocal")
"""Operators that yielded NaN, not what IEEE 754 says, where a float is divided by 0."""

_MASK = "div_by_zero_mask"


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One rewriting: what was done, and the line of the original text, counted from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The outcome of an upgrade.

    Attributes:
        text: the program in the language of today; None where there is an error.
        changes: what was rewritten, or would have been without the error, in the order of the original text.
        divisions: lines of divisions without a mask in a text without earlier syntax. It may have been written when
            NaN was the result of floats divided by 0.
        error: what is left of the earlier syntax, or wrong otherwise. Where the name of its source ends in
            `` (upgraded)``, places are those of the rewritten text.
    """

    text: str | None
    changes: tuple[Change, ...]
    error: OpenInferError | None = None
    divisions: tuple[int, ...] = ()


def upgrade(text: str, *, name: str = "<text>", type_of: TypeOf | None = None) -> Upgrade:
    """Return the text in the language of today, laid out as `formatted` does, and what had to be rewritten for it.

    Args:
        type_of: the type of model data, such as ``"f32[3, 4]"``, for data that nothing is declared for: a name, or a
            pattern such as ``"w.{l}"`` if the second argument is true. By default such data are an error.
    """
    found = scan(text).tokens()
    words = [token for token in found if token.kind != "comment"]
    ends = _ends(words)
    edits = [edit for rule in _RULES for edit in rule(words, ends)]
    named, missing = _model_data(words, type_of)
    edits += named
    masks = _masks(words, ends)
    # A text without earlier syntax may mean the result of today.
    edits += masks if edits else []
    positions = Positions(Source(name, text))
    changes = tuple(Change(positions.line(edit.start), edit.what) for edit in sorted(edits) if edit.what)
    if missing:
        return Upgrade(None, changes, undeclared(missing, text, name))
    shown = f"{name} (upgraded)" if edits else name
    divisions = () if edits else tuple(positions.line(mask.start) for mask in masks)
    try:
        of_today = _edited(text, edits, [token for token in found if token.kind == "comment"])
        return Upgrade(formatted(of_today, name=shown), changes, divisions=divisions)
    except OpenInferError as error:
        return Upgrade(None, changes, error)


def upgraded(text: str, *, name: str = "<text>") -> str:
    """Return the text in the language of today, laid out as `formatted` does.

    Raises:
        OpenInferError: what is left of the earlier syntax, or wrong otherwise; places are those of the rewritten text.
    """
    found = upgrade(text, name=name)
    if found.error is not None:
        raise found.error
    return found.text or ""


def _model_data(words: Sequence[Token], type_of: TypeOf | None) -> tuple[list[_Edit], list[ModelUse]]:
    """Return the names of the variables that are declared for model data, and the uses that nothing is declared for."""
    variables = linked(words)
    added: dict[str, tuple[Declared, str]] = {}
    if type_of is not None:
        patterns = by_shape(variables)
        missing = [use for use in model_uses(words) if replacement(use, variables, patterns) is None]
        added = declared(missing, {word.text for word in words if word.kind == "name"}, type_of)
        variables |= {data: variable for data, (variable, _) in added.items()}
    patterns = by_shape(variables)
    named = [(use, replacement(use, variables, patterns)) for use in model_uses(words)]
    edits = [
        _Edit(use.start, use.end, f'named the variable `{written}` for the model data "{use.data}"', written)
        for use, written in named
        if written is not None
    ]
    if added:
        lines = "".join(f"{line} " for _, line in added.values())
        names = ", ".join(f"`{variable.name}`" for variable, _ in added.values())
        start = _program_start(words)
        edits.append(_Edit(start, start, f"declared {names} for data of the model", f"constant {{ {lines}}}\n"))
    return edits, [use for use, written in named if written is None]


def _program_start(words: Sequence[Token]) -> int:
    """Return the offset of the first section or block, inside of ``graph! {`` if that is there."""
    wrapped = (place + 3 for place in range(min(4, len(words))) if _texts(words, place, 3) == ("graph", "!", "{"))
    return words[next(wrapped, 0)].start


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """Characters ``start`` to ``end`` (excluded) become ``text``.

    ``what`` says so; it is empty for all but one of the edits that belong together.
    """

    start: int
    end: int
    what: str = field(compare=False)
    text: str = field(compare=False, default="")


def _edited(text: str, edits: list[_Edit], comments: list[Token]) -> str:
    """Return the text with every edit made; comments inside of what is replaced stay."""
    pieces: list[str] = []
    position = 0
    starts = [comment.start for comment in comments]
    for edit in sorted(edits):
        inside = comments[bisect_left(starts, edit.start) : bisect_left(starts, edit.end)]
        kept = (f"{comment.text}\n" for comment in inside)
        pieces += [text[position : edit.start], *kept, edit.text]
        position = edit.end
    return "".join([*pieces, text[position:]])


def _removed(first: Token, last: Token, what: str = "") -> _Edit:
    return _Edit(first.start, last.end, what)


def _texts(words: Sequence[Token], position: int, count: int) -> tuple[str, ...]:
    return tuple(word.text for word in words[position : position + count])


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where brackets and statements end, looked up once for all rules.

    Attributes:
        closing: by the position of an opening bracket that of the one that closes it, whatever its kind.
        last: the last position.
        semicolons: positions of the ``;``.
    """

    closing: Mapping[int, int]
    last: int
    semicolons: Sequence[int]

    def bracket(self, position: int) -> int:
        """Return the position of the bracket that closes the one at ``position``, or the last position."""
        return self.closing.get(position, self.last)

    def statement(self, position: int) -> int | None:
        """Return the position of the ``;`` that ends the statement at ``position``."""
        after = bisect_left(self.semicolons, position)
        return self.semicolons[after] if after < len(self.semicolons) else None


def _ends(words: Sequence[Token]) -> _Ends:
    closing: dict[int, int] = {}
    opened: list[int] = []
    for position, word in enumerate(words):
        if word.text in ("(", "[", "{"):
            opened.append(position)
        elif word.text in (")", "]", "}") and opened:
            closing[opened.pop()] = position
    return _Ends(closing, len(words) - 1, [position for position, word in enumerate(words) if word.text == ";"])


def _wrapper(words: Sequence[Token], ends: _Ends) -> Iterator[_Edit]:
    """Drop ``graph! { … }`` around the program."""
    for position in range(min(4, len(words))):
        if _texts(words, position, 3) == ("graph", "!", "{"):
            closing = ends.bracket(position + 2)
            yield _removed(words[0], words[position + 2], "removed `graph! {` around the program")
            yield _removed(words[closing], words[-1])


def _model(words: Sequence[Token], _: _Ends) -> Iterator[_Edit]:
    """Drop ``model: model,``: variables are linked by name."""
    for position, word in enumerate(words):
        if word.text == "model" and _texts(words, position + 1, 3) in ((":", "model", ","), (":", "model", ";")):
            yield _removed(word, words[position + 3], "removed `model: model`: variables are linked by name")


def _sections(words: Sequence[Token], _: _Ends) -> Iterator[_Edit]:
    """Give sections the names of today."""
    for position, word in enumerate(words):
        before = words[position - 1].text if position else ""
        if word.text in _SECTIONS and _texts(words, position + 1, 1) == ("{",) and before in (*_STATEMENT_START, ","):
            today = _SECTIONS[word.text]
            yield _Edit(word.start, word.end, f"renamed the section `{word.text}` to `{today}`", today)


def _buffers(words: Sequence[Token], ends: _Ends) -> Iterator[_Edit]:
    """Write ``buffer(f32, [B, D])`` as ``f32[B, D]``."""
    done = 0
    for position, word in enumerate(words):
        if _texts(words, position, 3) == (":", "buffer", "(") and position >= done:
            # One without an end says nothing, and what is inside of another is part of that.
            closing = done = ends.closing.get(position + 2, len(words))
            if closing == len(words):
                return
            inner = words[position + 3 : closing]
            dims = inner[2:] if len(inner) > 2 else ()
            dtype = inner[0].text if inner else ""
            text = f": {dtype}{' '.join(dim.text for dim in dims)}"
            shown = f"{dtype}{''.join(dim.text for dim in dims).replace(',', ', ')}"
            yield _Edit(word.start, words[closing].end, f"wrote `buffer(…)` as `{shown}`", text)


def _assigned(words: Sequence[Token], ends: _Ends) -> Iterator[_Edit]:
    """Write ``y = op f(x) with { … };`` as ``op f(x) >> y with { … };``, and effects as cache statements."""
    done = 0
    for position, word in enumerate(words):
        # What is inside of the parentheses of an effect is part of that.
        if word.text not in ("op", "effect") or position < done:
            continue
        before = words[position - 1].text if position else ""
        outputs = _outputs(words, position - 1) if before == "=" else ()
        end = ends.statement(position)
        is_statement = bool(outputs) or (word.text == "effect" and before in _STATEMENT_START)
        if not is_statement or end is None or _texts(words, position + 2, 1) != ("(",):
            continue
        first = outputs[0] if outputs else word
        names = ", ".join(name.text for name in outputs if name.kind == "name")
        if word.text == "effect":
            done = min(ends.bracket(position + 2), end)
            inside = words[position + 3 : done]
            yield from _effect(words[position + 1].text, inside, first, words[end], names)
        elif (closing := ends.bracket(position + 2)) < end:
            what = (
                f"wrote `{names} = op {words[position + 1].text}(…)` as `op {words[position + 1].text}(…) >> {names}`"
            )
            yield _removed(first, words[position - 1], what)
            yield _Edit(words[closing].end, words[closing].end, "", f" >> {names}")


def _outputs(words: Sequence[Token], equals: int) -> Sequence[Token]:
    """Return the names in front of ``=``: a name, or several with commas."""
    start = equals - 1
    while (
        start > 1 and words[start].kind == "name" and words[start - 1].text == "," and words[start - 2].kind == "name"
    ):
        start -= 2
    starts = start >= 0 and words[start].kind == "name"
    before = words[start - 1].text if start > 0 else ""
    return words[start:equals] if starts and before in _STATEMENT_START else ()


def _effect(verb: str, inside: Sequence[Token], first: Token, last: Token, names: str) -> Iterator[_Edit]:
    """Yield the cache statement of ``effect write(c, index=i, value=v);`` or ``h = effect read(c, index=i);``."""
    parts = _arguments(inside)
    target = parts.get("", "")
    access = f"{target}[{parts['index']}]" if "index" in parts else target
    if verb == "read" and names:
        text = f"cache.read {access} >> {names}"
    elif verb == "write" and "value" in parts:
        text = f"cache.write {parts['value']} >> {access}"
    else:
        return
    yield _Edit(first.start, last.start, f"wrote `effect {verb}(…)` as `{text}`", text)


def _arguments(words: Sequence[Token]) -> dict[str, str]:
    """Return arguments by name; the one without a name under the empty name."""
    found: dict[str, str] = {}
    current: list[str] = []
    name, depth = "", 0
    for text in (*(word.text for word in words), ","):
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if text == "," and depth == 0:
            found[name] = " ".join(current)
            name, current = "", []
        elif text == "=" and depth == 0 and len(current) == 1:
            name, current = current[0], []
        else:
            current.append(text)
    return found


def _masks(words: Sequence[Token], ends: _Ends) -> list[_Edit]:
    """Return the masks that keep NaN as the result of divisions by 0, which is 0 for integers."""
    edits: list[_Edit] = []
    written = [position for position, word in enumerate(words) if word.text == _MASK]
    for position, word in enumerate(words):
        if word.text != "op" or _texts(words, position + 2, 1) != ("(",) or words[position + 1].text not in _DIVISIONS:
            continue
        closing = ends.closing.get(position + 2)
        if closing is None or bisect_left(written, position) < bisect_left(written, closing):
            continue
        comma = "" if words[closing - 1].text in (",", "(") else ", "
        what = f"gave `op {words[position + 1].text}` its earlier result for a divisor of 0: {_MASK}=nan"
        edits.append(_Edit(words[closing].start, words[closing].start, what, f"{comma}{_MASK}=nan"))
    return edits


def _nested_blocks(words: Sequence[Token], ends: _Ends) -> Iterator[_Edit]:
    """Drop ``block name { … }`` inside of blocks, whose statements run in place."""
    depth = 0
    for position, word in enumerate(words):
        depth += (word.text == "{") - (word.text == "}")
        starts = word.text == "block" and depth > _wrapper_depth(words) and words[position - 1].text in _STATEMENT_START
        if starts and _texts(words, position + 2, 1) == ("{",):
            closing = words[ends.bracket(position + 2)]
            what = f"removed the block `{words[position + 1].text}`: its statements run in place"
            yield _removed(word, words[position + 2], what)
            yield _removed(closing, closing)


def _wrapper_depth(words: Sequence[Token]) -> int:
    return int(any(_texts(words, position, 2) == ("graph", "!") for position in range(min(4, len(words)))))


_RULES: tuple[Callable[[Sequence[Token], _Ends], Iterator[_Edit]], ...] = (
    _wrapper,
    _model,
    _sections,
    _buffers,
    _assigned,
    _nested_blocks,
)
