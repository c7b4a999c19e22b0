"""Queries, keys and values that one linear layer makes: laid out by heads first, and then split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.values import Program


def with_heads_before_splits(program: Program) -> None:
    """Lay out what is split along its last dim once, where every part is laid out in the same way.

    A split into n parts, each reshaped to H heads and transposed, is a reshape to n H heads, a transpose, and a split
    of the heads.
    """
    readers: dict[int, list[Call]] = {}
    for call in program.calls:
        for value in call.reads():
            readers.setdefault(id(value), []).append(call)
    outputs = {id(value) for _, value in program.outputs}
    replaced: dict[int, list[Call]] = {}
    for call in program.calls:
        if call.op == "split" and not outputs & {id(value) for value in call.outputs}:
            found = _joined(call, readers, outputs)
            if found is not None:
                laid_out, dropped = found
                replaced |= {id(each): [] for each in dropped} | {id(call): laid_out}
    program.calls = [each for call in program.calls for each in replaced.get(id(call), [call])]


def _joined(split: Call, readers: Mapping[int, list[Call]], outputs: set[int]) -> tuple[list[Call], list[Call]] | None:
    """Return the calls in place of a split, and those that are dropped."""
    x, parts, axis = split.inputs[0], split.settings.get("parts"), split.settings.get("axis", 0)
    if x is None or not isinstance(parts, int) or not isinstance(axis, int) or axis not in (-1, x.rank - 1):
        return None
    reshapes = [_only_reader(value, "reshape", readers) for value in split.outputs]
    first = reshapes[0]
    if first is None or any(each is None or each.outputs[0].dims != first.outputs[0].dims for each in reshapes):
        return None
    transposes = [
        None if each is None or id(each.outputs[0]) in outputs else _only_reader(each.outputs[0], "transpose", readers)
        for each in reshapes
    ]
    second = transposes[0]
    if second is None or any(each is None or each.settings != second.settings for each in transposes):
        return None
    dims, perm, shape = first.outputs[0].dims, second.settings.get("perm"), first.settings.get("shape")
    if (
        len(dims) != x.rank + 1
        or dims[:-2] != x.dims[:-1]
        or not isinstance(perm, tuple)
        or not isinstance(shape, tuple)
    ):
        return None
    heads = dims[-2] * parts
    if not is_number(heads) or not is_number(dims[-1]):
        return None
    apart = Value("", x.dtype, (*dims[:-2], heads, dims[-1]))
    swapped = Value("", x.dtype, tuple(apart.dims[place] for place in perm if isinstance(place, int)))
    laid_out = [
        Call("reshape", (x,), {"shape": (*shape[:-2], heads, dims[-1])}, (apart,), stage=split.stage),
        Call("transpose", (apart,), dict(second.settings), (swapped,), stage=split.stage),
        Call(
            "split",
            (swapped,),
            {"axis": perm.index(len(dims) - 2), "parts": parts},
            tuple(each.outputs[0] for each in transposes if each is not None),
            stage=split.stage,
        ),
    ]
    return laid_out, [each for each in (*reshapes, *transposes) if each is not None]


def _only_reader(value: Value, op: str, readers: Mapping[int, list[Call]]) -> Call | None:
    found = readers.get(id(value), [])
    return found[0] if len(found) == 1 and found[0].op == op else None
