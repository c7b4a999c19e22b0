"""Readable names of tensors: converters join the names of all layers that they fused, and add where they came from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDINGS = re.compile(r"(?:/ReadVariableOp|/resource|:\d+|__\d+)+$")
_BEGINNINGS = re.compile(r"^(?:serving_default_)")


def readable(name: str) -> str:
    """Return the first of several joined names, without what a converter adds to it."""
    first = next((part for part in name.split(";") if part.strip()), "")
    plain = _ENDINGS.sub("", "".join(character if character.isprintable() else "_" for character in first))
    return _BEGINNINGS.sub("", plain).strip("/ ")


def without_root(names: Sequence[str]) -> list[str]:
    """Leave out the first folder where all names with folders have the same one, such as ``model/``."""
    roots = {name.partition("/")[0] for name in names if "/" in name}
    if len(roots) != 1:
        return list(names)
    root = f"{roots.pop()}/"
    return [name.removeprefix(root) for name in names]


def unique(names: Sequence[str]) -> list[str]:
    """Return names that differ: a number is added to those that are taken, and stands for those that are empty."""
    taken: set[str] = set()
    result: list[str] = []
    for position, name in enumerate(names):
        stem = name or f"tensor_{position}"
        own, number = stem, 2
        while own in taken:
            own, number = f"{stem}_{number}", number + 1
        taken.add(own)
        result.append(own)
    return result


def module_of(path: str) -> str:
    """Return the layer that a tensor belongs to, such as ``block.conv2d`` for ``block/conv2d/Conv2D``."""
    parts = [part for part in path.split("/") if part]
    return ".".join(parts[:-1])
