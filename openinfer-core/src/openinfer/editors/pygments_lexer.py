"""A lexer of the language for Pygments: documentation, notebooks, terminals.

Keywords are contextual (a variable may be called ``op``), so the lexer follows the statements.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import (
    RegexLexer,
    bygroups,  # pyright: ignore[reportUnknownVariableType]
    default,
    include,
)
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

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

__all__ = ["OpenInferLexer"]

_DTYPE = any_of(DTYPES)
_PLAIN = any_of(tuple(word for word in STATEMENTS if word not in ("op", "cache", "assign", "loop")))


class OpenInferLexer(RegexLexer):
    """Highlights OpenInfer programs (``.oi``)."""

    name = "OpenInfer"
    aliases = ("openinfer", "oi")
    filenames = ("*.oi",)
    mimetypes = ("text/x-openinfer",)
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            include("space"),
            (rf"({any_of(MEMORY)})(\s*)(\{{)", bygroups(Keyword.Declaration, Whitespace, Punctuation), "section"),
            (rf"(block)(\s+)({NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function), "head"),
            (r"[;}]", Punctuation),
            include("value"),
        ],
        "space": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
        ],
        "comment": [
            (r"[^*/]+", Comment.Multiline),
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[*/]", Comment.Multiline),
        ],
        "section": [
            include("space"),
            (r"\}", Punctuation, "#pop"),
            (NAME, Name.Variable, "declaration"),
            (r";", Punctuation),
            include("value"),
        ],
        "declaration": [
            include("space"),
            (rf"(@)(\s*)({NAME})", bygroups(Name.Decorator, Whitespace, Name.Decorator)),
            (rf"{any_of(ATTRIBUTES)}(?=\s*[(@;])", Name.Decorator),
            include("rest"),
        ],
        "head": [
            include("space"),
            include("hints"),
            (r"\{", Punctuation, ("#pop", "body")),
            (r"(?=[;}])", Punctuation, "#pop"),
            include("value"),
        ],
        "hints": [(r"(with)(\s*)(\{)", bygroups(Keyword, Whitespace, Punctuation), "hint")],
        "hint": [
            include("space"),
            (r"\}", Punctuation, "#pop"),
            (r"(?=;)", Punctuation, "#pop"),
            include("value"),
        ],
        "body": [
            include("space"),
            (r"\}", Punctuation, "#pop"),
            (rf"(op)(\s+)({NAME})", bygroups(Keyword, Whitespace, Name.Builtin), "statement"),
            (
                rf"(cache)(\s*)(\.)(\s*)({any_of(CACHE_VERBS)})",
                bygroups(Keyword, Whitespace, Punctuation, Whitespace, Keyword),
                "statement",
            ),
            (rf"(assign)(\s+)({NAME})", bygroups(Keyword, Whitespace, Name.Variable), "statement"),
            (
                rf"(loop)(\s+)({NAME})(\s*)(\()(\s*)({NAME})(\s+)(in)(?![A-Za-z0-9_])",
                bygroups(
                    *(Keyword, Whitespace, Name.Label, Whitespace, Punctuation),
                    *(Whitespace, Name.Variable, Whitespace, Keyword),
                ),
                "statement",
            ),
            (r"(dep)(\s+)(after)(?=\s*\()", bygroups(Keyword, Whitespace, Keyword), "dep"),
            (_PLAIN, Keyword, "statement"),
            (r";", Punctuation),
            include("value"),
        ],
        "dep": [(r"before(?=\s*\()", Keyword), include("statement")],
        "statement": [
            include("space"),
            include("hints"),
            (r"\{", Punctuation, ("#pop", "body")),
            include("rest"),
        ],
        "rest": [
            (r";", Punctuation, "#pop"),
            (r"(?=\})", Punctuation, "#pop"),
            (rf"(:)(\s*)({_DTYPE})", bygroups(Punctuation, Whitespace, Keyword.Type)),
            (
                rf"({any_of(DTYPE_SETTINGS)})(\s*)(=)(\s*)({_DTYPE})",
                bygroups(Name.Attribute, Whitespace, Operator, Whitespace, Keyword.Type),
            ),
            (
                rf"({any_of(DTYPE_SETTINGS)})(\s*)(=)(\s*)(\[)",
                bygroups(Name.Attribute, Whitespace, Operator, Whitespace, Punctuation),
                "types",
            ),
            include("value"),
        ],
        "types": [
            include("space"),
            (_DTYPE, Keyword.Type),
            (r",", Punctuation),
            (r"\]", Punctuation, "#pop"),
            default("#pop"),
        ],
        "value": [
            (r'"', String.Double, "string"),
            (r"(?:true|false|inf|nan)(?![A-Za-z0-9_])", Keyword.Constant),
            (FLOAT, Number.Float),
            (INTEGER, Number.Integer),
            (rf"{NAME}(?=\s*=)", Name.Attribute),
            (NAME, Name),
            (r">>|\.\.|[-+*/%=]", Operator),
            (r"[()\[\]{},:.@]", Punctuation),
        ],
        "string": [
            (r'[^"\\\n]+', String.Double),
            (r"\\(?:x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f]+\}|[^\n])", String.Escape),
            (r'"', String.Double, "#pop"),
            (r"(?=\n)", String.Double, "#pop"),
        ],
    }
