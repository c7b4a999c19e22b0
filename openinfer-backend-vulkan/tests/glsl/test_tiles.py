"""Tiles as GLSL: the source of a product, and how elements get to shared memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from openinfer.compute.reading import parse_computation
from openinfer.dtypes import F16, F32
from openinfer.errors import UnsupportedError
from openinfer.lower.tile_products import in_tile_products
from openinfer.schedule import TileShape
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.glsl.shaders import PORTABLE
from openinfer_backend_vulkan.spirv.compiler import compile_shader

GOLDEN = Path(__file__).with_name("tile_product.comp")
SHAPE = TileShape(rows=16, columns=16, depth=16, factor=F16, total=F32)
TARGET = replace(
    PORTABLE,
    narrow=frozenset({8, 16}),
    pushed_words=64,
    subgroup=32,
    group=1024,
    shared_nbytes=49152,
    tiles=(SHAPE,),
)
PRODUCT = """
def product(x0: f16[{rows}, {depth}], x1: f16[{depth}, {columns}], /, y0: f16[{rows}, {columns}]):
    for i0, i1 in grid({rows}, {columns}):
        for i2 in unordered({depth}):
            total0 = start(0.0)
            term0 = cast(x0[i0, i2], f32) * cast(x1[i2, i1], f32)
            total0 = total0 + term0
        y0[i0, i1] = cast(total0, f16)
"""


def source(rows: int, columns: int, depth: int) -> str:
    computation = parse_computation(PRODUCT.format(rows=rows, columns=columns, depth=depth))
    ((shader,),) = (stage.shaders for stage in shaders_of(computation, TARGET))
    return shader.source


def test_the_source_of_a_product() -> None:
    assert source(64, 64, 128) == GOLDEN.read_text(encoding="utf-8")


def test_sizes_are_numbers_of_the_run() -> None:
    assert source(96, 96, 192) == source(128, 160, 256)


@pytest.mark.parametrize(
    ("sizes", "left", "right"),
    [
        ((64, 64, 64), "uvec4", "uvec4"),
        ((64, 68, 100), "uvec2", "uvec2"),
        ((64, 34, 72), "uvec4", "uint"),
        ((33, 35, 37), "uint16_t", "uint16_t"),
    ],
)
def test_elements_are_loaded_in_words_as_long_as_rows_are_whole_ones(
    sizes: tuple[int, int, int], left: str, right: str
) -> None:
    text = source(*sizes)

    assert re.findall(r"readonly buffer Buffer\w+ \{ (\w+) ", text) == [left, right]
    assert compile_shader(text)


def test_tiles_are_for_subgroups_of_one_size() -> None:
    kernel = in_tile_products(
        parse_computation(PRODUCT.format(rows=64, columns=64, depth=64)), replace(TARGET.threads, subgroup=32)
    )

    assert kernel is not None
    with pytest.raises(UnsupportedError, match="tiles of 32 threads on a device with subgroups of 8"):
        printed(kernel, replace(TARGET, subgroup=8))


def test_a_device_without_matrices_has_the_form_for_threads() -> None:
    computation = parse_computation(PRODUCT.format(rows=64, columns=64, depth=64))
    ((shader,),) = (stage.shaders for stage in shaders_of(computation, replace(TARGET, tiles=())))

    assert "coopmat" not in shader.source
    assert "shared vec4" in shader.source
