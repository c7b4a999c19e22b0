"""Operators on elements whose inputs or attributes are bounds, types or bits."""

from __future__ import annotations

import numpy as np
from onnx import helper

from random_onnx.calls import TYPES, Call
from random_onnx.generic import draw_generic
from random_onnx.recipe_registry import draws


@draws("Cast")
def _cast(call: Call) -> None:
    call.take("input")
    call.attributes["to"] = _type(call)
    call.flag("saturate", 0.2)


def _type(call: Call) -> int:
    return int(helper.np_dtype_to_tensor_dtype(call.random.choice(list(TYPES.values()))))


@draws("CastLike")
def _cast_like(call: Call) -> None:
    call.take("input")
    call.take("target_type")


@draws("Clip")
def _clip(call: Call) -> None:
    array = call.take("input")
    low, high = sorted(call.random.choice((-3, -1, -0.5, 0, 0.5, 1, 2, 6)) for _ in range(2))
    for name, bound in (("min", low), ("max", high)):
        if call.chance(0.7) and not call.set(name, float(bound)):
            value = max(bound, 0) if array.dtype.kind == "u" else bound
            call.add(name, np.array(value).astype(array.dtype), known=None if call.chance(0.3) else True)


@draws("BitShift")
def _bit_shift(call: Call) -> None:
    array = call.take("X")
    bits = array.dtype.itemsize * 8
    shifts = call.drawn(np.dtype(np.uint8), call.random.choice((array.shape, (), (1,)))) % bits
    call.add("Y", np.asarray(shifts).astype(array.dtype), known=True)
    call.attributes["direction"] = call.random.choice(("LEFT", "RIGHT"))


@draws("Mod")
def _mod(call: Call) -> None:
    array = call.take("A")
    divisor = call.drawn(array.dtype, array.shape if call.chance(0.6) else ())
    if array.dtype.kind != "f":
        # Integers divided by zero are undefined, and end onnxruntime.
        divisor = np.where(divisor == 0, np.ones_like(divisor), divisor)
    call.add("B", divisor)
    if array.dtype.kind == "f":
        call.attributes["fmod"] = 1
    else:
        call.flag("fmod")


@draws("Div")
def _div(call: Call) -> None:
    array = call.take("A")
    divisor = call.drawn(array.dtype, array.shape if call.chance(0.6) else ())
    if array.dtype.kind != "f":
        divisor = np.where((divisor == 0) | (divisor.astype(np.int64) == -1), np.full_like(divisor, 3), divisor)
    call.add("B", divisor)


@draws("Pow")
def _pow(call: Call) -> None:
    array = call.take("X")
    kinds = call.types("Y")
    exponents = call.random.choice(((2,), (0.5,), (3,), (-1,), (0,), (1,), (0, 1, 2), (-2, 0.5, 3)))
    dtype = array.dtype if array.dtype in kinds and call.chance(0.6) else call.random.choice(kinds)
    shape = array.shape if len(exponents) > 1 else call.random.choice(((), (1,)))
    chosen = np.array(call.random.choices(exponents, k=int(np.prod(shape)))).reshape(shape)
    if dtype.kind != "f" or array.dtype.kind != "f":
        # A negative power of an integer is undefined.
        chosen = np.abs(np.trunc(chosen))
    call.add("Y", chosen.astype(dtype))


@draws("PRelu")
def _prelu(call: Call) -> None:
    array = call.take("X")
    start = call.random.randint(0, array.ndim)
    slope = tuple(1 if call.chance(0.3) else extent for extent in array.shape[start:])
    call.take("slope", shape=slope)


@draws("Dropout")
def _dropout(call: Call) -> None:
    call.take("data")
    call.set("ratio", 0.3, 0.5)
    call.outputs = call.random.choice((1, 1, 2))
    if call.has_input("ratio") and call.chance(0.5):
        call.add("ratio", np.array(0.3, np.float32), known=True)
        if call.chance(0.5):
            call.add("training_mode", np.array(False), known=True)


@draws("IsInf")
def _is_inf(call: Call) -> None:
    draw_generic(call)
    for name in ("detect_negative", "detect_positive"):
        call.flag(name, 0.5)


@draws("Selu")
def _selu(call: Call) -> None:
    call.take("X")
    call.set("alpha", 1.5, 0.3)
    call.set("gamma", 1.25, 0.3)
