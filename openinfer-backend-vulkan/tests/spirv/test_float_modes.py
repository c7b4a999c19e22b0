"""Floating-point modes written into SPIR-V: where they are, and that a driver takes the module."""

from struct import unpack

import numpy as np
import pytest

from openinfer.dtypes import BOOL, F32
from openinfer.expr import tree
from openinfer.expr.tree import Input
from openinfer.ir.types import TensorType
from openinfer_backend_vulkan.api.native import structure_type
from openinfer_backend_vulkan.backend import VulkanBackend
from openinfer_backend_vulkan.spirv.float_modes import KEEPS_HALVES, MODES, FloatMode, with_modes

HEADER = 5
# A module in the order that SPIR-V asks for: capabilities, memory model, entry point, and what follows.
SHADER, WIDE, MEMORY, ENTRY, LOCAL = (
    (2 << 16 | 17, 1),
    (2 << 16 | 17, 10),
    (3 << 16 | 14, 0, 1),
    (5 << 16 | 15, 5, 4, 0x6E69616D, 0),
    (6 << 16 | 16, 4, 17, 64, 1, 1),
)


def module(*parts: tuple[int, ...]) -> bytes:
    words = [0x07230203, 0x00010300, 0, 8, 0, *(word for part in parts for word in part)]
    return np.array(words, dtype="<u4").tobytes()


def instructions(code: bytes) -> list[tuple[int, ...]]:
    words, found, place = unpack(f"<{len(code) // 4}I", code), [], HEADER
    while place < len(words):
        found.append((words[place] & 0xFFFF, *words[place + 1 : place + (words[place] >> 16)]))
        place += words[place] >> 16
    return found


def test_modes_are_where_the_format_requires_them() -> None:
    changed = instructions(with_modes(module(SHADER, MEMORY, ENTRY, LOCAL), MODES))

    assert [part[0] for part in changed] == [17, 17, 17, 10, 14, 15, 16, 16, 16]
    assert changed[1:3] == [(17, 4466), (17, 4464)]
    assert b"".join(word.to_bytes(4, "little") for word in changed[3][1:]).rstrip(b"\0") == b"SPV_KHR_float_controls"
    assert changed[6:8] == [(16, 4, 4461, 32), (16, 4, 4459, 32)]


def test_modes_of_wide_floats_are_requested_where_there_are_some() -> None:
    changed = instructions(with_modes(module(SHADER, WIDE, MEMORY, ENTRY, LOCAL), MODES))

    requested = {(m.mode, m.bits) for m in MODES if m.bits != 16}
    assert {part[2:] for part in changed if part[0] == 16} == {(17, 64, 1, 1), *requested}


def test_the_mode_of_halves_is_requested_where_they_are_unpacked() -> None:
    unpacked = (6 << 16 | 12, 2, 3, 1, 62, 5)
    changed = instructions(with_modes(module(SHADER, MEMORY, ENTRY, LOCAL, unpacked), (KEEPS_HALVES,)))

    assert [part[0] for part in changed] == [17, 17, 10, 14, 15, 16, 16, 12]
    assert changed[5] == (16, 4, 4459, 16)
    assert with_modes(module(SHADER, MEMORY, ENTRY, LOCAL), (KEEPS_HALVES,)) == module(SHADER, MEMORY, ENTRY, LOCAL)


@pytest.mark.parametrize("modes", [(), (FloatMode("shaderDenormPreserveFloat64", 4464, 4459, 64),)])
def test_only_modes_that_are_needed_are_requested(modes: tuple[FloatMode, ...]) -> None:
    code = module(SHADER, MEMORY, ENTRY, LOCAL)

    assert with_modes(code, modes) == code


def test_comparisons_with_nan_are_false(device: VulkanBackend) -> None:
    """Without the modes, a driver may turn ``!(a > b)`` into ``a <= b``."""
    a, b = np.array([np.nan, 1, np.nan], np.float32), np.array([1, np.nan, np.nan], np.float32)
    kind = TensorType(F32, (3,))
    output = device.allocate(TensorType(BOOL, (3,)))
    expr = tree.logical_not(tree.gt(Input(0, F32), Input(1, F32)))

    device.bind_expression(expr, [device.upload(kind, a), device.upload(kind, b)], output)()

    assert device.read(output).tolist() == [True, True, True]


def test_names_of_structs_with_a_number_at_the_end() -> None:
    assert structure_type("VkPhysicalDeviceProperties2") == "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2"
