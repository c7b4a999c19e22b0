"""The program around a model that reads and writes ``.npy`` files: a template, which targets fill in."""

from __future__ import annotations

from importlib import resources

PROGRAM_TEMPLATE = "main.c.j2"


def program_template() -> str:
    """Return the text of the template, in the language of Jinja."""
    return (resources.files("openinfer.synth") / "harness" / PROGRAM_TEMPLATE).read_text(encoding="ascii")
