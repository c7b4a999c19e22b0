"""The TextMate grammar of the language, built from the parser's own word lists.

``python -m openinfer.editors.textmate`` prints it; the package ships it as ``openinfer.tmLanguage.json``.
"""

from __future__ import annotations

import json
import sys
from importlib import resources
from typing import Any

from openinfer.editors.words import (
    ATTRIBUTES,
    CACHE_VERBS,
    DTYPE_SETTINGS,
    DTYPES,
    FLOAT,
    INTEGER,
    MEMORY,
    NAME,
    STATEMENTS,
    any_of,
)

_DTYPE = any_of(DTYPES)
_START = r"(?<![A-Za-z0-9_])"


def grammar_text() -> str:
    """Return the grammar as JSON text."""
    return json.dumps(_grammar(), indent=2) + "\n"


def shipped() -> str:
    """Return the text of the grammar file in this package."""
    return resources.files("openinfer.editors").joinpath("openinfer.tmLanguage.json").read_text(encoding="utf-8")


def _grammar() -> dict[str, Any]:
    return {
        "name": "OpenInfer",
        "scopeName": "source.openinfer",
        "fileTypes": ["oi"],
        "patterns": [_include("comments"), _include("section"), _include("block"), _include("body")],
        "repository": {
            "comments": {"patterns": [_match(r"//.*$", "comment.line.double-slash"), _comment()]},
            "nested-comment": _comment(),
            "section": _section(),
            "declaration": _declaration(),
            "block": _block(),
            "body": _body(),
            "hints": _hints(),
            "statement": _statement(),
            "types": {"patterns": _types()},
            "values": {"patterns": _values()},
        },
    }


def _scoped(name: str) -> str:
    return f"{name}.openinfer"


def _include(name: str) -> dict[str, str]:
    return {"include": f"#{name}"}


def _match(pattern: str, name: str) -> dict[str, Any]:
    return {"match": pattern, "name": _scoped(name)}


def _captures(pattern: str, *names: str) -> dict[str, Any]:
    return {"match": pattern, "captures": _groups(*names)}


def _groups(*names: str) -> dict[str, Any]:
    return {str(number): {"name": _scoped(name)} for number, name in enumerate(names, 1)}


def _region(begin: str, end: str, *patterns: dict[str, Any], names: tuple[str, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {"begin": begin, "end": end, "patterns": [_include("comments"), *patterns]}
    return {**found, "beginCaptures": _groups(*names)} if names else found


def _comment() -> dict[str, Any]:
    return {
        "begin": r"/\*",
        "end": r"\*/",
        "name": _scoped("comment.block"),
        "patterns": [_include("nested-comment")],
    }


def _section() -> dict[str, Any]:
    return _region(rf"{_START}({any_of(MEMORY)})\s*\{{", r"\}", _include("declaration"), names=("storage.type.memory",))


def _declaration() -> dict[str, Any]:
    return _region(
        rf"{_START}({NAME})",
        r";|(?=\})",
        _match(rf"@\s*{NAME}", "entity.other.attribute-name"),
        _match(rf"{_START}{any_of(ATTRIBUTES)}(?=\s*[(@;])", "entity.other.attribute-name"),
        _include("types"),
        _include("values"),
        names=("variable.other.declaration",),
    )


def _block() -> dict[str, Any]:
    return _region(
        rf"{_START}(block)\s+({NAME})",
        r"(?=[{}])|;",
        _include("hints"),
        names=("storage.type.block", "entity.name.function"),
    )


def _body() -> dict[str, Any]:
    return _region(r"\{", r"\}", _include("statement"), _include("body"))


def _hints() -> dict[str, Any]:
    return _region(rf"{_START}(with)\s*\{{", r"\}|(?=;)", _include("values"), names=("keyword.other",))


def _statement() -> dict[str, Any]:
    # A statement ends at its semicolon; a loop or scope ends where its body begins.
    end = r";|(?=[{}])"
    rest = (_include("hints"), _include("types"), _include("values"))
    plain = any_of(tuple(word for word in STATEMENTS if word not in ("op", "cache", "assign", "loop", "dep")))
    return {
        "patterns": [
            _region(rf"{_START}(op)\s+({NAME})", end, *rest, names=("keyword.control", "support.function")),
            _region(rf"{_START}(cache\s*\.\s*{any_of(CACHE_VERBS)})", end, *rest, names=("keyword.control",)),
            _region(
                rf"{_START}(assign)\s+({NAME})", end, *rest, names=("keyword.control", "variable.other.declaration")
            ),
            _region(
                rf"{_START}(loop)\s+({NAME})\s*\(\s*({NAME})\s+(in)(?![A-Za-z0-9_])",
                end,
                *rest,
                names=("keyword.control", "entity.name.label", "variable.other.index", "keyword.control"),
            ),
            _region(
                rf"{_START}(dep)(?![A-Za-z0-9_])",
                end,
                _match(rf"{_START}(?:after|before)(?=\s*\()", "keyword.control"),
                *rest,
                names=("keyword.control",),
            ),
            _region(rf"{_START}({plain})", end, *rest, names=("keyword.control",)),
        ]
    }


def _types() -> list[dict[str, Any]]:
    setting = any_of(DTYPE_SETTINGS)
    return [
        _captures(rf":\s*({_DTYPE})", "storage.type.element"),
        _captures(rf"{_START}({setting})\s*=\s*({_DTYPE})", "variable.parameter", "storage.type.element"),
        _region(
            rf"{_START}({setting})\s*=\s*\[",
            r"\]|(?=[;{}])",
            _match(rf"{_START}{_DTYPE}", "storage.type.element"),
            names=("variable.parameter",),
        ),
    ]


def _values() -> list[dict[str, Any]]:
    return [
        {
            "begin": '"',
            "end": '"|$',
            "name": _scoped("string.quoted.double"),
            "patterns": [_match(r"\\(?:x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f]+\}|.)", "constant.character.escape")],
        },
        _match(rf"{_START}(?:true|false|inf|nan)(?![A-Za-z0-9_])", "constant.language"),
        _match(rf"{_START}{FLOAT}", "constant.numeric.float"),
        _match(rf"{_START}{INTEGER}", "constant.numeric.integer"),
        _match(rf"{_START}{NAME}(?=\s*=)", "variable.parameter"),
        _match(r">>|\.\.|[-+*/%=]", "keyword.operator"),
        _match(rf"{_START}{NAME}", "variable.other"),
    ]


if __name__ == "__main__":
    sys.stdout.write(grammar_text())
