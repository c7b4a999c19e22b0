"""A picture of the arena over time: which value lies where, from the step that writes it to the last that needs it.

States in memories of the device lie above the arena, in all steps.
"""

from __future__ import annotations

import math
from colorsys import hls_to_rgb
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from openinfer.diagnostics import printable
from openinfer.plan.accesses import called, mask, members, reads, walk, writes
from openinfer.plan.liveness import Liveness
from openinfer.plan.report import step_text
from openinfer.plan.values import ArenaMemory, StateMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanValue

LEFT, RIGHT, TOP, GAP = 84, 24, 76, 30
"""Pixels around the picture, and between the pictures of two memories."""

WIDTH, HEIGHT = 880, 340
"""Pixels of the picture itself: least width, and height of all memories."""

LEAST_PANEL = 48
WIDEST_STEP, LABELLED_STEP, NARROWEST_STEP = 96, 15, 3
"""Pixels of a step: at most, at least where steps have labels, and at least."""

MOST_LABELS = 120
"""Steps up to which the picture is as wide as their labels need."""

LABEL, SLOPE = 40, 50
"""Characters of the label of a step at most, and its degrees."""

LETTER, THIN_LETTER = 6.9, 6.2
"""Pixels of a bold letter of a value, and of one of a step, about."""

LINE = 13
"""Pixels from one line of text to the next."""

GOLDEN_ANGLE = 0.381966
"""Of a full turn: hues that are so far apart stay distinct, however many there are."""


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


def steps_in_order(plan: ExecutionPlan) -> list[tuple[str, Step]]:
    """Return the steps of a plan with the blocks that they are in; a called block follows its first call."""
    procedures = {procedure.name: procedure for procedure in plan.procedures}
    entry = plan.procedures[-1].name
    ordered: list[tuple[str, Step]] = []
    stack = [(entry, walk(procedures.pop(entry).steps))]
    while stack:
        block, steps = stack[-1]
        step = next(steps, None)
        if step is None:
            stack.pop()
            continue
        ordered.append((block, step))
        first_called = [procedures.pop(name) for name in called(step) if name in procedures]
        stack += [(procedure.name, walk(procedure.steps)) for procedure in reversed(first_called)]
    return ordered


def lifetimes(plan: ExecutionPlan) -> list[Lifetime]:
    """Return the rectangles of a plan, by their first step; steps count from 0 in the order of `steps_in_order`."""
    liveness = Liveness(plan.procedures, mask(output.value for output in plan.outputs))
    spans: list[Lifetime] = []
    open_: dict[int, tuple[int, int]] = {}
    steps = [step for _, step in steps_in_order(plan)]
    held = [liveness.after(step) | reads(step) | writes(step) for step in steps]
    begin = {procedure.name: id(next(walk(procedure.steps), None)) for procedure in plan.procedures}
    at_step = {id(step): bits for step, bits in zip(steps, held, strict=True)}
    for number, step in enumerate(steps):
        # What a call hands over to the called block is there during the call too.
        for name in called(step):
            held[number] |= held[max(0, number - 1)] & at_step.get(begin[name], 0)
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


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float

    def is_in(self, other: _Box) -> bool:
        return (
            other.x <= self.x
            and self.x + self.width <= other.x + other.width
            and other.y <= self.y
            and self.y + self.height <= other.y + other.height
        )

    def is_free(self, taken: Sequence[_Box]) -> bool:
        return not any(
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
            for other in taken
        )


def _beside(box: _Box, width: float) -> Iterator[_Box]:
    """Yield where a line of text may be written next to a rectangle: after it, over it, under it, and before it."""
    middle = box.y + (box.height - LINE) / 2
    after, over, under = box.x + box.width + 3, box.y - LINE - 1, box.y + box.height + 1
    # A thin rectangle at an edge of the panel has its text a little above or below its own height.
    shifts = (0.0, LINE / 2, -LINE / 2)
    yield from (_Box(after, middle + shift, width, LINE) for shift in shifts)
    for y in (over, under):
        yield _Box(box.x, y, width, LINE)
        yield _Box(box.x + box.width - width, y, width, LINE)
    yield from (_Box(box.x - 3 - width, middle + shift, width, LINE) for shift in shifts)


