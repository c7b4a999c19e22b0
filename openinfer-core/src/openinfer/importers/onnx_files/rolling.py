"""Repeated layers as a loop: weights become prefix tables, and what a layer hands on a variable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.loops import Carried, Loop, Table
from openinfer.importers.onnx_files.repetition import repetition
from openinfer.importers.onnx_files.values import Cache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Call, Program

_DIGITS = re.compile(r"\d+")


def rolled(program: Program) -> Sequence[Call | Loop]:
    """Return the statements of a program, with repeated layers as a loop."""
    found = repetition(program)
    if found is None:
        return program.calls
    calls = program.calls
    last = found.end - found.period
    carried = [
        Carried(
            initial=before,
            before=before,
            written=calls[found.start + place].outputs[result],
            after=calls[last + place].outputs[result],
        )
        for (place, result), before in found.carried.items()
    ]
    tables: list[Table] = []
    taken: set[str] = set()
    caches: list[Cache] = []
    for weights in found.weights.values():
        if isinstance(weights[0], Cache):
            caches.append(weights[0])
            continue
        pattern = _pattern([weight.name for weight in weights], taken)
        taken.add(pattern)
        tables.append(Table(weights[0], pattern, tuple(weight.known for weight in weights)))
    body = list(calls[found.start : found.start + found.period])
    title = f"{found.count} layers"
    loop = Loop("layers", "l", body, found.count, carried, tuple(tables), title, tuple(caches))
    return [*calls[: found.start], loop, *calls[found.end :]]


def _pattern(names: Sequence[str], taken: set[str]) -> str:
    """Return the pattern of names that count layers from 0 on; one made of the first name where they do not."""
    first = names[0]
    for digits in _DIGITS.finditer(first):
        if digits.group() != "0":
            continue
        head, tail = first[: digits.start()], first[digits.end() :]
        if "{" not in first and all(name == f"{head}{layer}{tail}" for layer, name in enumerate(names)):
            return f"{head}{{l}}{tail}"
    stem = _DIGITS.sub("", first).replace("..", ".").strip("._") or "weight"
    pattern, number = f"layer.{{l}}.{stem}", 2
    while pattern in taken:
        pattern, number = f"layer.{{l}}.{stem}.{number}", number + 1
    return pattern
