"""Caches and their counters as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.caches import APPEND, appended, cache_of
from openinfer.importers.onnx_files.sizes import is_name, size_text, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openinfer.importers.onnx_files.naming import Names
    from openinfer.importers.onnx_files.values import Cache, Call, Counter, Program, Value

_BEFORE = {1: ("h",), 2: ("b", "h")}
"""Names of the indices in front of the one that grows, for caches of rank 3 and 4; others count i, i2, i3."""


def counter_lines(program: Program, names: Names) -> tuple[list[str], list[str], list[str]]:
    """Return declarations of counters, the statements that read them and those that count on."""
    declared: list[str] = []
    reads: list[str] = []
    counts: list[str] = []
    for length, counter in program.counters.items():
        name = names.new("length" if len(program.counters) == 1 else f"{length}_length")
        declared.append(f"  {name}: i64;")
        reads.append(f"  cache.read {name} >> {length};")
        counts.append(f"  cache.increment {_amount(counter)} {name};")
    return declared, reads, counts


def _amount(counter: Counter) -> str:
    shown = size_text(counter.step)
    return shown if is_name(counter.step) else f"({shown})"


def cache_declaration(cache: Cache, name: str, layer: str, program: Program) -> str:
    """Return the declaration of a cache; ``layer`` is its index for layers, empty where it is that of one."""
    before = _BEFORE.get(cache.axis) if cache.rank == cache.axis + 2 else None
    indices = list(before or [f"i{axis or ''}" for axis in range(cache.axis)])
    taken = {*program.sizes, *program.counters}
    shown = [f"{index}_" if index in taken else index for index in (*([layer] if layer else []), *indices, "t")]
    entry = typed(cache.dtype, cache.dims[cache.axis + 1 :])
    return f"  {name}({', '.join(shown)}): {entry} @table;"


def cache_lines(call: Call, place: tuple[str, str], ref: Callable[[Value], str], target: str | None) -> Iterator[str]:
    """Yield the statements of an append or a read.

    Args:
        place: the name of the cache, and the index of its layer or an empty text.
        ref: what a value is called.
        target: what is read is called; None where nobody reads it.
    """
    cache, (name, layer) = cache_of(call), place
    length, axis = cache.dims[cache.axis], cache.axis
    front = [f"0..{size_text(dim)}" for dim in cache.dims[:axis]]
    front = [layer, *front] if layer else front
    end = length
    if call.op == APPEND:
        new = appended(call)
        end = length + new.dims[axis]
        yield f"  cache.write {ref(new)} >> {name}[{', '.join([*front, f'{size_text(length)}..{size_text(end)}'])}];"
    if target is not None:
        yield f"  cache.read {name}[{', '.join([*front, f'0..{size_text(end)}'])}] >> {target};"
