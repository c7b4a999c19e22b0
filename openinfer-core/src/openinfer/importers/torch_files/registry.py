"""Translators of operators: each module of `families` registers those of one family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.torch_files.node import Node

Translator: TypeAlias = "Callable[[Node], Value | Sequence[Value | None]]"
"""From an operator to its results: the first alone, or each in order (None: not available)."""

_AnyTranslator = TypeVar("_AnyTranslator", bound=Translator)

_REGISTERED: dict[str, Translator] = {}


def translates(*names: str) -> Callable[[_AnyTranslator], _AnyTranslator]:
    """Register a function for operators of ATen, such as ``add.Tensor``; ``default`` is an overload without a name."""

    def register(translator: _AnyTranslator) -> _AnyTranslator:
        _REGISTERED.update({f"aten.{name}" if "." in name else f"aten.{name}.default": translator for name in names})
        return translator

    return register


def registered() -> Mapping[str, Translator]:
    """Return the translators of the modules that are imported, by the name of the operator."""
    return MappingProxyType(_REGISTERED)
