"""Giving a name of a program another one, everywhere it means the same thing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.editors.outline import Role, Sort
from openinfer.editors.words import NAME
from openinfer.errors import OpenInferError
from openinfer.ir.strings import quoted

if TYPE_CHECKING:
    from openinfer.editors.outline import Definition, Occurrence, Outline
    from openinfer.model import Model


class RenameError(OpenInferError):
    """A name cannot be changed, or not into that one; the message says why."""

    default_code = "rename"


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters ``start`` to ``end`` (excluded) become ``text``."""

    start: int
    end: int
    text: str


def renamed(outline: Outline, occurrence: Occurrence, name: str, model: Model | None = None) -> list[Edit]:
    """Return the edits that give what ``occurrence`` means the name ``name``.

    A declaration that finds its data in the model by its own name gets an ``@ref`` to it, so that it still does.

    Raises:
        RenameError: it is not defined in the text, or the new name is not a name or is taken.
    """
    definition = definition_to_rename(outline, occurrence)
    if re.fullmatch(NAME, name) is None:
        raise RenameError(f"{name!r} is not a name: expected letters, digits and `_`, not starting with a digit")
    if name == definition.name:
        return []
    _refuse_taken(outline, definition, name)
    edits = [Edit(use.start, use.end, name) for use in outline.uses(definition)]
    if _named_by_model(definition, model):
        end = outline.segment_at(definition.start).tokens[-1].end
        edits.append(Edit(end, end, f" @ref({quoted(definition.name)})"))
    return sorted(edits, key=lambda edit: edit.start)


def definition_to_rename(outline: Outline, occurrence: Occurrence) -> Definition:
    """Return what a rename at ``occurrence`` would rename.

    Raises:
        RenameError: the text does not define it, or the language gives the name a meaning.
    """
    definition = outline.definition(occurrence)
    if definition is None:
        raise RenameError(f"`{occurrence.name}` cannot be renamed: this text does not define it")
    if definition.sort is Sort.BLOCK and definition.name == "entry":
        raise RenameError("`entry` cannot be renamed: a program starts in the block of that name")
    return definition


def _refuse_taken(outline: Outline, definition: Definition, name: str) -> None:
    """Refuse a name that would meet another in the same namespace, a size variable of the model included."""
    if definition.sort in (Sort.BLOCK, Sort.FORMAL, Sort.LOOP):
        same = (definition.sort, definition.owner)
        taken = definition.sort is not Sort.LOOP and any(
            d.name == name and (d.sort, d.owner) == same for d in outline.definitions
        )
    else:
        spaces = (Sort.VARIABLE, Sort.TEMPORARY, Sort.INDEX)
        taken = any(d.name == name and d.sort in spaces for d in outline.definitions) or any(
            o.name == name and o.role in (Role.SIZE, Role.VALUE) for o in outline.occurrences
        )
    if taken:
        raise RenameError(f"`{name}` is taken: this program has that name already")


def _named_by_model(definition: Definition, model: Model | None) -> bool:
    if model is None or definition.sort is not Sort.VARIABLE or definition.section == "dynamic":
        return False
    linked = re.search(r"\b(?:ref|reference|pattern)\s*\(", definition.text) is not None
    return not linked and (definition.name in model.tensors or definition.name in model.metadata)
