"""Translators of nodes: each module of `families` registers those of one family of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.values import Value

Translator: TypeAlias = "Callable[[Node], Value | Sequence[Value | None]]"
"""From a node to its outputs: the first alone, or each in order (None: not available)."""

_REGISTERED: dict[tuple[str, str], Translator] = {}


def translates(*names: str, domain: str = "") -> Callable[[Translator], Translator]:
    """Register a function for nodes of these operators."""

    def register(translator: Translator) -> Translator:
        _REGISTERED.update({(domain, name): translator for name in names})
        return translator

    return register


def registered() -> Mapping[tuple[str, str], Translator]:
    """Return the translators of the modules that are imported, by domain and operator."""
    return MappingProxyType(_REGISTERED)
