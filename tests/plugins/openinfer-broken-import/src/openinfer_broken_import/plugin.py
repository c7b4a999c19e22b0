"""Imports a library that is not there."""

import library_that_nobody_has  # noqa: F401

OPENINFER_API = 1
