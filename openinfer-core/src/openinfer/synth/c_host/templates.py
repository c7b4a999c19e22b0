"""Source that targets fill in: the program around a model, and what is declared and saved of its variables."""

from __future__ import annotations

from importlib import resources

PROGRAM_TEMPLATE = "main.c.j2"
"""The program that reads and writes ``.npy`` files."""

_NAMES = (PROGRAM_TEMPLATE, "variables.h.j2", "saved_form.c.j2")


def shared_templates() -> dict[str, str]:
    """Return the texts of the templates by name, in the language of Jinja."""
    harness = resources.files("openinfer.synth") / "harness"
    return {name: (harness / name).read_text(encoding="ascii") for name in _NAMES}
