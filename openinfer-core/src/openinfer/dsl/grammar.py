"""The grammar of the language, matched one declaration or statement at a time.

Every terminal includes the white space that follows it, so that trees contain tokens only; comments are blanked out
before. Sums are matched flat (`openinfer.symbolic` gives integer expressions their shape), so the matcher recurses only
as deep as the parentheses nest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from parsimonious.exceptions import ParseError
from parsimonious.expressions import Expression
from parsimonious.grammar import Grammar
from parsimonious.nodes import Node

from openinfer.ir.language import ATTRIBUTES
from openinfer.symbolic import LITERAL_WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPACE = r"[ \t\r\n\f\v]*"
_END = r"(?![A-Za-z0-9_])"
_DIGITS = r"[0-9][0-9_]*"
_EXPONENT = rf"[eE][-+]?{_DIGITS}"

NAME = rf"(?!(?:{'|'.join(LITERAL_WORDS)}){_END})[A-Za-z_][A-Za-z0-9_]*"
INTEGER = (
    rf"(?:0[xX]_*[0-9A-Fa-f][0-9A-Fa-f_]*|0[oO]_*[0-7][0-7_]*|0[bB]_*[01][01_]*|{_DIGITS})"
    rf"(?:[iu](?:8|16|32|64|128|size))?{_END}"
)
FLOAT = (
    rf"(?:{_DIGITS}\.{_DIGITS}(?:{_EXPONENT})?{_END}|{_DIGITS}{_EXPONENT}{_END}"
    rf"|{_DIGITS}\.(?![.0-9A-Za-z_])|(?:inf|nan){_END})"
)
STRING = r"\x22(?:[^\x22\\\n]|\\.)*\x22"
TOKEN = (
    rf"(?P<string>{STRING})|(?P<number>{FLOAT}|{INTEGER})|(?P<name>{NAME})|(?P<word>[A-Za-z0-9_]+)"
    r"|(?P<mark>>>|\.\.=|\.+|\S)"
)
"""Any token, by the terminals; a word is neither a name nor a number."""

_KEYWORDS = (
    *("block", "assign", "op", "transfer", "cache", "read", "write", "increment", "decrement", "reset", "branch"),
    *("loop", "in", "barrier", "dep", "after", "before", "yield", "await", "return", "scope", "with"),
)

TERMINALS: dict[str, tuple[str, str]] = {
    "name": (NAME, "a name"),
    "setting_name": (r"[A-Za-z_][A-Za-z0-9_]*", "a name"),
    "integer": (INTEGER, "an integer"),
    "signed": (rf"[-+]{SPACE}{INTEGER}", "an integer"),
    "minus": (rf"-{SPACE}{INTEGER}", "an integer"),
    "float": (rf"(?:[-+]{SPACE})?{FLOAT}", "a float"),
    "boolean": (rf"(?:true|false){_END}", "`true` or `false`"),
    "string": (STRING, "a string"),
    "operator": (r"[-+*/%]", "an operator"),
    "rounding": (rf"(?:floor|ceil){SPACE}(?=\()", "`floor` or `ceil`"),
    "arrow": (r">>", "`>>`"),
    "range": (r"\.\.(?![.=])", "`..`"),
    "dot": (r"\.(?!\.)", "`.`"),
    "colon": (r":", "`:`"),
    "semicolon": (r";", "`;`"),
    "comma": (r",", "`,`"),
    "equals": (r"=", "`=`"),
    "at": (r"@", "an attribute"),
    "open_paren": (r"\(", "`(`"),
    "close_paren": (r"\)", "`)`"),
    "open_bracket": (r"\[", "`[`"),
    "close_bracket": (r"\]", "`]`"),
    "open_brace": (r"\{", "`{`"),
    "close_brace": (r"\}", "`}`"),
    "memory": (rf"(?:dynamic|volatile|constants?|persistent){_END}", "a memory section"),
    **{f"kw_{word}": (rf"{word}{_END}", f"`{word}`") for word in _KEYWORDS},
    **{f"at_{word}": (rf"{word}{_END}", "an attribute") for word in ATTRIBUTES},
}

_RULES = r"""
memory_header = memory open_brace
block_header  = kw_block name hints? open_brace

declaration = name formals? colon name dims? attribute* semicolon
formals     = open_paren names close_paren
names       = name (comma name)* comma?
dims        = open_bracket sums? close_bracket
sums        = sum (comma sum)* comma?
sum         = factor (operator factor)*
factor      = integer / rounded / name / group
rounded     = rounding group
group       = open_paren sum close_paren

