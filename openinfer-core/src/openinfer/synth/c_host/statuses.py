"""What the functions of a model return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """A status: the end of its name, its number, and its text."""

    name: str
    number: int
    text: str


_TEXTS = {
    "OK": "done",
    "INPUT": "a pointer to an input or output is missing",
    "INDEX": "an index is out of range or overflows 64 bits, a division has no value, an exponent is negative, or an "
    "element has no sign",
    "WEIGHTS": "the weights are missing or misaligned, or the machine is not little-endian",
    "LIMIT": "a cache would grow past its bound",
    "SHAPE": "sizes or settings that are known at run time only do not fit",
    "MEMORY": "the structure of the model, or memory that it is given, is missing or misaligned",
    "NOT_READY": "the model is not initialised",
    "NAME": "no variable has that name or number",
    "SIZE": "the number of bytes is wrong",
    "VALUE": "the value is invalid for the variable",
    "DAMAGED": "the saved state is damaged",
    "FOREIGN": "the saved state is from another program",
    "VERSION": "the saved state has a format that this model does not know",
    "CHECKSUM": "the weights are not those of the model",
}

STATUSES = tuple(Status(name, number, text) for number, (name, text) in enumerate(_TEXTS.items()))
"""All of them. Numbers are part of the interface: new ones come last."""
