"""The header through which a program around a model uses the machine, hosted or bare metal."""

from __future__ import annotations

from importlib import resources

PLATFORM_NAME = "openinfer_platform.h"


def platform_header() -> str:
    """Return the text of the header, which is the same in every bundle."""
    return (resources.files("openinfer.synth") / "harness" / PLATFORM_NAME).read_text(encoding="ascii")
