"""The conformance kit: runs every operator on any device or synth target and compares with slow, independent oracles."""
