"""The list of operators in the documentation is what the importer has."""

from __future__ import annotations

import inspect
import os
import textwrap
from pathlib import Path

import pytest

from openinfer.importers.torch_files.translators import translators

PAGE = Path(__file__).parents[3] / "docs" / "import-pytorch.md"
HEAD = "Every line is written from the importer's table. A name without an overload is the default one.\n\n"


def families() -> str:
    """Return a paragraph for each module of translators, with the first line of its docstring."""
    names: dict[str, list[str]] = {}
    for name, translator in translators().items():
        module = inspect.getmodule(translator)
        title = (module.__doc__ or "").partition("\n")[0].rstrip(".") if module is not None else ""
        names.setdefault(title, []).append(name.removeprefix("aten.").removesuffix(".default"))
    paragraphs = [f"**{title}**: " + ", ".join(f"`{name}`" for name in sorted(names[title])) for title in sorted(names)]
    return "\n\n".join("\n".join(textwrap.wrap(paragraph, 150)) for paragraph in paragraphs) + "\n"


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not part of the distribution")
def test_the_page_lists_every_operator() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, listed = text.partition(HEAD)
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        PAGE.write_text(before + HEAD + families(), encoding="utf-8")
        return
    assert listed == families(), "run with OPENINFER_UPDATE_GOLDEN=1 to write the list again"


def test_there_are_at_least_as_many_operators_as_promised() -> None:
    assert len({name.split(".")[1] for name in translators()}) >= 120
