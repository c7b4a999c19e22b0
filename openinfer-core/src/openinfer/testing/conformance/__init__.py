"""Tests that any device must pass: ``pytest --pyargs openinfer.testing.conformance --openinfer-device NAME``."""
