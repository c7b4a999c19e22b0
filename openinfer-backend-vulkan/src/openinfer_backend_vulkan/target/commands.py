"""Commands of a segment as C: what is recorded once, and the numbers that are set before each submission."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.synth.c_host.lines import Lines
from openinfer.synth.c_text import comment
from openinfer_backend_vulkan.target.hazards import Hazards, meets_any
from openinfer_backend_vulkan.target.places import Place, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from openinfer.affine import Index
    from openinfer_backend_vulkan.target.host_names import HostNames

_NUMBERS_A_LINE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """Numbers of a dispatch that are known at run time only.

    Attributes:
        write: appends C that computes them, and returns their texts, ``int64_t`` each.
        groups: C text of how many workgroups there are, from what ``write`` has declared.
    """

    write: Callable[[Lines], Sequence[str]]
    count: int
    groups: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The kernel that computes the numbers and workgroups of a dispatch that depend on counts.

    Attributes:
        kernel: its number.
        counts: where the counts lie.
        numbers: what it is run with.
    """

    kernel: int
    counts: Place
    numbers: RunNumbers


class Commands(Lines):
    """Writes one segment: a function that records commands, or sets their numbers.

    Attributes:
        count: commands of one run.
        bound: buffers that its dispatches are given together; ``sets`` is how many dispatches there are.
        numbers_nbytes: bytes of all numbers.
        written: places that commands write.
        tested_lines: of the statements whose kernels have tests that can fail; 0 for one without a line.
        counted: registers that the commands count, as indices over counts.
    """

    def __init__(self, names: HostNames) -> None:
        super().__init__(depth=1)
        self.names = names
        self.count = self.sets = self.bound = self.numbers_nbytes = 0
        self.written: list[Place] = []
        self.tested_lines: set[int] = set()
        self.counted: dict[int, Index] = {}
        self._runs = 1
        self._hazards = Hazards()
        self._hazards.forget()

    @contextmanager
    def repeated(self, head: str, runs: int) -> Generator[None]:
        """Put what is appended meanwhile in a loop that runs a known number of times."""
        self.barrier()
        self._runs *= runs
        with self.braces(head):
            self._hazards.forget()
            yield
        self._runs //= max(runs, 1)
        self._hazards.forget()

    @contextmanager
    def at_run_time(self) -> Generator[None]:
        """Put what is appended meanwhile where it is run in every step, and not when commands are recorded."""
        with self.braces("if (run->commands == NULL)"):
            yield

    def barrier(self) -> None:
        """Append a barrier."""
        self.line("openinfer_barrier(run);")
        self._hazards.wait()

    def copy(self, source: Place, target: Place) -> None:
        """Append a copy of the bytes of ``target``."""
        self._touch((source,), (target,))
        with self.braces():
            self._declare("const struct openinfer_place from", source)
            self._declare("const struct openinfer_place to", target)
            self.line("openinfer_copy(run, from, to);")

    def fill(self, target: Place, word: int) -> None:
        """Append a fill with a word."""
        self._touch((), (target,))
        with self.braces():
            self._declare("const struct openinfer_place to", target)
            self.line(f"openinfer_fill(run, to, 0x{word:08x}u);")

    def dispatch(
        self,
        kernel: int,
        reads: Sequence[Place],
        writes: Sequence[Place],
        numbers: Sequence[int] | RunNumbers,
        groups: int = 0,
        *,
        is_pushed: bool = True,
        may_fail: bool = False,
        numbering: Numbering | None = None,
    ) -> None:
        """Append the run of a kernel on places.

        Args:
            numbers: what it is run with: push constants, or with ``is_pushed`` false items of its last buffer.
            may_fail: whether a place for faults comes after ``writes``.
            numbering: computes those of the numbers that the host does not know.
        """
        self._touch(reads if numbering is None else (*reads, numbering.counts), writes)
        places = [*reads, *writes, *([_FAULTS] if may_fail else [])]
        in_buffer = isinstance(numbers, RunNumbers) or not is_pushed
        self.sets += self._runs
        self.bound += self._runs * (len(places) + in_buffer)
        if may_fail:
            self.tested_lines.add(self.fault_line)
        with self.braces():
            room = f"[{len(places) + 1}]" if in_buffer else "[]"
            self.line(f"{'' if in_buffer else 'const '}struct openinfer_place places{room} = {{")
            self.line(*(f"    {place.text}, {comment(place.what)}" for place in places))
            self.line("};")
            called = f"run, &model->kernels[{kernel}], places, {len(places) + in_buffer}"
            if isinstance(numbers, RunNumbers):
                if numbering is None:
                    self._indirect(called, len(places), numbers)
                else:
                    self._counted(called, len(places), numbers, numbering)
                return
            words = [f"{number & 0xFFFFFFFF}u" for number in numbers]
            if words:
                self._list("static const uint32_t numbers[] = {", words)
            if in_buffer:
                self._numbers(f"places[{len(places)}]", len(words))
                self.line("memcpy(set, numbers, sizeof numbers);")
                pushed = "NULL, 0"
            else:
                pushed = f"numbers, {len(words)}" if words else "NULL, 0"
            self.line(f"openinfer_dispatch({called}, {pushed}, {groups});")

    def _indirect(self, called: str, bound: int, numbers: RunNumbers) -> None:
        self.line("struct openinfer_place size;", "uint32_t *groups;")
        self._numbers(f"places[{bound}]", numbers.count)
        self.line("groups = openinfer_numbers(run, &size, 3);")
        self.numbers_nbytes += self._runs * whole(12)
        with self.at_run_time():
            self._set("set", numbers)
            self.line(f"openinfer_set_groups(groups, {numbers.groups});")
        self.line(f"openinfer_dispatch_indirect({called}, &size);")

    def _set(self, name: str, numbers: RunNumbers) -> None:
        texts = numbers.write(self)
        self.line(*(f"{name}[{position}] = (uint32_t)({text});" for position, text in enumerate(texts)))

    def _counted(self, called: str, bound: int, numbers: RunNumbers, numbering: Numbering) -> None:
        """Append an indirect dispatch whose workgroups lie after its numbers, and before it what computes both."""
        self.sets += self._runs
        self.bound += self._runs * 3
        self.line(f"struct openinfer_place size, counting[3] = {{{numbering.counts.text}}};")
        self._numbers(f"places[{bound}]", numbers.count + 3)
        self._numbers("counting[2]", numbering.numbers.count, "given")
        self.line(f"counting[1] = size = places[{bound}];", f"size.offset += {4 * numbers.count};")
        for name, some in (("set", numbers), ("given", numbering.numbers)):
            with self.at_run_time():
                self._set(name, some)
        self.line(f"openinfer_dispatch(run, &model->kernels[{numbering.kernel}], counting, 3, NULL, 0, 1);")
        self.line("openinfer_barrier(run);", f"openinfer_dispatch_indirect({called}, &size);")

    def _numbers(self, place: str, words: int, name: str = "set") -> None:
        self.line(f"uint32_t *const {name} = openinfer_numbers(run, &{place}, {max(words, 1)});")
        self.numbers_nbytes += self._runs * whole(4 * max(words, 1))

    def number(self, place: str, text: str) -> None:
        """Append a place with the 64-bit integer of a loop's index; ``place`` is the variable's name."""
        self.line(f"struct openinfer_place {place};")
        self.line(f"openinfer_set_integer(openinfer_numbers(run, &{place}, 2), {text});")
        self.numbers_nbytes += self._runs * whole(8)

    def end(self) -> None:
        """Append what makes results visible: copies of what the host program reads, and a barrier."""
        changed = [place for place in self.names.mirrored if meets_any(place, self.written)]
        for place in changed:
            self.copy(place, self.names.mirror(place))
        self.barrier()

    def _touch(self, reads: Sequence[Place], writes: Sequence[Place]) -> None:
        if self._hazards.needs_barrier(reads, writes):
            self.line("openinfer_barrier(run);")
        self.written += writes
        self.count += self._runs

    def _declare(self, head: str, place: Place) -> None:
        self.line(f"{head} = {place.text}; {comment(place.what)}")

    def _list(self, head: str, items: Sequence[str]) -> None:
        if len(items) <= _NUMBERS_A_LINE:
            self.line(f"{head}{', '.join(items)}}};")
            return
        self.line(head)
        for start in range(0, len(items), _NUMBERS_A_LINE):
            self.line(f"    {', '.join(items[start : start + _NUMBERS_A_LINE])},")
        self.line("};")


_FAULTS = Place("host", 0, 64, 0, 64, "faults")
