"""Results of analysers, as `openinfer synth --prove` shows them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from openinfer.cli.terminal import table
from openinfer.diagnostics import counted

if TYPE_CHECKING:
    from openinfer.synth.proof import Proof


def proof_text(proof: Proof) -> str:
    """Return the result in words, with a table of the alarms."""
    alarms = counted(len(proof.alarms), "alarm")
    text = f"{proof.analyser} {proof.version}: {alarms}, {proof.seconds:.1f} s"
    if not proof.alarms:
        return text
    rows = [(f"{alarm.file}:{alarm.line}", alarm.function, alarm.kind, alarm.condition) for alarm in proof.alarms]
    return f"{text}\n{table(('place', 'function', 'kind', 'not proved'), rows)}"


def proof_document(proof: Proof) -> dict[str, Any]:
    """Return the result as a JSON document."""
    return asdict(proof)


def refuse_alarms(proof: Proof) -> None:
    """Raise where there are alarms.

    Raises:
        SynthesisError: there are; the message names the first.
    """
    from openinfer.errors import SynthesisError

    if not proof.alarms:
        return
    first = proof.alarms[0]
    more = f" and {counted(len(proof.alarms) - 1, 'more place')}" if len(proof.alarms) > 1 else ""
    message = f"{proof.analyser} does not exclude undefined behaviour at {first.file}:{first.line}{more}"
    raise SynthesisError(f"{message}: {first.kind}, {first.condition}", code="alarms")
