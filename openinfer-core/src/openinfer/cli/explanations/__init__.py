"""What each code of a finding means: one file for each code, with a program that gets it and one that does not."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from enum import Enum
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import did_you_mean
from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable


class Phase(Enum):
    """When a finding is made; the value is what files say, ``title`` what a person reads."""

    PARSE = "P"
    BUILD = "B"
    STRUCTURE = "S"
    VALIDATION = "V"
    DOCUMENT = "J"
    RUN = "R"
    OPENING = "O"
    SYNTHESIS = "Y"

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES = {
    Phase.PARSE: "while the text is parsed",
    Phase.BUILD: "while the graph is built",
    Phase.STRUCTURE: "when the structure is checked",
    Phase.VALIDATION: "when the graph meets a model and operators",
    Phase.DOCUMENT: "while a JSON document is read",
    Phase.RUN: "when the host runs steps",
    Phase.OPENING: "when files, devices and plugins are opened",
    Phase.SYNTHESIS: "while a program is synthesised",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code.

    Attributes:
        text: what it means, in prose.
        kind: what the examples are: a ``program``, a ``graph`` as JSON, or a ``device`` file.
        wrong: an example that gets the finding; empty where a text alone cannot get it.
        right: the same without the mistake; may be empty.
        given: what has to be true of the machine or of its plugins; empty where nothing has.
        files: texts by file name, beside `example.oi` (which is ``wrong``) and `example.oinf` (its model).
        host: Python that gets the finding, from an ``executor`` of ``wrong``; empty where checks alone find it.
        command: a command that gets the finding; empty where checks or the host find it.
        said: what the host or the command is then told.
        sizes, tensors: the model that programs are checked against; tensors as types such as ``f32[2, 4]``.
    """

    code: str
    phase: Phase
    text: str
    kind: str = "program"
    wrong: str = ""
    right: str = ""
    given: str = ""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    host: str = ""
    command: str = ""
    said: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    tensors: Mapping[str, str] = field(default_factory=dict[str, str])


def codes() -> tuple[str, ...]:
    """Return every code that is explained, by phase, then by name."""
    order = list(Phase)
    return tuple(sorted(_files(), key=lambda code: (order.index(explanation(code).phase), code)))


def explanation(code: str) -> Explanation:
    """Return what a code means.

    Raises:
        OpenInferError: there is no such code.
    """
    known = _files()
    if code not in known:
        hint = did_you_mean(code, known) or "`openinfer explain --list` lists them"
        raise OpenInferError(f"there is no code {code!r}: {hint}", code="unknown-code")
    content: dict[str, Any] = tomllib.loads(known[code].read_text(encoding="utf-8"))
    phase = Phase(content.pop("phase"))
    return Explanation(code=code, phase=phase, **content)


def _files() -> dict[str, Traversable]:
    found = (file for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    return {file.name.removesuffix(".toml"): file for file in found}
