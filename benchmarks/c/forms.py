"""The forms that generated C is measured in: a device file, a compiler, and further flags of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openinfer_synth_c.profiles import host


@dataclass(frozen=True)
class Form:
    """How a program is written and compiled.

    Attributes:
        arch: device file as a document, or none for the default device.
        compiler: command of the C compiler.
        flags: those after the flags of the emitted Makefile.
        strict_order: whether every sum is sequential.
    """

    arch: Mapping[str, Any] | None
    compiler: str = "gcc"
    flags: tuple[str, ...] = ()
    strict_order: bool = False


def host_in(dialect: str) -> Mapping[str, Any]:
    """Return the device file of this machine with another dialect: the same tiles, flags and results."""
    document = host()
    return {**document, "target": {**document["target"], "dialect": dialect}}


FORMS = {
    "vector": Form(host_in("vector")),
    "c99": Form(host_in("c99")),
    "default": Form(None),
    "clang": Form(host_in("vector"), "clang"),
    "strict": Form(host_in("vector"), strict_order=True),
    "clang-c99": Form(host_in("c99"), "clang"),
}
DEFAULT_FORMS = ("vector", "c99", "default", "clang")
