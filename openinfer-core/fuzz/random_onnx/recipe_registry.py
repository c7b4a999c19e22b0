"""Recipes of operators: each module of `recipes` registers those of one family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from openinfer.scanning import modules_in
from random_onnx import recipes
from random_onnx.calls import Call

Recipe: TypeAlias = "Callable[[Call], None]"

_REGISTERED: dict[str, Recipe] = {}


def draws(*operators: str) -> Callable[[Recipe], Recipe]:
    """Register a function that draws nodes of these operators."""

    def register(recipe: Recipe) -> Recipe:
        _REGISTERED.update(dict.fromkeys(operators, recipe))
        return recipe

    return register


@cache
def registered() -> Mapping[str, Recipe]:
    """Return every recipe by operator."""
    modules_in(recipes)
    return _REGISTERED
