"""The translators of all families of operators."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.importers.tflite_files import families
from openinfer.scanning import modules_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.tflite_files.node import Translator


@cache
def translators() -> Mapping[str, Translator]:
    """Return every translator by the name of its operator in TFLite's enumeration."""
    merged: dict[str, Translator] = {}
    for module in modules_in(families):
        merged |= module.TRANSLATORS
    return MappingProxyType(merged)
