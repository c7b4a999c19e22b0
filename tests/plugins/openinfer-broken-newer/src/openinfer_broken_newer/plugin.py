"""Needs hooks that do not exist yet."""

OPENINFER_API = 1_000
