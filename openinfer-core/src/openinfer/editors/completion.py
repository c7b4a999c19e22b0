"""What may be written at a place of a program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from openinfer.dtypes import BY_NAME
from openinfer.editors.hover import dtype_text, operator, operator_text, setting_text
from openinfer.editors.outline import Role, Sort
from openinfer.editors.words import ATTRIBUTES, CACHE_VERBS, MEMORY, STATEMENTS
from openinfer.ir.language import KNOWN_HINTS
from openinfer.ops.schema import SettingType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.dsl.tokens import Token
    from openinfer.editors.analysis import Analysis
    from openinfer.editors.outline import Definition, Outline
    from openinfer.model import Model
    from openinfer.ops.schema import OpSchema, SettingSpec
    from openinfer.plugins.environment import Environment


class Class(Enum):
    """What a proposal is, for its icon."""

    KEYWORD = "keyword"
    OPERATOR = "operator"
    SETTING = "setting"
    VARIABLE = "variable"
    BLOCK = "block"
    DTYPE = "dtype"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A word that fits: ``insert`` is what is written for it, ``detail`` one line, ``documentation`` Markdown."""

    label: str
    of: Class
    insert: str
    detail: str = ""
    documentation: str = ""


def completions(analysis: Analysis, offset: int, environment: Environment, model: Model | None) -> list[Proposal]:
    """Return what may be written at an offset, whether or not part of it is there."""
    outline = analysis.outline
    segment = outline.segment_at(offset)
    before = [token for token in segment.tokens if token.end < offset or (token.end == offset and not _word(token))]
    if any(token.kind == "string" and token.start < offset <= token.end for token in segment.tokens):
        return []
    sizes = _sizes(outline, model)
    if segment.section == "block":
        return list(_statement(_Place(outline, before, offset, environment, sizes)))
    if segment.section:
        return list(_declaration(before, environment, sizes))
    return [] if before else list(_words((*MEMORY, "block")))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something is to be completed: ``before`` are the finished tokens of its statement."""

    outline: Outline
    before: Sequence[Token]
    offset: int
    environment: Environment
    sizes: Sequence[Proposal]

    def variables(self, *sections: str) -> Iterator[Proposal]:
        """Yield the visible variables, all but persistent ones, or those of some sections (temporaries: "")."""
        for found in self.outline.visible(self.offset):
            section = found.section if found.sort is Sort.VARIABLE else ""
            if (section in sections) if sections else section != "persistent":
                yield _variable(found)

    def blocks(self) -> Iterator[Proposal]:
        names = {d.name for d in self.outline.definitions if d.sort is Sort.BLOCK and d.name != "entry"}
        return (Proposal(label=name, of=Class.BLOCK, insert=name, detail="block") for name in sorted(names))


def _word(token: Token) -> bool:
    return token.kind in ("name", "word", "number")


def _words(words: Iterable[str]) -> Iterator[Proposal]:
    return (Proposal(label=word, of=Class.KEYWORD, insert=word) for word in words)


def _variable(found: Definition) -> Proposal:
    return Proposal(label=found.name, of=Class.VARIABLE, insert=found.name, detail=found.text)


def _dtypes() -> Iterator[Proposal]:
    for dtype in dict.fromkeys(BY_NAME.values()):
        yield Proposal(label=dtype.name, of=Class.DTYPE, insert=dtype.name, documentation=dtype_text(dtype))


def _sizes(outline: Outline, model: Model | None) -> list[Proposal]:
    known = {} if model is None else {name: f"= {value}" for name, value in model.sizevars.items()}
    seen = {occurrence.name: "" for occurrence in outline.occurrences if occurrence.role is Role.SIZE}
    return [
        Proposal(label=name, of=Class.VALUE, insert=name, detail=f"size variable {detail}".strip())
        for name, detail in sorted({**seen, **known}.items())
    ]


# Declarations


def _declaration(before: Sequence[Token], environment: Environment, sizes: Sequence[Proposal]) -> Iterator[Proposal]:
    texts = [token.text for token in before]
    if not texts or ":" not in texts:
        return
    after = texts[texts.index(":") + 1 :]
    if not after:
        yield from _dtypes()
    elif after.count("[") > after.count("]"):
        yield from sizes
    elif after.count("(") > after.count(")"):
        end = texts.index(")") if ")" in texts[: texts.index(":")] else 0
        formals = [token for token in before[:end] if token.kind == "name"][1:]
        yield from _words(token.text for token in formals)
    else:
        at = "" if after[-1] == "@" else "@"
        for name in (*ATTRIBUTES, *environment.attributes):
            summary = environment.attributes[name].summary if name in environment.attributes else ""
            yield Proposal(label=f"@{name}", of=Class.KEYWORD, insert=f"{at}{name}", detail=summary)


# Statements


def _statement(place: _Place) -> Iterator[Proposal]:
    texts = [token.text for token in place.before]
    if not texts:
        yield from _words(STATEMENTS)
        return
    if "with" in texts[1:] and "{" in texts:
        yield from _hints(texts)
        return
    match texts[0]:
        case "op":
            yield from _op(place, texts)
        case "cache":
            yield from _cache(place, texts)
        case "assign":
            if texts[-1] == ":":
                yield from _dtypes()
            elif "[" in texts:
                yield from place.sizes
        case "branch":
            yield from _branch(place, texts)
        case "loop":
            yield from (*place.variables(), *place.sizes)
        case "transfer":
            sections = ("dynamic", "volatile", "") if ">>" in texts else ()
            yield from place.variables(*sections)
        case "yield" | "await" | "return":
            yield from place.variables()
        case _:
            pass


def _hints(texts: Sequence[str]) -> Iterator[Proposal]:
    if texts[-1] != "=":
        for name, (_, form) in KNOWN_HINTS.items():
            yield Proposal(label=name, of=Class.SETTING, insert=f"{name} = ", detail=form)
    elif texts[-2] in KNOWN_HINTS and "true" in KNOWN_HINTS[texts[-2]][1]:
        yield from _words(("true", "false"))


def _op(place: _Place, texts: Sequence[str]) -> Iterator[Proposal]:
    if len(texts) == 1:
        yield from _operators(place.environment)
        return
    if ">>" in texts:
        yield from place.variables("dynamic", "volatile", "")
        return
    schema = operator(place.environment, texts[1])
    if texts[-1] == "=" or (texts[-1] in ("[", ",") and _in_list(texts)):
        name = texts[-2] if texts[-1] == "=" else texts[_list_start(texts) - 2]
        yield from _setting_values(place, schema, name)
        return
    if texts[-1] in ("(", ",") and schema is not None:
        yield from _settings(schema, texts)
    yield from place.variables()
    if "[" in texts:
        yield from place.sizes


def _in_list(texts: Sequence[str]) -> bool:
    start = _list_start(texts)
    return start > 0 and texts[start - 1] == "=" and "]" not in texts[start:]


def _list_start(texts: Sequence[str]) -> int:
    return max((place for place, text in enumerate(texts) if text == "["), default=0)


def _operators(environment: Environment) -> Iterator[Proposal]:
    for schema in environment.ops.values():
        for name in (schema.name, *schema.aliases):
            yield Proposal(
                label=name,
                of=Class.OPERATOR,
                insert=name,
                detail=schema.summary if name == schema.name else f"{schema.name}: {schema.summary}",
                documentation=operator_text(schema),
            )


def _settings(schema: OpSchema, texts: Sequence[str]) -> Iterator[Proposal]:
    given = {name for name, mark in pairwise(texts) if mark == "="}
    for setting in schema.settings:
        if not given & {setting.name, *setting.aliases}:
            text = setting_text(setting)
            yield Proposal(label=f"{setting.name}=", of=Class.SETTING, insert=f"{setting.name}=", documentation=text)
    for item in schema.inputs:
        if item.optional and item.name not in given:
            yield Proposal(label=f"{item.name}=", of=Class.SETTING, insert=f"{item.name}=", detail=item.doc)


def _setting_values(place: _Place, schema: OpSchema | None, name: str) -> Iterator[Proposal]:
    setting = None if schema is None else schema.setting(name)
    if setting is not None:
        yield from _literals(setting)
    yield from place.variables()
    yield from place.sizes


def _literals(setting: SettingSpec) -> Iterator[Proposal]:
    if setting.type in (SettingType.DTYPE, SettingType.ACC):
        yield from _dtypes()
    elif setting.type is SettingType.BOOL:
        yield from _words(("true", "false"))
    for choice in setting.choices:
        yield Proposal(label=f'"{choice}"', of=Class.VALUE, insert=f'"{choice}"')


def _cache(place: _Place, texts: Sequence[str]) -> Iterator[Proposal]:
    if len(texts) < 3:
        yield from _words(CACHE_VERBS if texts[-1] == "." else ())
        return
    verb, arrow = texts[2], ">>" in texts
    if texts.count("[") > texts.count("]"):
        yield from (*place.variables(), *place.variables("persistent"), *place.sizes)
    elif (verb == "write") == arrow:
        yield from place.variables("persistent")
    elif verb in ("read", "write"):
        yield from place.variables(*(("dynamic", "volatile", "") if arrow else ()))


def _branch(place: _Place, texts: Sequence[str]) -> Iterator[Proposal]:
    yield from place.blocks()
    if len(texts) == 1:
        yield from place.variables()
