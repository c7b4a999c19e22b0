"""How nodes are drawn whose inputs and attributes depend on one another; modules are found by listing this folder."""

from __future__ import annotations
