"""A picture of the arena over time: which value lies where, from the step that writes it to the last that needs it.

States in memories of the device lie above the arena, in all steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from openinfer.diagnostics import printable
from openinfer.plan.accesses import mask, members, reads, walk, writes
from openinfer.plan.liveness import Liveness
from openinfer.plan.report import step_text
from openinfer.plan.values import ArenaMemory, StateMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanValue

LEFT, RIGHT, TOP, GAP = 84, 24, 76, 30
"""Pixels around the picture, and between the pictures of two memories."""

WIDTH, HEIGHT = 880, 340
"""Pixels of the picture itself: least width, and height of all memories."""

LEAST_PANEL = 48
WIDEST_STEP, NARROWEST_STEP, LABELLED_STEP = 96, 3, 15
"""Pixels of a step: at most, at least, and from which on it has a label."""

LABEL, LABEL_ROOM = 20, 132
"""Characters of the label of a step, and the pixels below the picture that labels have."""

LETTER = 6.9
"""Pixels of a letter in a rectangle, about."""

_FILLS = ("#cfe3f7", "#fbdcc0", "#d3ecd0", "#e5d6f2", "#f8d3da", "#d2eceb", "#f4e9b8", "#dcdfe6")
_EDGES = ("#3f74ab", "#b9692a", "#4d8a47", "#7b55a1", "#b24d64", "#3f8785", "#94801f", "#5f6675")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A rectangle: bytes of a memory from the first to the last of some steps.

    Attributes:
        names: of the values that lie there; more than one where one is a view of the other.
        first, last: steps by number, both included.
        is_state: whether the value is kept between steps, and ``offset`` counts from the first state of the memory.
    """

    names: tuple[str, ...]
    type: str
    bank: int
    offset: int
    nbytes: int
    first: int
    last: int
    is_state: bool = False


def lifetimes(plan: ExecutionPlan) -> list[Lifetime]:
    """Return the rectangles of a plan, by their first step; steps count from 0 in the order of its report."""
    liveness = Liveness(plan.procedures, mask(output.value for output in plan.outputs))
    spans: list[Lifetime] = []
    open_: dict[int, tuple[int, int]] = {}
    steps = [step for procedure in reversed(plan.procedures) for step in walk(procedure.steps)]
    held = [liveness.after(step) | reads(step) | writes(step) for step in steps]
    for number, bits in enumerate([*held, 0]):
        alive = {v for v in members(bits) if isinstance(plan.values[v].memory, ArenaMemory)}
        for value in [value for value in open_ if value not in alive]:
            # What is read again later has a rectangle of its own then.
            spans += [_lifetime(plan.values[value], *open_.pop(value))]
        open_ |= {value: (open_.get(value, (number, number))[0], number) for value in alive}
    spans = _with_views(
        sorted(spans, key=lambda lifetime: (lifetime.first, lifetime.bank, lifetime.offset, lifetime.names))
    )
    return [*_states(plan, len(steps)), *spans]


def _states(plan: ExecutionPlan, count: int) -> Iterator[Lifetime]:
    """Yield the rectangles of states that memories of the device hold, through all of ``count`` steps."""
    for state in plan.states:
        value, last = plan.values[state.value], max(0, count - 1)
        memory, nbytes = value.memory, value.stored.nbytes
        if isinstance(memory, StateMemory) and memory.bank is not None:
            yield Lifetime((state.name,), str(state.type), memory.bank, memory.offset, nbytes, 0, last, is_state=True)


def _lifetime(value: PlanValue, first: int, last: int) -> Lifetime:
    memory = value.memory
    if not isinstance(memory, ArenaMemory):
        raise TypeError(f"{value.name} is not in the arena")
    return Lifetime((value.name,), str(value.type), memory.bank, memory.offset, value.stored.nbytes, first, last)


