"""Positions in a sequence, where the length of the caches is a number that the program reads.

The extents of a declaration are sizes, and the length of a cache is not a size. Positions of the entries that a step
adds are counted from 0 and shifted; the positions of all entries are in a cache of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.caches import APPEND, CALLS
from openinfer.importers.onnx_files.loops import LoopCall
from openinfer.importers.onnx_files.sizes import names_of
from openinfer.importers.onnx_files.values import Cache, Call, Counter, Value

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Program, Setting


class NotKeptError(ModelImportError):
    """A program whose caches cannot be kept: an extent depends on how much they hold."""


def with_positions(program: Program) -> None:
    """Replace calls whose declared extents or numbers depend on how much caches hold.

    Raises:
        NotKeptError: a call has an extent that nothing else says at run time.
    """
    if not program.counters:
        return
    calls: list[Call] = []
    for call in program.calls:
        calls += _replaced(call, program) if call.declared else [call]
        if call.op == "reshape":
            _infer_length(call, program)
        if isinstance(call, LoopCall) and call.loop is not None and _mentions(call.loop.calls, program):
            raise _refused(call)
    program.calls = calls
    if program.own_extents:
        _declare(program)


def _declare(program: Program) -> None:
    """Declare results whose extents are sizes, of calls that read values as long as the caches.

    Inputs with a size of their own are as long as that only when the program runs, which no rule of types can know.
    """
    for call in program.calls:
        if call.op in CALLS or isinstance(call, LoopCall):
            continue
        is_held = any(_length(dim, program) for value in call.reads() for dim in value.dims)
        call.declared |= is_held and not any(_length(dim, program) for value in call.outputs for dim in value.dims)


def _mentions(calls: list[Call], program: Program) -> bool:
    return any(_length(dim, program) for call in calls if call.declared for value in call.outputs for dim in value.dims)


def _infer_length(call: Call, program: Program) -> None:
    """Leave the extent that no size says to be inferred from the number of elements."""
    shape = call.settings.get("shape")
    if not isinstance(shape, tuple):
        return
    unknown = [_length(part, program) is not None for part in shape]
    if sum(unknown) > 1:
        raise _refused(call)
    call.settings["shape"] = tuple(-1 if is_held else part for part, is_held in zip(shape, unknown, strict=True))


def _length(size: float | Size, program: Program) -> str | None:
    """Return the counter that a size depends on."""
    return None if isinstance(size, float) else next((n for n in program.counters if n in names_of(size)), None)


def _replaced(call: Call, program: Program) -> list[Call]:
    result = call.outputs[0]
    in_dims = next((found for dim in result.dims if (found := _length(dim, program))), None)
    if call.op != "range":
        if in_dims is None:
            return [call]
        if call.op == "reshape":
            call.settings, call.declared = {"shape": result.dims}, False
            return [call]
        raise _refused(call)
    start = _start(call)
    length = in_dims or (None if start is None else _length(start, program))
    if length is None:
        return [call]
    if start is None or call.settings.get("step", 1) != 1:
        raise _refused(call)
    counter, size = program.counters[length], program.space.named(length)
    return _shifted(call, start, size, counter) if in_dims is None else _kept(call, start, size, counter)


def _start(call: Call) -> Size | None:
    start = call.settings.get("start", 0)
    return start if isinstance(start, int) else None


def _shifted(call: Call, start: Size, length: Size, counter: Counter) -> list[Call]:
    """Count from 0, and add the length of the cache."""
    rest = start - length
    if counter.value.name in names_of(rest):
        return [call]
    result = call.outputs[0]
    places = Value("", result.dtype, result.dims)
    offset, casts = counter.value, list[Call]()
    if result.dtype is not I64:
        offset = Value("", result.dtype, ())
        casts = [Call("cast", (counter.value,), {"to": result.dtype}, (offset,), stage=call.stage)]
    settings: dict[str, Setting] = {} if rest == 0 else {"start": rest}
    made = Call("range", (), settings, (places,), declared=True, stage=call.stage)
    return [*casts, made, Call("add", (places, offset), {}, (result,), stage=call.stage)]


def _kept(call: Call, start: Size, length: Size, counter: Counter) -> list[Call]:
    """Append the positions that a step adds to those before."""
    result = call.outputs[0]
    if result.dims[0] != length + counter.step or start != 0:
        raise _refused(call)
    new = Value("", result.dtype, (counter.step,))
    made = Call("range", (), {"start": length}, (new,), declared=True, stage=call.stage)
    cache = Cache("past.position", result.dtype, (length,), axis=0, length=counter.value.name)
    return [*_shifted(made, length, length, counter), Call(APPEND, (cache, new), {}, (result,), stage=call.stage)]


def _refused(call: Call) -> NotKeptError:
    message = f"{call.op} of {call.outputs[0].name!r} has an extent that depends on how much the caches hold"
    return NotKeptError(message, code="import-unsupported")
