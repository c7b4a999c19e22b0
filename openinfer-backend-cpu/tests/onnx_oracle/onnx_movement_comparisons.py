"""Operators that move elements, in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_comparisons import Array, Asked, IncomparableError, ask, like, of, whole


@of("concat")
def _concat(call: Asked) -> Array:
    return ask("Concat", *call.inputs, axis=call.get("axis"))


@of("stack")
def _stack(call: Asked) -> Array:
    axis = call.get("axis")
    return ask("Concat", *(ask("Unsqueeze", x, whole(axis)) for x in call.inputs), axis=axis)


@of("depth_to_space", "space_to_depth")
def _depth(call: Asked) -> Array:
    mode = {"mode": call.get("mode")} if call.op == "depth_to_space" else {}
    name = {"depth_to_space": "DepthToSpace", "space_to_depth": "SpaceToDepth"}[call.op]
    return ask(name, call.x, blocksize=call.get("block"), **mode)


@of("flatten")
def _flatten(call: Asked) -> Array:
    if call.x.size == 0:
        raise IncomparableError("the evaluator cannot flatten nothing")
    return ask("Flatten", call.x, axis=call.get("axis"))


@of("gather_elements")
def _gather_elements(call: Asked) -> Array:
    x, indices = call.inputs
    axis = call.get("axis") % x.ndim
    if [n for place, n in enumerate(x.shape) if place != axis] != [
        n for place, n in enumerate(indices.shape) if place != axis
    ]:
        raise IncomparableError("the evaluator takes indices for whole dims")
    return ask("GatherElements", x, indices, axis=axis)


@of("embedding")
def _embedding(call: Asked) -> Array:
    ids, table = call.inputs
    return ask("Gather", table, ids)


@of("expand", "reshape")
def _shape(call: Asked) -> Array:
    shape = call.get("shape")
    return ask(call.op.capitalize(), call.x, whole(*(call.outputs[0].shape if shape is None else shape)))


@of("squeeze", "unsqueeze")
def _squeeze(call: Asked) -> Array:
    axes = call.get("axes")
    return ask(call.op.capitalize(), call.x, None if axes is None else whole(*np.atleast_1d(axes).tolist()))


@of("slice")
def _slice(call: Asked) -> Array:
    lists = (call.get(name) for name in ("starts", "ends", "axes", "steps"))
    return ask("Slice", call.x, *(None if given is None else whole(*given) for given in lists))


@of("narrow")
def _narrow(call: Asked) -> Array:
    start = call.get("start")
    end = start + call.get("length")
    if start < 0 <= end:
        end = np.iinfo(np.int64).max
    return ask("Slice", call.x, whole(start), whole(end), whole(call.get("axis")))


@of("select")
def _select(call: Asked) -> Array:
    return ask("Gather", call.x, np.array(call.get("index"), np.int64), axis=call.get("axis"))


@of("flip")
def _flip(call: Asked) -> Array:
    axes = np.atleast_1d(call.get("axes")).tolist()
    count = len(axes)
    ends = [np.iinfo(np.int64).min] * count
    return ask("Slice", call.x, whole(*[-1] * count), whole(*ends), whole(*axes), whole(*[-1] * count))


@of("split")
def _split(call: Asked) -> list[Array]:
    sizes = [kind.shape[call.get("axis")] for kind in call.outputs]
    found = ask("Split", call.x, whole(*sizes), outputs=len(sizes), axis=call.get("axis"))
    return found if len(sizes) > 1 else [found]


@of("pad")
def _pad(call: Asked) -> Array:
    if min(call.get("pads"), default=-1) < 0:
        raise IncomparableError("the evaluator cannot crop, nor pad scalars")
    value = like(call.get("value"), call.x)
    return ask("Pad", call.x, whole(*call.get("pads")), value, mode=call.get("mode"))


@of("tile")
def _tile(call: Asked) -> Array:
    return ask("Tile", call.x, whole(*call.get("repeats")))


@of("repeat")
def _repeat(call: Asked) -> Array:
    axis, count = call.get("axis") % call.x.ndim, call.get("count")
    apart = ask("Unsqueeze", call.x, whole(axis + 1))
    shape = [*call.x.shape[: axis + 1], count, *call.x.shape[axis + 1 :]]
    return ask("Reshape", ask("Expand", apart, whole(*shape)), whole(*call.outputs[0].shape), allowzero=1)


@of("transpose")
def _transpose(call: Asked) -> Array:
    perm = call.get("perm")
    return ask("Transpose", call.x, **({} if perm is None else {"perm": list(perm)}))


@of("triu", "tril")
def _triangle(call: Asked) -> Array:
    return ask("Trilu", call.x, np.array(call.get("k"), np.int64), upper=int(call.op == "triu"))


@of("one_hot")
def _one_hot(call: Asked) -> Array:
    if call.outputs[0].dtype.name == "bool":
        raise IncomparableError("the evaluator subtracts")
    values = np.array([call.get("off"), call.get("on")], call.outputs[0].dtype.storage)
    depth = np.array(call.get("depth"), np.int64)
    return ask("OneHot", call.x.astype(np.int64), depth, values, axis=call.get("axis"))


@of("range")
def _range(call: Asked) -> Array:
    kind = np.dtype(call.outputs[0].dtype.storage)
    start, limit, step = (call.get(name) for name in ("start", "limit", "step"))
    if limit is None:
        limit = start + step * call.outputs[0].shape[0]
    if kind.kind == "u" and min(start, limit, step) < 0:
        raise IncomparableError("numbers outside of the type")
    return ask("Range", *(np.array(number, kind) for number in (start, limit, step)))


@of("iota")
def _iota(call: Asked) -> Array:
    (made,) = call.outputs
    axis = call.get("axis") % len(made.shape)
    kind = np.dtype(made.dtype.storage)
    counted = ask("Range", *(np.array(number, kind) for number in (0, made.shape[axis], 1)))
    shape = [made.shape[axis] if place == axis else 1 for place in range(len(made.shape))]
    return ask("Expand", ask("Reshape", counted, whole(*shape)), whole(*made.shape))


@of("resize2d")
def _resize(call: Asked) -> Array:
    sizes = whole(*call.outputs[0].shape)
    attributes: dict[str, Any] = {"mode": call.get("mode"), "coordinate_transformation_mode": "half_pixel"}
    if call.get("mode") == "nearest":
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if call.x.size == 0 or call.x.dtype == np.bool_:
        raise IncomparableError("the evaluator cannot resize nothing, nor bools")
    return ask("Resize", call.x, None, None, sizes, opset=19, **attributes)
