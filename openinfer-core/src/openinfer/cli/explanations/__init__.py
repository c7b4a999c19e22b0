"""What each code of a finding means: one file for each code, with a program that gets it and one that does not."""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import dataclass, field
from enum import Enum
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import did_you_mean
from openinfer.errors import OpenInferError, PluginError
from openinfer.plugins.crossing import PluginWarning, crossing, fault, shown
from openinfer.plugins.types import load_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.types import ModelFormatSpec


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
    FILE = "F"
    PLUGIN = "U"

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
    Phase.FILE: "when a model file is read or written",
    Phase.PLUGIN: "by a plugin",
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
        files: texts by file name, in addition to `example.oi` (which is ``wrong``) and `example.oinf` (its model).
        host: Python that gets the finding, from an ``executor`` of ``wrong``; empty where checks alone find it.
        command: a command that gets the finding; empty where checks or the host find it.
        said: the message that the host or the command then gets.
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
    """Return every code of OpenInfer itself, by phase, then by name; `format_codes` has those of model formats."""
    order = list(Phase)
    return tuple(sorted(_files(), key=lambda code: (order.index(_explained(code).phase), code)))


def format_codes() -> Mapping[str, str]:
    """Return the codes of the installed model formats, by name, and what they mean."""
    from openinfer.plugins.environment import Environment

    environment = Environment.default()
    found: dict[str, str] = {}
    for spec in environment.model_formats.values():
        try:
            found |= _codes_of(spec, environment.owner("model format", spec.name))
        except PluginError as error:
            warnings.warn(f"{error}; its codes are left out", PluginWarning, stacklevel=2)
    return dict(sorted(found.items()))


def plugin_codes() -> Mapping[str, str]:
    """Return the codes that plugins explain, by name, and what they mean; those of OpenInfer itself are not theirs."""
    from openinfer.plugins.environment import Environment

    own = _files()
    return {name: spec.text for name, spec in sorted(Environment.default().codes.items()) if name not in own}


def _codes_of(spec: ModelFormatSpec, owner: Owner) -> Mapping[str, str]:
    if spec.codes is None:
        return {}
    with crossing(owner, f"reading {spec.codes}"):
        found: dict[Any, Any] = dict(load_object(spec.codes, owner))
    if not all(type(part) is str for entry in found.items() for part in entry):
        raise fault(owner, f"{spec.codes} is {shown(found)}, expected a mapping of str to str")
    return found


def explanation(code: str) -> Explanation:
    """Return what a code means.

    Raises:
        OpenInferError: there is no such code.
    """
    if code in _files():
        return _explained(code)
    plugin_texts, others = plugin_codes(), format_codes()
    if code in plugin_texts:
        return Explanation(code=code, phase=Phase.PLUGIN, text=f"{plugin_texts[code]}\n")
    if code not in others:
        hint = did_you_mean(code, [*_files(), *plugin_texts, *others]) or "`openinfer explain --list` lists them"
        raise OpenInferError(f"there is no code {code!r}: {hint}", code="unknown-code")
    return Explanation(code=code, phase=Phase.FILE, text=f"{others[code]}\n")


def _explained(code: str) -> Explanation:
    content: dict[str, Any] = tomllib.loads(_files()[code].read_text(encoding="utf-8"))
    phase = Phase(content.pop("phase"))
    return Explanation(code=code, phase=phase, **content)


def _files() -> dict[str, Traversable]:
    found = (file for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    return {file.name.removesuffix(".toml"): file for file in found}
