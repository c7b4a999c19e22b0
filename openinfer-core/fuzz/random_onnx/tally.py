"""What a run covered, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from random_programs.tally import Tally

from openinfer.errors import ModelImportError

MOST_LISTED = 25
"""Reasons that are listed; the others are counted."""

_VARYING = re.compile(r"'[^']*'|v\d+[a-z]_\w+|\[[^\]]*\]|-?\d+(\.\d+)?")


@dataclass(slots=True)
class OnnxTally:
    """Counts of a run.

    Attributes:
        graphs: graphs by what became of them.
        nodes: nodes of graphs that ran, by operator.
        drawn: attempts that came to nothing, by why and operator.
        runtime: nodes that onnxruntime refused, by operator and reason.
        refused: nodes that the importer refused, by code, operator and reason.
        values: elements of results by how they were compared.
        differences: nodes with elements that onnxruntime is known to compute otherwise, by reason.
        programs: what imported programs covered.
    """

    graphs: Counter[str] = field(default_factory=Counter[str])
    nodes: Counter[str] = field(default_factory=Counter[str])
    drawn: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    runtime: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    refused: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    values: Counter[str] = field(default_factory=Counter[str])
    differences: Counter[str] = field(default_factory=Counter[str])
    programs: Tally = field(default_factory=Tally)

    def note_refusal(self, op: str, error: ModelImportError) -> None:
        """Count a node that the importer refuses."""
        reason = str(error).partition("): ")[2] or str(error)
        self.refused[error.code, op, _VARYING.sub("N", reason)[:120]] += 1

    def note_runtime_refusal(self, op: str, message: str) -> None:
        """Count a node that onnxruntime refuses."""
        manner = message if message.startswith(("crashes", "hangs")) else message.split(":")[0]
        self.runtime[op, manner] += 1

    def lines(self, translated: Iterable[str], operators: Iterable[str]) -> Iterator[str]:
        """Yield the counts as text.

        Args:
            translated: ONNX operators that are translated.
            operators: names of OpenInfer's operators.
        """
        everything = set(translated)
        yield "graphs: " + ", ".join(f"{count} {what}" for what, count in self.graphs.most_common())
        yield f"nodes: {self.nodes.total()} of {len(self.nodes.keys() & everything)} of {len(everything)} operators"
        missing = sorted(everything - self.nodes.keys())
        if missing and len(missing) <= 60:
            yield f"  not reached: {', '.join(missing)}"
        yield "elements: " + ", ".join(f"{count} {how}" for how, count in self.values.most_common())
        yield from _listed("refused by onnxruntime", Counter(_joined(self.runtime)))
        crashed = {op for op, manner in self.runtime if manner.startswith(("crashes", "hangs"))}
        if crashed:
            yield f"  crashes or hangs of onnxruntime: {', '.join(sorted(crashed))}"
        by_code = Counter[str]()
        for (code, _, _), count in self.refused.items():
            by_code[code] += count
        yield f"nodes refused by the importer: {', '.join(f'{n} {code}' for code, n in by_code.most_common()) or '0'}"
        yield from _listed("refused", Counter(_joined(self.refused)))
        yield from _listed("known difference of onnxruntime", self.differences)
        yield from self.programs.lines(operators)


def _joined(counts: Counter[tuple[str, str]] | Counter[tuple[str, str, str]]) -> dict[str, int]:
    return {": ".join(key): count for key, count in counts.items()}


def _listed(what: str, counts: Counter[str]) -> Iterator[str]:
    for text, count in counts.most_common(MOST_LISTED):
        yield f"  {what} {count}: {text}"
    rest = counts.total() - sum(count for _, count in counts.most_common(MOST_LISTED))
    if rest:
        yield f"  {what} {rest}: for {len(counts) - MOST_LISTED} other reasons"
