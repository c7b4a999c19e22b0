"""Calls of operators that are defined by stages, at any sizes and places: every way through the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from openinfer.compute.builder import ComputationError
from openinfer.dims import NeedsNumberError, Space, is_size
from openinfer.ir.resolved import RuntimeInts
from openinfer.ops.applying import call_of
from openinfer.ops.computations import written_computation
from openinfer.ops.schema import SettingType
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute import Computation
    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema

LARGEST = 2**31 - 1
"""Extents are between 0 and this; integers of settings between this and its negative."""

_INTEGERS = frozenset({SettingType.INT, SettingType.INT_OR_LIST, SettingType.INT_LIST, SettingType.PADDING})


def ways_at_any_sizes(
    schema: OpSchema, call: OpCall, late: Mapping[str, UnresolvedSetting]
) -> tuple[Computation, ...] | None:
    """Return what a call computes, whatever its extents are: one computation for each way through its definition.

    Places in the computations are not verified. An extent of which the definition needs the number keeps the one that
    the call states.

    Args:
        late: settings that are known at run time only, which the call leaves out.

    Returns:
        None where that is not known: a way through the definition is written wrongly or needs another number, or a
        setting that is not an integer is known at run time only.
    """
    numbers: dict[str, int] = {}
    while True:
        attempt = _Attempt(schema, call, late, numbers)
        try:
            return attempt.computations()
        except NeedsNumberError as error:
            needed = {name: attempt.stated[name] for name in error.sizes if name in attempt.stated}
        if not needed.keys() - numbers.keys() or any(map(is_size, needed.values())):
            return None
        numbers |= needed


class _Attempt:
    """A call on sizes, but for the extents that stay numbers.

    Attributes:
        stated: the extents of the call, by the names of their sizes.
    """

    def __init__(
        self, schema: OpSchema, call: OpCall, late: Mapping[str, UnresolvedSetting], numbers: Mapping[str, int]
    ) -> None:
        self._schema = schema
        self._call = call
        self._late = late
        self._numbers = numbers
        self._space = Space()
        self.stated: dict[str, int] = {}

    def computations(self) -> tuple[Computation, ...] | None:
        """Follow every way.

        Raises:
            NeedsNumberError: the definition needs the number of a size.
        """
        inputs = [type_ and self._sized(f"x{number}", type_) for number, type_ in enumerate(self._call.inputs)]
        declared = [self._sized(f"y{number}", type_) for number, type_ in enumerate(self._call.outputs)]
        late = {name: self._setting(name, value) for name, value in self._late.items()}
        if any(value is None for value in late.values()):
            return None

        def computed() -> Computation:
            made = call_of(self._schema, inputs, {**self._call.settings, **late}, declared)
            return written_computation(self._schema, made.substituted(self._space.solutions()))

        paths = self._space.explore(computed)
        errors = [path.error for path in paths if path.error is not None]
        computations = tuple(path.value for path in paths if path.value is not None)
        return None if any(isinstance(error, ComputationError) for error in errors) else computations or None

    def _sized(self, name: str, type_: TensorType) -> TensorType:
        extents = {f"{name}_{axis}": extent for axis, extent in enumerate(type_.shape)}
        self.stated |= extents
        return replace(type_, shape=tuple(map(self._extent, extents)))

    def _extent(self, name: str) -> int:
        # Rules take sizes as the integers that they stand for.
        return self._numbers[name] if name in self._numbers else cast("int", self._space.size(name, 0, LARGEST))

    def _setting(self, name: str, value: UnresolvedSetting) -> SettingValue:
        """Return the integers of a setting as sizes; None where it has others."""
        spec = self._schema.setting(name)
        if spec is None or spec.type not in _INTEGERS:
            return None
        if not isinstance(value, RuntimeInts) or not value.is_list:
            return self._integer(name)
        return tuple(
            expr.value if isinstance(expr, Const) else self._integer(f"{name}_{number}")
            for number, expr in enumerate(value.exprs)
        )

    def _integer(self, name: str) -> int:
        return cast("int", self._space.size(f"s_{name}", -LARGEST, LARGEST))