attribute = (at? known) / (at other)
known     = init / ref / pattern / table / auto_dim / fixed
init      = at_init open_paren literal close_paren
literal   = float / signed / integer / boolean
ref       = (at_reference / at_ref) open_paren text close_paren
text      = string / name
pattern   = at_pattern open_paren string close_paren
table     = at_table ""
auto_dim  = at_auto_dim open_paren names close_paren
fixed     = at_fixed open_paren bound (comma bound)* comma? close_paren
bound     = name equals integer
other     = !known_name name arguments?
known_name = at_init / at_reference / at_ref / at_pattern / at_table / at_auto_dim / at_fixed
arguments = open_paren (given (comma given)* comma?)? close_paren
given     = (name equals)? value

value     = string / list / float / boolean / signed / indexed / sum
list      = open_bracket (item (comma item)* comma?)? close_bracket
item      = string / float / boolean / signed / sum
indexed   = name subscript
subscript = open_bracket sums close_bracket
reference = name subscript?
setting   = setting_name equals value
hints     = kw_with open_brace (setting (comma setting)* comma?)? close_brace

assign   = kw_assign name colon name dims? semicolon
op       = kw_op name open_paren given_list? close_paren arrow name (comma name)* hints? semicolon
given_list = argument (comma argument)* comma?
argument = setting / literal / reference
transfer = kw_transfer reference arrow name hints? semicolon

access = name slots?
slots  = open_bracket slot? (comma slot?)* close_bracket
slot   = slice / index
slice  = index? range index?
index  = minus / sum

cache_read      = kw_cache dot kw_read access arrow name hints? semicolon
cache_write     = kw_cache dot kw_write reference arrow access hints? semicolon
cache_increment = kw_cache dot kw_increment (amount_of / one_of) semicolon
cache_decrement = kw_cache dot kw_decrement (amount_of / one_of) semicolon
amount_of       = amount name hints? &semicolon
one_of          = name hints? &semicolon
amount          = integer / group / name
cache_reset     = kw_cache dot kw_reset access hints? semicolon

branch  = kw_branch name (name name)? semicolon
loop    = kw_loop name open_paren name kw_in sum range sum close_paren hints? open_brace
barrier = kw_barrier semicolon
dep     = kw_dep kw_after open_paren target close_paren kw_before open_paren target close_paren semicolon
target  = name (dot name)?
yield   = kw_yield names semicolon
await   = kw_await names semicolon
return  = kw_return (name (comma name)*)? semicolon
scope   = kw_scope text hints? open_brace
"""

STATEMENTS = (
    *("assign", "op", "transfer", "cache", "branch", "loop", "barrier", "dep", "yield", "await", "return", "scope"),
)
"""First words of statements."""

CACHE_VERBS = ("read", "write", "increment", "decrement", "reset")


class Tree(Protocol):
    """A node of a parse tree, as parsimonious builds it."""

    children: Sequence[Tree]
    start: int
    end: int

    @property
    def expr_name(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A rule does not match: how far it got, and the names of the terminals that would have continued it there."""

    offset: int
    expected: frozenset[str]


class _MatchError(ParseError):
    """The furthest place ``pos`` where terminals were tried in vain; parsimonious hands it to every expression."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text, offset)
        self.expected: list[str] = []


class _Terminal(Expression):
    """A token and the white space that follows it.

    To match one again takes less time than to keep what matched, so that it stays out of the packrat cache.
    """

    def __init__(self, name: str, pattern: str) -> None:
        super().__init__(name)
        self._found = re.compile(pattern + SPACE).match

    def match_core(self, text: str, pos: int, cache: object, error: Any) -> Any:
        del cache
        found = self._found(text, pos)
        if found is not None:
            return Node(self, text, pos, found.end())
        if pos > error.pos:
            error.pos, error.expected = pos, [self.name]
        elif pos == error.pos:
            error.expected.append(self.name)
        return None


@cache
def _grammar() -> Mapping[str, Any]:
    terminals = {name: _Terminal(name, pattern) for name, (pattern, _) in TERMINALS.items()}
    return cast("Mapping[str, Any]", Grammar(_RULES, **terminals))


def match(rule: str, text: str, offset: int) -> Tree | Mismatch:
    """Match ``text`` from ``offset`` against a rule; the tree need not reach the end of the text."""
    error = _MatchError(text, offset)
    tree = _grammar()[rule].match_core(text, offset, defaultdict(dict), error)
    return Mismatch(error.pos, frozenset(error.expected)) if tree is None else cast("Tree", tree)


def words(terminal: str) -> str:
    """Return what a person calls a terminal."""
    return TERMINALS[terminal][1]
