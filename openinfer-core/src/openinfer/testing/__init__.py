"""The conformance kit: every operator on any device or synth target, compared with slow, independent oracles."""
