"""What a run of the fuzzer covered, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from openinfer.testing.random_programs.precision import SIGNS, UNKNOWN


@dataclass(slots=True)
class Tally:
    """Counts of a run.

    Attributes:
        ran: programs by place.
        refused: programs by place and the code of the refusal.
        ended: programs by the code of the error that a step ended with on cpu.
        operators: programs by place and operator.
        values: compared values by place and how they are.
    """

    ran: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    ended: Counter[str] = field(default_factory=Counter[str])
    operators: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    values: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def note_run(self, place: str, operators: Iterable[str], levels: Iterable[int]) -> None:
        """Count a program that ran in a place, and the values that were compared there."""
        self.ran[place] += 1
        self.operators.update((place, name) for name in operators)
        self.values.update((place, _manner(level)) for level in levels)

    def lines(self, known: Iterable[str]) -> Iterator[str]:
        """Yield the counts as text; ``known`` are all operators that there are."""
        everything = set(known)
        for place, count in self.ran.items():
            reached = {name for where, name in self.operators if where == place}
            yield f"{place}: {count} programs, {len(reached & everything)} of {len(everything)} operators"
            missing = sorted(everything - reached)
            if missing and len(missing) <= 40:
                yield f"  not reached: {', '.join(missing)}"
            manners = [f"{count} {manner}" for (where, manner), count in sorted(self.values.items()) if where == place]
            if manners:
                yield f"  values: {', '.join(manners)}"
            yield from (
                f"  refused {count}: {code}" for (where, code), count in self.refused.most_common() if where == place
            )
        yield from (
            f"{place}: refused {count}: {code}"
            for (place, code), count in self.refused.most_common()
            if not self.ran[place]
        )
        yield from (f"steps ended with {code}: {count}" for code, count in self.ended.most_common())


def _manner(level: int) -> str:
    if level <= SIGNS:
        return "exactly"
    return "not compared" if level >= UNKNOWN else "nearly"
