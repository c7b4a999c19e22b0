"""The translators of all families of operators."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files import families
from openinfer.importers.onnx_files.registry import registered
from openinfer.scanning import modules_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.registry import Translator


@cache
def translators() -> Mapping[tuple[str, str], Translator]:
    """Return every translator by domain and operator."""
    modules_in(families)
    return registered()
