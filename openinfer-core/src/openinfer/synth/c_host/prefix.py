"""The prefix of external names, functions, types and macros, so that several models link into one program.

Source is written with the default prefix, ``model_step`` and ``MODEL_OK``, and renamed as a whole: a part that writes
code cannot forget it.
"""

from __future__ import annotations

import re

from openinfer.errors import SynthesisError
from openinfer.synth.identifiers import RESERVED

DEFAULT = "model"

LONGEST = 31
"""Characters of a prefix, which leave room in the 63 by which C99 tells identifiers apart."""

_LEGAL = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")

_WORDS = """
a i k n s t v w oi block end extent start index weight arena npy state states openinfer tm div pthread thrd mtx cnd tss
"""

_FILES = "board measured openinfer_platform openinfer_vulkan proof sketch variables weights"

_TAKEN = frozenset((*_WORDS.split(), *_FILES.split()))
"""Words that other names of the source, and structures of the C library, begin with, and names of other files."""

_PIECES = re.compile(
    r"""
    "(?:[^"\\\n]|\\.)*"               # string literals, which may hold anything
    | '(?:[^'\\\n]|\\.)+'             # characters
    | /\*.*?\*/                       # comments
    | \b(?P<name>model_(?=\w)|MODEL_(?=\w)|(?<=struct\ )model\b)
    """,
    re.VERBOSE | re.DOTALL,
)


def check_prefix(prefix: str) -> None:
    """Check that names may begin with a prefix.

    Raises:
        SynthesisError: they may not; the message says why.
    """
    if len(prefix) > LONGEST or not _LEGAL.fullmatch(prefix):
        wanted = f"lower-case letters, digits and single underscores between them, a letter first, at most {LONGEST}"
        raise SynthesisError(f"the prefix is {prefix!r}, expected {wanted}")
    if prefix in RESERVED or prefix in _TAKEN:
        raise SynthesisError(f"the prefix {prefix!r} has a meaning in C or in the generated source: choose another")


def with_prefix(source: str, prefix: str) -> str:
    """Return C source whose names begin with ``prefix`` in place of ``model``; literals and comments stay."""
    if prefix == DEFAULT:
        return source

    def renamed(found: re.Match[str]) -> str:
        if found["name"] is None:
            return found[0]
        return {"model_": f"{prefix}_", "MODEL_": f"{prefix.upper()}_", "model": prefix}[found["name"]]

    return _PIECES.sub(renamed, source)
