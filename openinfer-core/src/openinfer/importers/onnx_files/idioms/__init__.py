"""Patterns that exporters write for one operator, a module for each family; modules are found by listing the folder."""
