"""Who answers the questions of a rule, and in which manner."""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openinfer.affine import Index, Interval
    from openinfer.dims.condition import Condition


class Manner(Enum):
    """What becomes of a question that nothing decides."""

    FOLLOW = "follow"
    """Both answers are followed, each as a guard."""
    ANSWER_NO = "answer no"
    """The answer is no, and nothing depends on it."""
    PROVE = "prove"
    """`UndecidedError`: only what is certain counts."""


class UndecidedError(Exception):
    """A question that `surely` asks is open."""


class Asked(Protocol):
    """What a `Dim` belongs to.

    Attributes:
        joins: whether extents that broadcast are one size, with a stride of 0 or 1, rather than questions.
    """

    joins: bool

    def certain(self, condition: Condition) -> bool | None:
        """Return whether a condition holds, or None where that is open."""
        ...

    def decide(self, condition: Condition) -> bool:
        """Return the answer to a question."""
        ...

    def chosen(self, condition: Condition) -> bool:
        """Return the answer to a question of which each answer has a form of its own, such as which dim is folded."""
        ...

    def followed(self, condition: Condition) -> bool:
        """Return the answer to a question on which a value depends: one that is certain, or that becomes a guard."""
        ...

    def bounds(self, index: Index) -> Interval:
        """Return the interval of an index that is certain."""
        ...


CURRENT: ContextVar[Asked | None] = ContextVar("CURRENT", default=None)
"""Who answers the rule that runs; None: it runs on numbers."""

MANNER: ContextVar[Manner] = ContextVar("MANNER", default=Manner.FOLLOW)
"""What becomes of open questions."""
