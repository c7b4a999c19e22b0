"""Inputs that outputs extend: caches, which the program appends to in every step.

A model with a cache takes what was kept, joins to it what this step adds, and gives both back. How much was kept is a
size of the model, and becomes a counter that the program keeps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.importers.onnx_files.demands import LARGEST
from openinfer.importers.onnx_files.sizes import at, is_name, names_of
from openinfer.importers.onnx_files.values import Cache, Call, Counter, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Program

APPEND = "cache.append"
"""Call that appends to a cache and returns all of it; its inputs are the cache and what it appends."""

READ = "cache.read"
"""Call that gives what a cache holds."""

CALLS = (APPEND, READ)

_PREFIX = re.compile(r"past(_key_values?|_kv)?|present(_key_values?|_kv)?|new_(?=past)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Growth:
    """An input with the output that extends it, and the call that joins them."""

    before: Value
    output: str
    call: Call
    axis: int
    length: str
    step: Size


def pairs_by_names(inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> dict[str, str]:
    """Return output names with those of the inputs they extend: ``present.0.key`` and ``past_key_values.0.key``."""
    by_stem = {_PREFIX.sub("", name, count=1): name for name in outputs if _PREFIX.search(name)}
    found: dict[str, str] = {}
    for name in inputs:
        output = by_stem.get(_PREFIX.sub("", name, count=1)) if _PREFIX.search(name) else None
        if output is not None and output != name:
            found.setdefault(output, name)
    return found


def growth(program: Program, before: Value, output: str, after: Value) -> Growth | None:
    """Return how an output extends an input; None where it does not."""
    writer = next((call for call in program.calls if any(value is after for value in call.outputs)), None)
    if writer is None or writer.op != "concat" or writer.inputs[0] is not before or len(writer.inputs) != 2:
        return None
    given = writer.settings.get("axis", 0)
    axis = given % before.rank if isinstance(given, int) else 0
    dim, added = before.dims[axis], writer.inputs[1]
    if not is_name(dim) or added is None:
        return None
    others = [other for place, other in enumerate(before.dims) if place != axis]
    if str(dim) in names_of(*others, *added.dims):
        return None
    return Growth(before, output, writer, axis, str(dim), added.dims[axis])


def with_caches(program: Program, found: Sequence[Growth]) -> list[Growth]:
    """Let inputs be caches; return those that stay inputs, since others of the same size are not caches."""
    kept: list[Growth] = []
    for length in dict.fromkeys(each.length for each in found):
        group = [each for each in found if each.length == length]
        grown = {id(each.before) for each in group}
        is_shared = any(length in map(str, value.dims) for value in program.inputs if id(value) not in grown)
        if is_shared or any(each.step != group[0].step for each in group):
            kept += group
            continue
        for each in group:
            _replace(program, each)
        program.counters[length] = Counter(Value(length, I64, ()), group[0].step)
        _release(program, length)
    return kept


def _replace(program: Program, each: Growth) -> None:
    """Write an append in place of a concat."""
    before, call = each.before, each.call
    cache = Cache(before.name, before.dtype, before.dims, axis=each.axis, length=each.length)
    program.caches.append((cache, each.output))
    place = program.calls.index(call)
    call.op, call.inputs, call.settings = APPEND, (cache, call.inputs[1]), {}
    readers = [number for number, other in enumerate(program.calls) if any(v is before for v in other.reads())]
    if readers or any(value is before for _, value in program.outputs):
        program.calls.insert(min([place, *readers]), Call(READ, (cache,), {}, (before,), stage=call.stage))
    program.inputs = [value for value in program.inputs if value is not before]
    program.outputs = [(name, value) for name, value in program.outputs if name != each.output]


def _release(program: Program, length: str) -> None:
    """Give inputs extents of their own where theirs depend on what caches hold, and forget that size."""
    for value in program.inputs:
        dims = list(value.dims)
        for axis, dim in enumerate(dims):
            if length in names_of(dim):
                name = _unused(program, f"{re.sub(r'[^A-Za-z0-9]+', '_', value.name)}_{axis}")
                program.sizes[name] = at(dim, program.sizes)
                program.own_extents.append(name)
                dims[axis] = program.space.size(name, 0, LARGEST)
        if tuple(dims) != value.dims:
            own = Value(value.name, value.dtype, tuple(dims))
            program.inputs[program.inputs.index(value)] = own
            _read_instead(program, value, own)
    del program.sizes[length]
    program.origins.pop(length, None)


def _unused(program: Program, stem: str) -> str:
    name = stem if stem[:1].isalpha() else f"n{stem}"
    while name in program.sizes or name in program.indices:
        name += "_"
    return name


def _read_instead(program: Program, old: Value, new: Value) -> None:
    def of(value: Value) -> Value:
        return new if value is old else value

    for call in program.calls:
        call.remap(of)
    program.outputs = [(name, of(value)) for name, value in program.outputs]


def cache_stems(name: str) -> tuple[str, str]:
    """Return what a cache and all that it holds are called: ``key_cache`` and ``keys``, with a number where it has one.

    ``name`` is that of the input, such as ``past_key_values.0.key``.
    """
    parts = re.findall(r"[A-Za-z]+|\d+", _PREFIX.sub("", name, count=1))
    words = [part.lower() for part in parts if part.isalpha() and part.lower() != "cache"]
    number = "".join(f"_{part}" for part in parts if part.isdigit())
    stem = "_".join(words)
    return f"{stem}_cache{number}" if stem else f"cache{number}", f"{stem or 'kept'}s{number}"


def cache_of(call: Call) -> Cache:
    """Return the cache that a call appends to or reads."""
    cache = call.inputs[0]
    if not isinstance(cache, Cache):
        raise TypeError(call.op)
    return cache


def appended(call: Call) -> Value:
    """Return what a call appends to a cache."""
    value = call.inputs[1]
    if value is None:
        raise TypeError(call.op)
    return value
