"""A kernel as plain data: GLSL source, its parameters, and the number of threads."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.errors import UnsupportedError
from openinfer.schedule import Threads, TileShape

GROUP_SIZE = 64
"""Threads in a workgroup of the kernels that take one thread an element."""

LARGE_GROUP_SIZE = 256
"""Likewise, where a device has such groups and many cores."""

PUSHED_WORDS = 32
"""Words of push constants that every Vulkan device has."""

SOFTWARE_BUSY = 256
"""Invocations that keep a software device busy, which has some lanes on each core."""

LLVMPIPE_TURNS = 60_000
"""Loop iterations of one thread that Mesa's llvmpipe carries out for sure: it silently ends its loops after 65,535."""

MOST_THREADS = 1 << 31
"""Threads that a linear index of 32 bits can count without wrapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShaderTarget:
    """What shaders are made for; the defaults are right for every device.

    Attributes:
        most_turns: largest number of loop iterations of an invocation; None if unlimited.
        narrow: widths of less than 32 bits that storage buffers hold natively.
        pushed_words: words of push constants.
        busy: invocations that keep the device busy.
        subgroup: invocations that run in step and can hand over values; 1 where they cannot, or may be more or fewer.
        is_software: whether invocations are lanes of a processor.
        group, shared_nbytes: most invocations of a workgroup, and bytes of its shared memory.
        tiles: what subgroups multiply by cooperative matrices.
        keeps_halves: whether conversions of f16 keep subnormals.
    """

    most_turns: int | None = None
    narrow: frozenset[int] = frozenset()
    pushed_words: int = PUSHED_WORDS
    busy: int = 1 << 15
    subgroup: int = 1
    group: int = 128
    shared_nbytes: int = 16384
    is_software: bool = False
    tiles: tuple[TileShape, ...] = ()
    keeps_halves: bool = False

    @property
    def group_size(self) -> int:
        """Invocations of a workgroup whose invocations have nothing to do with one another."""
        return GROUP_SIZE if self.is_software or self.group < LARGE_GROUP_SIZE else LARGE_GROUP_SIZE

    @property
    def threads(self) -> Threads:
        """The device as schedules see it."""
        return Threads(
            busy=self.busy,
            group=self.group,
            subgroup=self.subgroup,
            shared_nbytes=self.shared_nbytes,
            is_software=self.is_software,
            tiles=self.tiles,
        )


PORTABLE = ShaderTarget()
"""Shaders for every device."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a kernel may find wrong with the elements of an input.

    Attributes:
        what: the operator, and what is indexed or converted.
        shape: shape of the input.
        wrong: what is wrong with the element; ``{at}`` is replaced with its index, as `` at [...]``.
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
            element, position = divmod(element, extent)
            places.insert(0, position)
        where = f" at {places}" if places else ""
        return f"{self.what}: {self.wrong.format(at=where)} ({self.legal})"


@dataclass(frozen=True, slots=True)
class Shader:
    """A kernel with the numbers that it is run with.

    Bindings are the inputs in order, then the outputs, then words for the ``faults`` (if there are any), then
    ``parameters`` as a buffer of unsigned words, negative ones modulo 2^32; with ``is_pushed`` they are push constants
    instead. Into its word the kernel writes the least number of an element of an input that is
    a fault. ``features`` are the optional device features that it needs, ``group_size`` is the number of threads in a
    workgroup.
    """

    source: str
    parameters: tuple[int, ...]
    threads: int
    features: frozenset[str] = frozenset()
    faults: tuple[Fault, ...] = ()
    group_size: int = GROUP_SIZE
    is_pushed: bool = False

    def __post_init__(self) -> None:
        """Refuse what words of 32 bits do not hold, such as the products of a sum over labels of several tensors.

        Raises:
            UnsupportedError: a parameter is below -2^31, or 2^32 or more.
        """
        foreign = next((number for number in self.parameters if not -(1 << 31) <= number < 1 << 32), None)
        if foreign is not None:
            message = f"a kernel with a size or step of {foreign}: kernels of this device count in 32 bits"
            raise UnsupportedError(message)


def workgroups(threads: int, most: tuple[int, int], group_size: int = GROUP_SIZE) -> tuple[int, int, int]:
    """Return the number of workgroups in x, y and z for so many threads, ``group_size`` in each.

    ``most`` are the greatest numbers of workgroups in x and y.

    Raises:
        UnsupportedError: they are more than a dispatch or a 32-bit index holds.
    """
    groups = -(-threads // group_size)
    across = min(groups, most[0])
    down = -(-groups // across)
    if down > most[1] or across * down * group_size > MOST_THREADS:
        raise UnsupportedError(f"an operator with {threads} output elements is more than one dispatch holds")
    return across, down, 1
