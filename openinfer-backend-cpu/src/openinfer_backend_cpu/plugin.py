"""Entry point of the distribution: what it offers to OpenInfer."""

OPENINFER_API = 1