def _with_views(spans: Sequence[Lifetime]) -> list[Lifetime]:
    """Return the rectangles with those in the same bytes at the same time joined."""
    joined: list[Lifetime] = []
    for one in spans:
        region = (one.bank, one.offset, one.nbytes)
        before = next(
            (
                number
                for number, other in enumerate(joined)
                if (other.bank, other.offset, other.nbytes) == region and other.first <= one.first <= other.last
            ),
            None,
        )
        if before is None:
            joined.append(one)
            continue
        other = joined[before]
        names = tuple(dict.fromkeys((*other.names, *one.names)))
        last = max(other.last, one.last)
        joined[before] = Lifetime(names, other.type, other.bank, other.offset, other.nbytes, other.first, last)
    return joined


def arena_svg(plan: ExecutionPlan) -> str:
    """Return the picture as SVG: steps from left to right, bytes upwards, one panel for each memory.

    It holds no script and loads nothing; hovering a rectangle shows value, bytes and steps.
    """
    return "\n".join(_Picture(plan).lines())


class _Picture:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._rectangles = lifetimes(plan)
        steps = [(p.name, step) for p in reversed(plan.procedures) for step in walk(p.steps)]
        self._blocks = [name for name, _ in steps]
        self._texts = [step_text(plan, step) for _, step in steps]
        count = max(1, len(steps))
        self._step = min(WIDEST_STEP, max(NARROWEST_STEP, WIDTH / count))
        self._width = max(WIDTH, self._step * count)
        self._sizes = [bank.nbytes for bank in plan.banks if bank.nbytes] or [max(1, plan.arena_nbytes)]
        self._banks = [number for number, bank in enumerate(plan.banks) if bank.nbytes] or [0]
        self._heights = [max(LEAST_PANEL, HEIGHT * size / sum(self._sizes)) for size in self._sizes]
        self._has_labels = self._step >= LABELLED_STEP

    def lines(self) -> Iterator[str]:
        bottom = TOP + sum(self._heights) + GAP * (len(self._heights) - 1)
        height = bottom + (LABEL_ROOM if self._has_labels else 44)
        width = LEFT + self._width + RIGHT
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="system-ui, sans-serif" font-size="11">'
        )
        yield f"<title>{_text(self._title())}</title>"
        yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
        yield _label(LEFT, 24, self._title(), 'font-size="15" font-weight="600" fill="#1c2430"')
        yield _label(LEFT, 42, self._subtitle(), 'fill="#5b6675"')
        yield from self._block_bands(bottom)
        top = float(TOP)
        for bank, size, panel in zip(self._banks, self._sizes, self._heights, strict=True):
            yield from self._panel(bank, size, top, panel)
            top += panel + GAP
        yield from self._step_labels(bottom)
        yield "</svg>"

    def _title(self) -> str:
        kept = sum(bank.states_nbytes for bank in self._plan.banks)
        states = f", persistent variables {kept:,} bytes" if kept else ""
        return f"Arena over time: {self._plan.arena_nbytes:,} bytes{states}"

    def _subtitle(self) -> str:
        shared = [rectangle for rectangle in self._rectangles if not rectangle.is_state]
        live = [sum(r.nbytes for r in shared if r.first <= n <= r.last) for n in range(len(self._texts))]
        if not any(live):
            return "no value lies in the arena"
        peak = max(range(len(live)), key=live.__getitem__)
        text = _cut(self._texts[peak], 60)
        return f"{len(shared)} places; the most bytes are needed in step {peak + 1}, {text}"

    def _block_bands(self, bottom: float) -> Iterator[str]:
        starts = [n for n, name in enumerate(self._blocks) if n == 0 or self._blocks[n - 1] != name]
        for number, start in enumerate(starts):
            end = starts[number + 1] if number + 1 < len(starts) else len(self._blocks)
            x, width = self._x(start), self._step * (end - start)
            if number % 2 == 0:
                yield f'<rect x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{bottom - TOP:.1f}" fill="#f6f8fa"/>'
            room = int(width / LETTER)
            name = self._blocks[start]
            if room >= len(name) or room > 3:
                yield _label(x + 3, TOP - 8, _cut(name, max(4, room)), 'font-weight="600" fill="#5b6675"')

    def _panel(self, bank: int, size: int, top: float, height: float) -> Iterator[str]:
        for tick in _ticks(size):
            y = top + height - height * tick / size
            yield f'<path d="M{LEFT} {y:.1f}h{self._width:.1f}" stroke="#dde3ea"/>'
            yield _label(LEFT - 8, y + 4, f"{tick:,}", 'text-anchor="end" fill="#5b6675"')
        for number, rectangle in enumerate(self._rectangles):
            if rectangle.bank == bank:
                yield from self._rectangle(number, rectangle, size, top, height)
        if self._plan.banks:
            name = self._plan.banks[bank].name
            middle = top + height / 2
            rotated = f'transform="rotate(-90 16 {middle:.1f})" text-anchor="middle" font-weight="600" fill="#1c2430"'
            yield _label(16, middle, name, rotated)

    def _rectangle(self, number: int, life: Lifetime, size: int, top: float, height: float) -> Iterator[str]:
        colour = number % len(_FILLS)
        x, width = self._x(life.first), self._step * (life.last - life.first + 1)
        tall = height * life.nbytes / size
        base = self._plan.banks[life.bank].arena_nbytes if life.is_state else 0
        y = top + height - height * (base + life.offset + life.nbytes) / size
        names = ", ".join(life.names)
        steps = f"step {life.first + 1}" if life.first == life.last else f"steps {life.first + 1} to {life.last + 1}"
        part = "persistent bytes" if life.is_state else "bytes"
        hover = (
            f"{names}: {life.type}\n{part} {life.offset:,} to {life.offset + life.nbytes:,} ({life.nbytes:,})\n{steps}"
        )
        dashes = ' stroke-dasharray="5 3"' if life.is_state else ""
        yield f"<g><title>{_text(hover)}</title>"
        yield (
            f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(1.0, width - 1):.1f}" height="{max(1.5, tall):.1f}"'
            f' rx="2" fill="{_FILLS[colour]}" stroke="{_EDGES[colour]}"{dashes}/>'
        )
        room = int((width - 8) / LETTER)
        if tall >= 13 and room >= min(len(names), 4):
            ink = f'fill="{_EDGES[colour]}" font-weight="600"'
            baseline = y + min(tall / 2 + 4, 16.0)
            yield _label(x + 5, baseline, _cut(names, room), ink)
            if tall >= 34 and room >= 10:
                yield _label(x + 5, baseline + 13, _cut(f"{life.nbytes:,} bytes", room), 'fill="#3a4350"')
        yield "</g>"

    def _step_labels(self, bottom: float) -> Iterator[str]:
        every = 1 if self._has_labels else next(n for n in _SPACINGS if n * self._step >= 40)
        for number in range(0, len(self._texts), every):
            x = self._x(number) + self._step / 2
            yield f'<path d="M{x:.1f} {bottom:.1f}v5" stroke="#8a94a3"/>'
            if self._has_labels:
                text = f"{number + 1} {_cut(_short(self._texts[number]), LABEL)}"
                rotated = f'transform="rotate(-50 {x + 3:.1f} {bottom + 14:.1f})" text-anchor="end" fill="#3a4350"'
                yield _label(x + 3, bottom + 14, text, rotated)
            else:
                yield _label(x, bottom + 17, str(number + 1), 'text-anchor="middle" fill="#5b6675"')
        if not self._has_labels:
            yield _label(LEFT + self._width / 2, bottom + 36, "steps", 'text-anchor="middle" fill="#5b6675"')

    def _x(self, number: int) -> float:
        return LEFT + self._step * number


_SPACINGS = tuple(factor * 10**power for power in range(9) for factor in (1, 2, 5))


def _short(text: str) -> str:
    """Return what a step does and what it makes, without its operands."""
    done, arrow, made = text.partition(" >> ")
    return f"{done.split(' ')[0]} >> {made}" if arrow else text


def _ticks(size: int) -> list[int]:
    """Return four to eight round numbers of bytes from 0 to at most ``size``, and powers of two apart."""
    apart = 1
    while size / apart > 8:
        apart *= 2
    return list(range(0, size + 1, apart))


def _label(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{_text(text)}</text>'


def _text(text: str) -> str:
    return escape("\n".join(printable(line) for line in text.split("\n")))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(1, room - 1)]}…"
