"""Which calls the specification refuses, said apart from the schema under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from openinfer.testing.accumulating import may_accumulate
from openinfer.testing.oracle import known, known_oracles

if TYPE_CHECKING:
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType

Illegal: TypeAlias = "Callable[[Sequence[TensorType], Mapping[str, SettingValue]], bool]"
"""Says whether the specification refuses a call of some inputs (without those left out) and settings (as given).

It is called only for calls that the kit makes of the examples of a schema, by giving each setting its other values and
by other shapes of elementwise inputs and of what is reduced.
"""


def is_legal(op: str, inputs: Sequence[TensorType | None], settings: Mapping[str, SettingValue]) -> bool | None:
    """Return whether the specification allows a call; None for an operator that is not known."""
    if op not in known_oracles():
        return None
    given = [one for one in inputs if one is not None]
    illegal: Illegal = known("ILLEGAL").get(op, _never)
    return not illegal(given, settings) and (not given or may_accumulate(given[0].dtype, settings))


def _never(inputs: Sequence[TensorType], settings: Mapping[str, SettingValue]) -> bool:
    del inputs, settings
    return False
