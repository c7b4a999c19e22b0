"""The kernels of a bundle: one file of GLSL each, which says what it is for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.synth.c_text import comment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_BOUND = 16
"""Storage buffers that a kernel may be given (``OPENINFER_MOST_BOUND``)."""

_MOST_LINES = 24
"""Lines of the program that a file lists; more are counted."""

FEATURES = {"shaderInt64": "OPENINFER_INT64", "shaderFloat64": "OPENINFER_FLOAT64"}
"""Flags of the host for optional features of devices."""

_SHARED = re.compile(r"^shared (\w+) \w+\[(\d+)\];$", re.MULTILINE)

_TYPE_NBYTES = {
    **dict.fromkeys(("bool", "float", "int", "uint"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t", "uvec2"), 8),
    **dict.fromkeys(("ivec4", "uvec4", "vec4"), 16),
}


@dataclass(slots=True)
class KernelFile:
    """A kernel.

    Attributes:
        bound: storage buffers that it is given.
        pushed: words of push constants.
        lines: the lines of the program that it carries out.
    """

    number: int
    source: str
    bound: int
    pushed: int
    lines: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def name(self) -> str:
        """What its files are called, without a suffix."""
        return f"kernel_{self.number}"

    @property
    def text(self) -> str:
        """The file: its first line has to be the version of GLSL."""
        version, _, rest = self.source.partition("\n")
        listed = list(self.lines)
        more = len(listed) - _MOST_LINES
        notes = [comment(line) for line in listed[:_MOST_LINES]]
        notes += [comment(f"and {more} more")] if more > 0 else []
        return "\n".join((version, *notes, rest))


class KernelFiles:
    """The kernels that steps have needed so far: equal sources are one, whatever sizes they are run with.

    Attributes:
        features: flags of the optional features that they need.
        group: invocations of the largest workgroup.
        has_subgroups: whether invocations hand over values.
        shared_nbytes: bytes that a workgroup shares at most.
        range_nbytes: bytes of the largest buffer that a kernel is given.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], KernelFile] = {}
        self.features: set[str] = set()
        self.group = 1
        self.has_subgroups = False
        self.shared_nbytes = 0
        self.range_nbytes = 0

    def __iter__(self) -> Iterator[KernelFile]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    @property
    def pushed_nbytes(self) -> int:
        """The most bytes of push constants of a kernel."""
        return 4 * max((kernel.pushed for kernel in self), default=0)

    @property
    def bound(self) -> int:
        """The most storage buffers that a kernel is given."""
        return max((kernel.bound for kernel in self), default=0)

    def number(self, source: str, bound: int, pushed: int, lines: Sequence[str]) -> int:
        """Return the number of the kernel with this source, which carries these lines out.

        Raises:
            SynthesisError: it is given more buffers than every device takes.
        """
        if bound > MOST_BOUND:
            message = f"a kernel with {bound} buffers, the target takes {MOST_BOUND}: forbid fusion of the statement"
            raise SynthesisError(message, code="unsupported")
        key = (source, bound, pushed)
        if key not in self._known:
            self._known[key] = KernelFile(len(self._known), source, bound, pushed)
        self._known[key].lines.update(dict.fromkeys(lines))
        return self._known[key].number

    def note(self, features: frozenset[str], narrow: frozenset[int], source: str, group: int) -> None:
        """Note the device features, and the invocations and shared memory of a workgroup that a kernel needs."""
        self.group = max(self.group, group)
        self.shared_nbytes = max(self.shared_nbytes, _shared_nbytes(source))
        self.has_subgroups = self.has_subgroups or "GL_KHR_shader_subgroup" in source
        self.features |= {FEATURES[name] for name in features}
        self.features |= {f"OPENINFER_STORAGE{bits}" for bits in narrow if f"{bits}bit_storage" in source}

    def note_range(self, nbytes: int) -> None:
        """Note the bytes of a buffer that a kernel is given."""
        self.range_nbytes = max(self.range_nbytes, nbytes)


def _shared_nbytes(source: str) -> int:
    """Return the bytes of the arrays that a workgroup of a kernel shares."""
    return sum(_TYPE_NBYTES[kind] * int(count) for kind, count in _SHARED.findall(source))
