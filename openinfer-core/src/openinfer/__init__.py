"""Inference written down explicitly: language, graph, simulator and synthesizer front end."""

__version__ = "0.2.0"
