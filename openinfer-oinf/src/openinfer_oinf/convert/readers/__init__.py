"""Readers of foreign formats, found by scanning: a module has NAME, SUFFIXES, `recognises` and `read`."""
