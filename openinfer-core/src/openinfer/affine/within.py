"""Conditions that an index lies within an extent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.affine.index import Index


@dataclass(frozen=True, slots=True)
class Within:
    """The condition ``0 <= index < extent``."""

    index: Index
    extent: Index

    @property
    def is_certain(self) -> bool:
        """Whether it holds whatever the variables are."""
        return self.index.is_within(0, self.extent)

    @property
    def is_void(self) -> bool:
        """Whether it holds nowhere, whatever the variables are."""
        high, slack = self.index.interval.high, (self.extent - 1 - self.index).interval.high
        return (high is not None and high < 0) or (slack is not None and slack < 0)

    def __str__(self) -> str:
        return f"0 <= {self.index} < {self.extent}"
