"""Everything of a plugin that can misbehave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misbehaving_devices import DEVICES
from misbehaving_imports import IMPORTERS
from misbehaving_models import FORMATS
from misbehaving_operators import KERNELS, OPERATORS
from misbehaving_runs import COMMANDS, OBSERVERS, RUNNERS
from misbehaving_targets import PASSES, TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from misbehaving import Spot

SPOTS: Mapping[str, Spot] = {
    **OPERATORS,
    **KERNELS,
    **DEVICES,
    **TARGETS,
    **PASSES,
    **FORMATS,
    **IMPORTERS,
    **RUNNERS,
    **COMMANDS,
    **OBSERVERS,
}
