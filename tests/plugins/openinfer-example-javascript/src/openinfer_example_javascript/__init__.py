"""A synth target of its own: plans as one JavaScript module."""
