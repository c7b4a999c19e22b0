"""Translators of operators, one module for each family: each has a table ``TRANSLATORS``."""
