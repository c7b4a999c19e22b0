"""Synthesis: from a plan to a bundle of plain source files, with the code that synth targets share."""

from openinfer.synth.bundle import Bundle, write_bundle
from openinfer.synth.proof import Alarm, Proof, Prover
from openinfer.synth.synthesizer import Synthesis, Synthesizer
from openinfer.synth.target import RunResult, SynthTarget

__all__ = [
    "Alarm",
    "Bundle",
    "Proof",
    "Prover",
    "RunResult",
    "SynthTarget",
    "Synthesis",
    "Synthesizer",
    "write_bundle",
]
