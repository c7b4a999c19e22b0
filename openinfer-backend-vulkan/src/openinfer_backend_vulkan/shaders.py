"""A kernel as plain data: GLSL source, the numbers it is run with, and how many threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2

from openinfer.errors import UnsupportedError

if TYPE_CHECKING:
    from openinfer_backend_vulkan.physical import PhysicalDevice

GROUP_SIZE = 64
"""Threads in a workgroup of the kernels that take one thread an element."""

MOST_THREADS = 1 << 31
"""Threads that a linear index of 32 bits can count without wrapping."""


@dataclass(frozen=True, slots=True)
class Shader:
    """One run of a kernel.

    Bindings are the inputs in order, then the outputs, then ``parameters`` as a buffer of unsigned words. ``features``
    are the optional device features that it needs.
    """

    source: str
    parameters: tuple[int, ...]
    threads: int
    features: frozenset[str] = frozenset()


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("openinfer_backend_vulkan", "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is GLSL, and every value is made by this package
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def rendered(template: str, **values: Any) -> str:
    """Return the GLSL of a template of this package."""
    return _templates().get_template(template).render(group_size=GROUP_SIZE, **values)


def workgroups(threads: int, physical: PhysicalDevice) -> tuple[int, int, int]:
    """Return the number of workgroups in x, y and z for so many threads.

    Raises:
        UnsupportedError: they are more than a dispatch or a 32-bit index holds.
    """
    groups = -(-threads // GROUP_SIZE)
    across = min(groups, physical.max_groups[0])
    down = -(-groups // across)
    if down > physical.max_groups[1] or across * down * GROUP_SIZE > MOST_THREADS:
        raise UnsupportedError(f"an operator with {threads} output elements is more than one dispatch holds")
    return across, down, 1
