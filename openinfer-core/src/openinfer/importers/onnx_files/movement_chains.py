"""Chains of reshapes and transposes, as exporters of TensorFlow and of attention write them, in fewer calls."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.rewriting import Calls, permutation
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Program

_SAME_ORDER = ("reshape", "flatten", "squeeze", "unsqueeze")
_MOVING = (*_SAME_ORDER, "transpose")


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of a dim of what a chain starts with: the dims of every value of the chain are products of parts."""

    extent: Size


class _NotAlignedError(Exception):
    """A reshape with a dim that parts do not make up."""


def with_short_chains(program: Program) -> None:
    """Replace chains whose inner values nobody else reads by at most a reshape, a transpose and a reshape."""
    calls = Calls(program)
    replaced: dict[int, list[Call]] = {}
    for call in reversed(program.calls):
        chain = [] if id(call) in replaced else _chain(calls, call)
        made = _shortened(chain) if len(chain) > 1 else None
        if made is not None:
            replaced |= {id(dropped): [] for dropped in chain} | {id(call): made}
    program.calls = [new for call in program.calls for new in replaced.get(id(call), [call])]


def _chain(calls: Calls, last: Call) -> list[Call]:
    """Return the calls that do nothing but move the elements of one value, up to one of them."""
    chain: list[Call] = []
    call: Call | None = last
    while call is not None and call.op in _MOVING and not call.declared:
        chain.insert(0, call)
        call = calls.inner(call.inputs[0], *_MOVING)
    return chain


def _shortened(chain: Sequence[Call]) -> list[Call] | None:
    """Return fewer calls that write the result of a chain, or None."""
    x, result = chain[0].inputs[0], chain[-1].outputs[0]
    if x is None or not x.rank:
        return None
    try:
        before, dims = _moved(x, chain)
    except _NotAlignedError:
        return None
    stage = chain[-1].stage
    order = [part for dim in dims for part in dim]
    if before == order:
        return [_reshape(x, result, stage)]
    ways = (_whole_dims(x, result, before, order), _dims_of_result(before, dims), _merged(before, order))
    made = min((_calls(x, result, *way, stage) for way in ways if way is not None), key=len)
    return made if len(made) < len(chain) else None


def _calls(x: Value, result: Value, shape: tuple[Size, ...], perm: tuple[int, ...], stage: str) -> list[Call]:
    """Return the calls that give a value a shape, transpose it, and give that the shape of a result."""
    made: list[Call] = []
    source = x
    if shape != x.dims:
        source = Value("", x.dtype, shape)
        made.append(_reshape(x, source, stage))
    moved = tuple(shape[axis] for axis in perm)
    target = result if moved == result.dims else Value("", x.dtype, moved)
    made.append(Call("transpose", (source,), {"perm": perm}, (target,), stage=stage))
    return made if target is result else [*made, _reshape(target, result, stage)]


def _reshape(x: Value, result: Value, stage: str) -> Call:
    # A 0 stands for a dim of the input at its place: shapes of any size are read more easily.
    shape = tuple(
        0 if not is_number(extent) and axis < x.rank and x.dims[axis] == extent else extent
        for axis, extent in enumerate(result.dims)
    )
    return Call("reshape", (x,), {"shape": shape}, (result,), stage=stage)


def _moved(x: Value, chain: Sequence[Call]) -> tuple[list[_Part], list[list[_Part]]]:
    """Return the parts of a value in its order, and those of each dim of the result of a chain; none are 1.

    Raises:
        _NotAlignedError: a reshape divides dims otherwise.
    """
    dims: list[list[_Part]] = [[] if extent == 1 else [_Part(extent)] for extent in x.dims]
    before = [part for dim in dims for part in dim]
    for call in chain:
        if call.op == "transpose":
            dims = [dims[axis] for axis in permutation(call)]
            continue
        dims, divided = _reshaped([part for dim in dims for part in dim], call.outputs[0].dims)
        before = [new for part in before for new in divided.get(part, [part])]
    return before, dims


def _reshaped(parts: list[_Part], shape: Sequence[Size]) -> tuple[list[list[_Part]], dict[_Part, list[_Part]]]:
    """Return the parts of each dim of another shape, and those that parts are divided into."""
    waiting, divided = parts[::-1], dict[_Part, list[_Part]]()
    origin = {part: part for part in parts}
    dims: list[list[_Part]] = []
    for extent in shape:
        dim: list[_Part] = []
        left = extent
        while left != 1:
            if not waiting:
                raise _NotAlignedError
            part = waiting.pop()
            if part.extent == left:
                dim.append(part)
                break
            if not is_number(left) or not is_number(part.extent) or not left or not part.extent:
                raise _NotAlignedError
            if left % part.extent == 0:
                dim.append(part)
                left //= part.extent
                continue
            if part.extent % left:
                raise _NotAlignedError
            first, rest = _Part(left), _Part(part.extent // left)
            whole = origin[part]
            origin |= {first: whole, rest: whole}
            pieces = divided.get(whole, [part])
            place = pieces.index(part)
            divided[whole] = [*pieces[:place], first, rest, *pieces[place + 1 :]]
            waiting.append(rest)
            dim.append(first)
            break
        dims.append(dim)
    if waiting:
        raise _NotAlignedError
    return dims, divided


def _whole_dims(
    x: Value, result: Value, before: Sequence[_Part], order: Sequence[_Part]
) -> tuple[tuple[Size, ...], tuple[int, ...]] | None:
    """Return the dims of a value and their order in a result, where no dim has been divided; None where one has."""
    extents = [part.extent for part in before]
    if extents != [extent for extent in x.dims if extent != 1]:
        return None
    axes = dict(zip(before, (axis for axis, extent in enumerate(x.dims) if extent != 1), strict=True))
    ones = [axis for axis, extent in enumerate(x.dims) if extent == 1]
    perm: list[int] = []
    waiting = [axes[part] for part in order]
    for extent in result.dims:
        if extent == 1 and ones:
            perm.append(ones.pop(0))
        elif waiting:
            perm.append(waiting.pop(0))
    return x.dims, (*perm, *waiting, *ones)


def _dims_of_result(
    before: Sequence[_Part], dims: Sequence[Sequence[_Part]]
) -> tuple[tuple[Size, ...], tuple[int, ...]] | None:
    """Return the dims of a result in the order of a value, and what brings them back; None where one is apart there."""
    positions = {part: position for position, part in enumerate(before)}
    first = {axis: positions[dim[0]] for axis, dim in enumerate(dims) if dim}
    if any(positions[part] != first[axis] + n for axis, dim in enumerate(dims) for n, part in enumerate(dim)):
        return None
    axes = sorted(range(len(dims)), key=lambda axis: first.get(axis, len(before)))
    shape = tuple(_product(part.extent for part in dims[axis]) for axis in axes)
    return shape, tuple(axes.index(axis) for axis in range(len(dims)))


def _product(extents: Iterable[Size]) -> Size:
    product: Size = 1
    for extent in extents:
        product = product * extent
    return product


def _merged(before: Sequence[_Part], order: Sequence[_Part]) -> tuple[tuple[Size, ...], tuple[int, ...]]:
    """Return the dims that a transpose needs, and their order: parts that stay neighbours are one dim."""
    follows = dict(itertools.pairwise(before))
    joined = {after for part, after in itertools.pairwise(order) if follows.get(part) is after}
    heads = [part for part in before if part not in joined]
    shape: list[Size] = []
    for part in before:
        if part in joined:
            shape[-1] = shape[-1] * part.extent
        else:
            shape.append(part.extent)
    return tuple(shape), tuple(heads.index(part) for part in order if part not in joined)
