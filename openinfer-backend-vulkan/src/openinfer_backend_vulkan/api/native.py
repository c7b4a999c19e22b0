"""The Vulkan API as the binding gives it: raw calls, and native structs that live as long as they are needed.

This is the only module that builds structs. The binding's own constructors free what nested pointers lead to and drop
fields that are zero; here an arena owns every struct, array and string until it is dropped.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from openinfer.errors import DeviceError

if TYPE_CHECKING:
    from types import ModuleType

Handle: TypeAlias = Any
"""A Vulkan handle, native struct or pointer."""

API_VERSION = (1, 1)
"""Lowest version of Vulkan that is used."""


class LoaderMissingError(DeviceError):
    """The Python binding or the Vulkan loader library cannot be loaded."""

    default_code = "device"


_OUT_OF_MEMORY = frozenset({"VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY"})


class VulkanCallError(DeviceError):
    """A Vulkan function failed; ``result`` is the name of its result code."""

    default_code = "device"

    def __init__(self, function: str, result: str, advice: str = "") -> None:
        code = "too-large" if result in _OUT_OF_MEMORY else None
        super().__init__(f"{function} failed with {result}" + (f": {advice}" if advice else ""), code=code)
        self.function = function
        self.result = result


@cache
def binding() -> ModuleType:
    """Return the binding's module.

    Raises:
        LoaderMissingError: it is not installed, or finds no loader library.
    """
    try:
        return importlib.import_module("vulkan")
    except ImportError as error:
        message = f"the Python package 'vulkan' cannot be imported ({error}): pip install vulkan"
        raise LoaderMissingError(message) from error
    except OSError as error:
        message = "the Vulkan loader library (libvulkan.so.1) is not there: install it (Debian: apt install libvulkan1)"
        raise LoaderMissingError(message) from error


def library() -> Any:
    """Return the loader library: functions and constants by their C names."""
    return binding().lib


def foreign() -> Any:
    """Return the binding's foreign function interface."""
    return binding().ffi


def call(function: str, *args: Any) -> None:
    """Call a Vulkan function that returns a result code.

    Raises:
        VulkanCallError: it failed.
    """
    check(function, getattr(library(), function)(*args))


def check(function: str, code: int) -> None:
    """Raise for a result code of a failure."""
    if code < 0:
        raise VulkanCallError(function, result_name(code), _ADVICE.get(result_name(code), ""))


_ADVICE = {
    "VK_ERROR_INCOMPATIBLE_DRIVER": "no driver is installed, or the driver's own libraries are missing",
    "VK_ERROR_DEVICE_LOST": "the device stopped working; open it again",
    "VK_ERROR_OUT_OF_DEVICE_MEMORY": "the tensors do not fit its memory",
    "VK_ERROR_OUT_OF_HOST_MEMORY": "the host has no memory left",
}


def result_name(code: int) -> str:
    """Return the name of a result code."""
    names = cast("Mapping[int, str]", foreign().typeof("VkResult").elements)
    return names.get(code, f"VkResult({code})")


class Structs:
    """An arena of native structs. What was made in it is valid as long as the arena is."""

    def __init__(self) -> None:
        self._ffi = foreign()
        self._kept: list[Handle] = []

    def new(self, ctype: str, **fields: Any) -> Handle:
        """Return a pointer to a new struct; ``sType`` is set where the struct has it.

        Strings, bytes and sequences given for pointer fields become arrays of the arena; other values must be numbers,
        structs or pointers. Fields that are not given are zero.
        """
        declared = dict(self._ffi.typeof(ctype).fields)
        values = {name: self._value(declared[name].type, value) for name, value in fields.items()}
        if "sType" in declared:
            values["sType"] = getattr(library(), structure_type(ctype))
        return self._keep(self._ffi.new(f"{ctype}*", values))

    def array(self, ctype: str, values: Sequence[Any] | int) -> Handle:
        """Return a new array of these values, or of so many zeros."""
        return self._keep(self._ffi.new(f"{ctype}[]", values))

    def _value(self, field: Any, value: Any) -> Any:
        if field.kind != "pointer":
            return value
        if isinstance(value, str):
            return self._keep(self._ffi.new("char[]", value.encode()))
        if isinstance(value, bytes):
            return self._ffi.cast(field, self._keep(self._ffi.new("char[]", value)))
        if isinstance(value, list | tuple):
            return self.array(field.item.cname, cast("Sequence[Any]", value))
        return self._keep(value)

    def _keep(self, value: Handle) -> Handle:
        self._kept.append(value)
        return value


@cache
def structure_type(ctype: str) -> str:
    """Return the name of the constant in ``sType``: ``VkSubmitInfo`` has ``VK_STRUCTURE_TYPE_SUBMIT_INFO``."""
    return "VK_STRUCTURE_TYPE" + re.sub(r"(EXT$|KHR$|\d+Bit|[A-Z]|\d+$)", r"_\1", ctype.removeprefix("Vk")).upper()


def number_of(handle: Handle) -> int:
    """Return the number of a handle, by which other bindings know it."""
    return int(foreign().cast("uintptr_t", handle))


def created(function: str, ctype: str, *args: Any) -> Handle:
    """Call a function whose last argument receives one handle, and return that handle."""
    slot = foreign().new(f"{ctype}*")
    call(function, *args, slot)
    return slot[0]


def enumerated(function: str, ctype: str, *args: Any) -> list[Handle]:
    """Call a function that fills an array of unknown length, and return the array's items."""
    ffi = foreign()
    count = ffi.new("uint32_t*")
    query = getattr(library(), function)
    _check_void(function, query(*args, count, ffi.NULL))
    items = ffi.new(f"{ctype}[]", count[0])
    _check_void(function, query(*args, count, items))
    return [items[i] for i in range(count[0])]


def _check_void(function: str, code: int | None) -> None:
    if code is not None:
        check(function, code)


def text(array: Handle) -> str:
    """Return a native string; bytes that are not UTF-8 are replaced."""
    return cast("bytes", foreign().string(array)).decode("utf-8", "replace")
