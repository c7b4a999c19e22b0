"""The translators of all families of operators."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from openinfer.importers.torch_files import families
from openinfer.importers.torch_files.registry import registered
from openinfer.scanning import modules_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.torch_files.registry import Translator


@cache
def translators() -> Mapping[str, Translator]:
    """Return every translator by the name of its operator, such as ``aten.add.Tensor``."""
    modules_in(families)
    return registered()
