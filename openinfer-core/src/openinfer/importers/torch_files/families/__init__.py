"""Translators of ATen operators: each module registers those of one family."""
