"""The .oinf model container: read, write, verify and inspect."""

__version__ = "0.2.0"
