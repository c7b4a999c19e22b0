"""The large examples of all built-in operators."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from openinfer.scanning import modules_in
from openinfer.testing import large

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ops.schema import OpExample


@cache
def known_large() -> Mapping[str, tuple[OpExample, ...]]:
    """Return the large examples of the built-in operators by operator name."""
    return {name: examples for module in modules_in(large) for name, examples in module.LARGE.items()}
