"""Validation against the model: Graph, Model and Environment in, `ResolvedGraph` out (phases S and V)."""

from openinfer.validate.program import Checked, checked_program, program_findings
from openinfer.validate.resolve import resolve
from openinfer.validate.signature import signature_findings

__all__ = ["Checked", "checked_program", "program_findings", "resolve", "signature_findings"]
