"""Validation against the model: Graph, Model and Environment in, `ResolvedGraph` out (phases S and V)."""

from openinfer.validate.resolve import resolve

__all__ = ["resolve"]
