"""Computations of definitions, checked as they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Builder, Computation, Tensor, verify
from openinfer.compute.reading import parse_computation
from openinfer.compute.text import computation_text
from openinfer.dtypes import F32, I32, DType

if TYPE_CHECKING:
    from collections.abc import Callable


def tensor(name: str, *shape: int | Index, dtype: DType = F32) -> Tensor:
    return Tensor(name, dtype, tuple(Index.of(extent) for extent in shape))


def built(k: Builder) -> Computation:
    """Return what the builder holds, checked, and checked to read back from its text."""
    computation = k.computation()
    verify(computation)
    text = computation_text(computation)
    again = parse_computation(text)
    assert again == computation
    assert computation_text(again) == text
    return computation


def one_stage(define: Callable[[Builder], None]) -> Computation:
    """Return the computation of a definition over ``x``, indices ``at`` and a result ``y`` of 3 places."""
    inputs = (tensor("x", 3, 4), tensor("at", 3, dtype=I32))
    k = Builder("defined", inputs, (tensor("y", 3),))
    define(k)
    return built(k)