def arena_svg(plan: ExecutionPlan) -> str:
    """Return the picture as SVG: steps from left to right, bytes upwards, one panel for each memory.

    It holds no script and loads nothing; hovering a rectangle shows value, bytes and steps.
    """
    return "\n".join(_Picture(plan).lines())


class _Picture:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._rectangles = lifetimes(plan)
        steps = steps_in_order(plan)
        self._blocks = [name for name, _ in steps]
        self._texts = [step_text(plan, step) for _, step in steps]
        count = max(1, len(steps))
        least = LABELLED_STEP if count <= MOST_LABELS else NARROWEST_STEP
        self._step = min(WIDEST_STEP, max(least, WIDTH / count))
        self._width = max(WIDTH, self._step * count)
        self._sizes = [bank.nbytes for bank in plan.banks if bank.nbytes] or [max(1, plan.arena_nbytes)]
        self._banks = [number for number, bank in enumerate(plan.banks) if bank.nbytes] or [0]
        self._heights = [max(LEAST_PANEL, HEIGHT * size / sum(self._sizes)) for size in self._sizes]
        self._labels = [
            f"{number} {_cut(_short(text), LABEL)}" if self._step >= LABELLED_STEP else ""
            for number, text in enumerate(self._texts, 1)
        ]
        self._has_labels = any(self._labels)
        self._left = max([LEFT, *(self._reach(n) - self._step * n for n in range(len(self._labels)))])
        self._colours: dict[str, int] = {}
        for rectangle in self._rectangles:
            number = self._colours.get(rectangle.names[0], len({*self._colours.values()}))
            for name in rectangle.names:
                self._colours.setdefault(name, number)

    def _reach(self, number: int) -> float:
        """Return how far the label of a step stretches to the left of the step."""
        label = self._labels[number]
        return len(label) * THIN_LETTER * math.cos(math.radians(SLOPE)) - self._step / 2 + 8 if label else 0.0

    def lines(self) -> Iterator[str]:
        bottom = TOP + sum(self._heights) + GAP * (len(self._heights) - 1)
        longest = max(map(len, self._labels), default=0) * THIN_LETTER * math.sin(math.radians(SLOPE))
        height = bottom + (longest + 28 if self._has_labels else 44)
        width = self._left + self._width + RIGHT
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="system-ui, sans-serif" font-size="11">'
        )
        yield f"<title>{_text(self._title())}</title>"
        yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
        yield _label(self._left, 24, self._title(), 'font-size="15" font-weight="600" fill="#1c2430"')
        yield _label(self._left, 42, self._subtitle(), 'fill="#5b6675"')
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
                band = _label(x + 3, TOP - 8, _cut(name, max(4, room)), 'font-weight="600" fill="#5b6675"')
                yield f"<g><title>{_text(name)}</title>{band}</g>"

    def _panel(self, bank: int, size: int, top: float, height: float) -> Iterator[str]:
        for tick in _ticks(size):
            y = top + height - height * tick / size
            yield f'<path d="M{self._left:.1f} {y:.1f}h{self._width:.1f}" stroke="#dde3ea"/>'
            yield _label(self._left - 8, y + 4, f"{tick:,}", 'text-anchor="end" fill="#5b6675"')
        lives = [life for life in self._rectangles if life.bank == bank]
        panel = _Box(self._left, top, self._width, height)
        boxes = [self._box(life, size, top, height) for life in lives]
        taken = [*boxes]
        for life, box in zip(lives, boxes, strict=True):
            text = self._value_label(life, box, panel, taken)
            yield from self._rectangle(life, box, text)
        if self._plan.banks:
            name = self._plan.banks[bank].name
            middle = top + height / 2
            rotated = f'transform="rotate(-90 16 {middle:.1f})" text-anchor="middle" font-weight="600" fill="#1c2430"'
            yield _label(16, middle, name, rotated)

    def _box(self, life: Lifetime, size: int, top: float, height: float) -> _Box:
        base = self._plan.banks[life.bank].arena_nbytes if life.is_state else 0
        y = top + height - height * (base + life.offset + life.nbytes) / size
        width = self._step * (life.last - life.first + 1)
        return _Box(self._x(life.first) + 0.5, y, max(1.0, width - 1), max(1.5, height * life.nbytes / size))

    def _rectangle(self, life: Lifetime, box: _Box, label: str) -> Iterator[str]:
        steps = f"step {life.first + 1}" if life.first == life.last else f"steps {life.first + 1} to {life.last + 1}"
        part = "persistent bytes" if life.is_state else "bytes"
        hover = (
            f"{', '.join(life.names)}: {life.type}\n"
            f"{part} {life.offset:,} to {life.offset + life.nbytes:,} ({life.nbytes:,})\n{steps}"
        )
        dashes = ' stroke-dasharray="5 3"' if life.is_state else ""
        fill, edge = self._fill_and_edge(life)
        yield f"<g><title>{_text(hover)}</title>"
        yield (
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            f' rx="2" fill="{fill}" stroke="{edge}"{dashes}/>'
        )
        yield f"{label}</g>"

    def _value_label(self, life: Lifetime, box: _Box, panel: _Box, taken: list[_Box]) -> str:
        """Return the label of a rectangle: in it, or next to it where it is whole only there, and not over others.

        Args:
            taken: what is drawn in the panel; a label next to its rectangle is added.
        """
        names = ", ".join(life.names)
        ink = f'fill="{self._fill_and_edge(life)[1]}" font-weight="600"'
        room = int((box.width - 8) / LETTER) if box.height >= LINE else 0
        if room < len(names) and self._has_labels:
            beside = next((b for b in _beside(box, len(names) * LETTER) if b.is_in(panel) and b.is_free(taken)), None)
            if beside is not None:
                taken.append(beside)
                return _label(beside.x, beside.y + LINE - 3, names, ink)
        if room < min(len(names), 4):
            return ""
        baseline = box.y + min(box.height / 2 + 4, 16.0)
        label = _label(box.x + 4.5, baseline, _cut(names, room), ink)
        if box.height >= 34 and room >= 10:
            label += _label(box.x + 4.5, baseline + LINE, _cut(f"{life.nbytes:,} bytes", room), 'fill="#3a4350"')
        return label

    def _fill_and_edge(self, life: Lifetime) -> tuple[str, str]:
        hue = 0.58 + GOLDEN_ANGLE * self._colours[life.names[0]]
        return _hex(hls_to_rgb(hue % 1, 0.87, 0.6)), _hex(hls_to_rgb(hue % 1, 0.38, 0.45))

    def _step_labels(self, bottom: float) -> Iterator[str]:
        every = 1 if self._has_labels else next(n for n in _SPACINGS if n * self._step >= 40)
        for number in range(0, len(self._texts), every):
            x = self._x(number) + self._step / 2
            yield f'<path d="M{x:.1f} {bottom:.1f}v5" stroke="#8a94a3"/>'
            if self._has_labels:
                pivot = f"{x + 3:.1f} {bottom + 14:.1f}"
                rotated = f'transform="rotate(-{SLOPE} {pivot})" text-anchor="end" fill="#3a4350"'
                label = _label(x + 3, bottom + 14, self._labels[number], rotated)
                yield f"<g><title>{_text(self._texts[number])}</title>{label}</g>"
            else:
                yield _label(x, bottom + 17, str(number + 1), 'text-anchor="middle" fill="#5b6675"')
        if not self._has_labels:
            yield _label(self._left + self._width / 2, bottom + 36, "steps", 'text-anchor="middle" fill="#5b6675"')

    def _x(self, number: int) -> float:
        return self._left + self._step * number


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


def _hex(rgb: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(1, room - 1)]}…"
