"""Names that ONNX and PyTorch have for operators, and their counterparts in the catalogue."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def other_name_hint(name: str, known: Iterable[str]) -> str | None:
    """Return what to write in place of an operator's name of ONNX or PyTorch; None for names that neither has.

    ``known`` are the operators that there are, with their aliases.
    """
    plain = plain_name(name)
    entry = other_names().get(plain)
    if entry is None:
        same = sorted(other for other in known if plain_name(other) == plain)
        return f"did you mean `{same[0]}`?" if same else None
    word, _, rest = entry.partition(" ")
    if word.rstrip(",") == "-":
        return f"it is not available; {rest}" if rest else "it is not available"
    return f"use `{word.rstrip(',')}`{',' if word.endswith(',') else ''}{' ' if rest else ''}{rest}"


def plain_name(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


@cache
def other_names() -> Mapping[str, str]:
    """Return the counterpart of each plain name."""
    return tomllib.loads(files("openinfer.ops").joinpath("other_names.toml").read_text(encoding="utf-8"))
