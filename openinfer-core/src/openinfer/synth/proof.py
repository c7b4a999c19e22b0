"""What an analyser says of a synthesised program: the places at which it cannot exclude undefined behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.bundle import Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An operation that the analyser did not prove to be defined for all inputs.

    Attributes:
        kind: what may go wrong, in the analyser's words, such as ``"mem_access"``.
        condition: what it would have to know.
    """

    file: str
    line: int
    function: str
    kind: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of an analysis. No alarm means: the program is free of what the analyser looks for.

    Attributes:
        analyser, version, options: what was run and how.
        form: the dialect of C that was analysed.
        seconds: how long it took.
    """

    analyser: str
    version: str
    options: tuple[str, ...]
    form: str
    alarms: tuple[Alarm, ...]
    seconds: float


@runtime_checkable
class Prover(Protocol):
    """A `SynthTarget` whose programs an analyser can check."""

    def prove(self, plan: ExecutionPlan, *, timeout: float = 60.0) -> tuple[Proof, Bundle]:
        """Return the result for a plan, and its bundle with the result in it; alarms are not an error.

        Args:
            timeout: seconds that the analyser may take.

        Raises:
            MissingDependencyError: the analyser is not installed.
            SynthesisError: it failed, took too long, or did not come to the end of a step.
        """
        ...
