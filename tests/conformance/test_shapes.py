"""The conformance kit counts the shapes of results itself: a wrong shape rule fails, whatever devices make of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.ir.types import TensorType
from openinfer.ops import windows
from openinfer.ops.catalog import resizing
from openinfer.ops.margins import Margin
from openinfer.ops.schema import OpSchema
from openinfer.ops.transposed_windows import TransposedWindow
from openinfer.ops.windows import Window
from openinfer.plugins.environment import Environment
from openinfer.testing.cases import Case, cases
from openinfer.testing.checks import check_operator, wrong
from openinfer.testing.oracle import known_oracles
from openinfer.testing.places import device_place
from openinfer.testing.sliding import slides

ENVIRONMENT = Environment.default()

CPU = device_place("cpu", ENVIRONMENT)

Rule = Callable[..., Any]


def zeros(case: Case) -> list[np.ndarray[Any, Any]]:
    return [np.zeros(out.shape, storage_dtype(out.dtype)) for out in case.call.outputs]


def misshapen(schema: OpSchema) -> list[str]:
    """Return what the kit says about shapes when results have those that the schema says, and any values."""
    lines = [
        line
        for case in cases(schema, ENVIRONMENT.dtypes["f32"], ENVIRONMENT.dtypes)
        for line in wrong(schema, known_oracles()[schema.name], case, zeros(case))
    ]
    return [line for line in lines if ": shape [" in line]


def without_ceil_mode(right: Rule) -> object:
    def window(*sizes: int, ceil_mode: bool) -> Window:
        del ceil_mode
        return right(*sizes, ceil_mode=False)

    return window


def with_windows_past_the_image(right: Rule) -> object:
    def window(size: int, kernel: int, stride: int, dilation: int, *sides: int, ceil_mode: bool) -> Window:
        found = right(size, kernel, stride, dilation, *sides, ceil_mode=ceil_mode)
        room = size + sum(sides) - dilation * (kernel - 1) - 1
        return replace(found, positions=-(-room // stride) + 1) if ceil_mode else found

    return window


def without_dilation(right: Rule) -> object:
    def window(size: int, kernel: int, stride: int, dilation: int, *sides: int, ceil_mode: bool) -> Window:
        found = right(size, kernel, stride, dilation, *sides, ceil_mode=ceil_mode)
        dense = right(size, kernel, stride, 1, *sides, ceil_mode=ceil_mode)
        return replace(found, positions=dense.positions)

    return window


def without_output_padding(right: Rule) -> object:
    del right
    return property(lambda window: window.stride * (window.size - 1) + window.extent)


def without_the_margin_after(right: Rule) -> object:
    del right
    return property(lambda margin: margin.before + len(margin.kept))


def rounded_up(right: Rule) -> object:
    def size(x: TensorType, settings: Mapping[str, Any]) -> tuple[int, int]:
        scale = settings["scale"]
        if scale is None:
            return right(x, settings)
        factors = cast("tuple[float, float]", scale if isinstance(scale, tuple) else (scale, scale))
        return math.ceil(x.shape[2] * factors[0]), math.ceil(x.shape[3] * factors[1])

    return size


def mutate(monkeypatch: pytest.MonkeyPatch, owner: object, rule: str, mutated: Callable[[Rule], object]) -> None:
    monkeypatch.setattr(owner, rule, mutated(getattr(owner, rule)))


MUTATIONS: list[tuple[str, Any, str, Callable[[Rule], object]]] = [
    ("max_pool2d", windows, "_window", without_ceil_mode),
    ("avg_pool1d", windows, "_window", without_ceil_mode),
    ("max_pool1d", windows, "_window", without_dilation),
    ("conv2d", windows, "_window", without_dilation),
    ("conv_transpose2d", TransposedWindow, "whole", without_output_padding),
    ("pad", Margin, "extent", without_the_margin_after),
    ("resize2d", resizing, "_size", rounded_up),
]


@pytest.mark.parametrize(
    ("op", "owner", "rule", "mutated"), MUTATIONS, ids=[f"{op}-{how.__name__}" for op, _, _, how in MUTATIONS]
)
def test_a_wrong_rule_for_shapes_fails(
    monkeypatch: pytest.MonkeyPatch, op: str, owner: Any, rule: str, mutated: Callable[[Rule], object]
) -> None:
    assert not misshapen(ENVIRONMENT.op(op))

    mutate(monkeypatch, owner, rule, mutated)

    assert misshapen(ENVIRONMENT.op(op))


def test_an_example_that_a_schema_refuses_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    # Windows in the padding after the image read nothing, which the schema takes for a mistake of the caller.
    mutate(monkeypatch, windows, "_window", with_windows_past_the_image)

    cells = check_operator(ENVIRONMENT.op("max_pool2d"), known_oracles()["max_pool2d"], CPU, ENVIRONMENT)

    (line,) = cells["f32"].failures
    assert line.startswith("max_pool2d does not take its example (f32[1,3,65,68], kernel=(2, 3)")
    assert "a window reads nothing but padding" in line


@pytest.mark.parametrize("op", ["gather", "topk", "sdpa", "einsum", "split", "flatten", "stack", "one_hot", "cumsum"])
def test_a_dim_that_a_schema_makes_too_large_fails(op: str) -> None:
    schema = ENVIRONMENT.op(op)

    def infer(inputs: Any, settings: Any, declared: Any) -> tuple[TensorType, ...]:
        *others, last = schema.infer(inputs, settings, declared)
        return (*others, replace(last, shape=tuple(extent + 1 for extent in last.shape)))

    assert misshapen(replace(schema, infer=infer))


@pytest.mark.parametrize(
    ("image", "kernel", "settings", "starts"),
    [
        ((7,), (3,), {"stride": 2, "padding": 0}, (0, 2, 4)),
        ((6,), (3,), {"stride": 2, "padding": 0}, (0, 2)),
        ((6,), (3,), {"stride": 2, "padding": 0, "ceil_mode": True}, (0, 2, 4)),
        ((5,), (2,), {"stride": 3, "padding": 1}, (-1, 2)),
        # A window at 5 would read what the one at 2 leaves of the padding, but would begin past the image.
        ((5,), (2,), {"stride": 3, "padding": 1, "ceil_mode": True}, (-1, 2)),
        ((7,), (3,), {"stride": 1, "padding": (2, 0), "dilation": 2}, (-2, -1, 0, 1, 2)),
        ((5,), (2,), {"stride": 2, "padding": "same_upper"}, (0, 2, 4)),
        ((5,), (2,), {"stride": 2, "padding": "same_lower"}, (-1, 1, 3)),
        ((5,), (2,), {"stride": 2, "padding": "valid"}, (0, 2)),
    ],
)
def test_windows_are_where_the_specification_puts_them(
    image: tuple[int, ...], kernel: tuple[int, ...], settings: dict[str, Any], starts: tuple[int, ...]
) -> None:
    (slide,) = slides(settings, image, kernel)

    assert slide.starts == starts
