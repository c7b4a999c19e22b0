"""Translators of nodes: each module of `families` registers those of one family of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.values import Value

Translator: TypeAlias = "Callable[[Node], Value | Sequence[Value | None]]"
"""From a node to its outputs: the first alone, or each in order (None: not available)."""

_AnyTranslator = TypeVar("_AnyTranslator", bound=Translator)

RUNTIME = "com.microsoft"
"""The domain of the operators that ONNX Runtime's quantiser and optimiser write."""

_REGISTERED: dict[tuple[str, str], Translator] = {}


def translates(*names: str, domain: str = "") -> Callable[[_AnyTranslator], _AnyTranslator]:
    """Register a function for nodes of these operators."""

    def register(translator: _AnyTranslator) -> _AnyTranslator:
        _REGISTERED.update({(domain, name): translator for name in names})
        return translator

    return register


def contributed(*names: str, attributes: str = "") -> Callable[[_AnyTranslator], _AnyTranslator]:
    """Register a function for nodes of ONNX Runtime's own operators, which has these attributes and refuses others."""
    legal = attributes.split()

    def register(translator: _AnyTranslator) -> _AnyTranslator:
        def checked(node: Node) -> Value | Sequence[Value | None]:
            for name in node.source.attributes:
                if name not in legal:
                    shown = f"{name}={node.get(name)}"
                    node.refuse(f"the attribute {shown} is not supported, these are: {', '.join(legal) or 'none'}")
            return translator(node)

        translates(*names, domain=RUNTIME)(checked)
        return translator

    return register


def registered() -> Mapping[tuple[str, str], Translator]:
    """Return the translators of the modules that are imported, by domain and operator."""
    return MappingProxyType(_REGISTERED)
