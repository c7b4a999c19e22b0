"""Weights of other formats to containers, and back."""
