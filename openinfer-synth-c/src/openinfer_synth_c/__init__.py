"""OpenInfer's synth target c: plain C99 source from an execution plan."""

__version__ = "0.2.0"
