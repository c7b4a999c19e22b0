"""The functions of steps in fewer characters: short names of functions on vectors and narrow indentation.

Statements that are written out many times are most of a source. They call few functions on vectors, whose names say
more than a reader of one source needs: `KernelFunctions` writes each step for itself, with names that are the same in
every source.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VECTORS = re.compile(r"oi_(\w*[a-z]\d+x\d+)")
_FORMULA = re.compile(r"oi_(?P<functions>\w+)_[0-9a-f]{8}_(?P<type>[a-z]+\d+x\d+)")
_NAME = re.compile(r"\boi_\w+")
_INDENTED = re.compile(r"( *)(.*)", re.DOTALL)


def short_names(definitions: Iterable[str]) -> dict[str, str]:
    """Return shorter names for types and functions on vectors; formulas are numbered.

    Those that end with an element type and a number of lanes need no prefix to differ from what headers declare.
    """
    numbers = count(1)
    names: dict[str, str] = {}
    for name in definitions:
        formula, vectors = _FORMULA.fullmatch(name), _VECTORS.fullmatch(name)
        if formula is not None:
            names[name] = f"formula{next(numbers)}_{formula['type']}"
        elif vectors is not None:
            names[name] = vectors[1]
    return names


def with_names(lines: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return lines with other names."""
    return tuple(_NAME.sub(lambda found: names.get(found[0], found[0]), line) for line in lines)


def narrow(lines: Iterable[str]) -> tuple[str, ...]:
    """Return lines with half of their indentation."""
    return tuple(_INDENTED.sub(lambda found: f"{found[1][::2]}{found[2]}", line, count=1) for line in lines)


def named_definitions(definitions: Mapping[str, str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the types and functions with other names; a formula says which functions are in it."""
    return tuple(
        f"{_functions(name)}{text}"
        for name, text in zip(definitions, with_names(definitions.values(), names), strict=True)
    )


def _functions(name: str) -> str:
    formula = _FORMULA.fullmatch(name)
    return "" if formula is None else f"/* {formula['functions']} */\n"
