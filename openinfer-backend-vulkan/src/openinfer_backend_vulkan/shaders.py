"""A kernel as plain data: GLSL source, the numbers it is run with, and how many threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2

from openinfer.errors import KernelMissingError, UnsupportedError

if TYPE_CHECKING:
    from openinfer_backend_vulkan.physical import PhysicalDevice

GROUP_SIZE = 64
"""Threads in a workgroup of the kernels that take one thread an element."""

MOST_THREADS = 1 << 31
"""Threads that a linear index of 32 bits can count without wrapping."""


@dataclass(frozen=True, slots=True)
class Turns:
    """How often each thread goes round its loops: ``steps`` times, and ``each`` times in a step.

    Inner loops are included, with the turns that find them at their ends.
    ``at`` is the place of two parameters, the first step of a run and the one after its last: a run can then take part
    of the steps and go on where the run before it ended. Without it one run takes all steps.
    """

    steps: int
    each: int = 1
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What a kernel may find wrong with the elements of an input.

    Attributes:
        what: the operator, and what is indexed or converted.
        shape: shape of the input.
        wrong: what is wrong with the element, `` at [...]`` standing where ``{at}`` does.
        legal: which elements are legal.
    """

    what: str
    shape: tuple[int, ...]
    wrong: str
    legal: str

    def message(self, element: int) -> str:
        """Return what to say of the element at a place in row-major order."""
        places: list[int] = []
        for extent in reversed(self.shape):
            element, place = divmod(element, extent)
            places.insert(0, place)
        where = f" at {places}" if places else ""
        return f"{self.what}: {self.wrong.format(at=where)} ({self.legal})"


@dataclass(frozen=True, slots=True)
class Shader:
    """A kernel with the numbers that it is run with.

    Bindings are the inputs in order, then the outputs, then a buffer of ``scratch_nbytes`` (if not 0) which keeps its
    content from run to run, then words for the ``faults`` (if there are any), then ``parameters`` as a buffer of
    unsigned words, negative ones modulo 2^32. Into its word the kernel writes the least number of an element of an
    input that is a fault. ``features`` are the optional device features that it needs, ``group_size`` is the number of
    threads in a workgroup.
    """

    source: str
    parameters: tuple[int, ...]
    threads: int
    features: frozenset[str] = frozenset()
    turns: Turns = Turns(0)
    scratch_nbytes: int = 0
    faults: tuple[Fault, ...] = ()
    group_size: int = GROUP_SIZE

    def __post_init__(self) -> None:
        """Refuse what words of 32 bits do not hold, such as the products of a sum over labels of several tensors.

        Raises:
            UnsupportedError: a parameter is below -2^31, or 2^32 or more.
        """
        foreign = next((number for number in self.parameters if not -(1 << 31) <= number < 1 << 32), None)
        if foreign is not None:
            message = f"a kernel with a size or step of {foreign}: kernels of this device count in 32 bits"
            raise UnsupportedError(message)

    def runs(self, most_turns: int | None) -> tuple[tuple[int, ...], ...]:
        """Return the parameters of each run, for a device that ends loops after so many turns of a thread.

        Raises:
            KernelMissingError: a run would need more turns than that and cannot be divided.
        """
        turns = self.turns
        if most_turns is None or turns.steps * turns.each <= most_turns:
            return (self.parameters,)
        if turns.at is None or turns.each > most_turns:
            count = turns.each if turns.at is not None else turns.steps * turns.each
            message = f"{count} turns of a loop for one result, and this device ends loops after {most_turns}"
            raise KernelMissingError(message)
        size = most_turns // turns.each
        return tuple(
            (*self.parameters[: turns.at], first, min(first + size, turns.steps), *self.parameters[turns.at + 2 :])
            for first in range(0, turns.steps, size)
        )


@dataclass(frozen=True, slots=True)
class Pass:
    """A shader of a kernel that takes several, with the numbers of the inputs and outputs that it is bound to."""

    shader: Shader
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


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


def workgroups(threads: int, physical: PhysicalDevice, group_size: int = GROUP_SIZE) -> tuple[int, int, int]:
    """Return the number of workgroups in x, y and z for so many threads, ``group_size`` in each.

    Raises:
        UnsupportedError: they are more than a dispatch or a 32-bit index holds.
    """
    groups = -(-threads // group_size)
    across = min(groups, physical.max_groups[0])
    down = -(-groups // across)
    if down > physical.max_groups[1] or across * down * group_size > MOST_THREADS:
        raise UnsupportedError(f"an operator with {threads} output elements is more than one dispatch holds")
    return across, down, 1
