"""Layer norm, RMS norm, softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from openinfer.importers.onnx_files.rewriting import Calls, ends_with, scalar_value

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Call, Setting, Value

_Variance: TypeAlias = "tuple[float, tuple[Value, Setting | None], bool]"
"""Eps, what is squared with the axes of the mean, and whether the square of the mean is taken off afterwards."""


@ends_with("div", "mul")
def _standardised(calls: Calls, call: Call) -> bool:
    """(x - mean) / sqrt(variance + eps), or x / sqrt(mean of squares + eps), over the last dims."""
    a, b = call.inputs
    for x, other in ((a, b), (b, a)) if call.op == "mul" else ((a, b),):
        root = _root(calls, other, inverse=call.op == "mul")
        if x is None or root is None:
            continue
        eps, squares, is_apart = root
        centred = calls.writer(x, "sub")
        mean = None if centred is None else calls.writer(centred.inputs[1], "mean_axis")
        if centred is not None and mean is not None and mean.inputs[0] is centred.inputs[0]:
            axis = _axis(mean, centred.inputs[0])
            squared = centred.inputs[0] if is_apart else x
            if axis is not None and squares == (squared, mean.settings.get("axes")):
                return calls.replace(call, "layer_norm", [centred.inputs[0], None, None], _settings(axis, eps))
        axis = _axis_of(squares[1], x)
        if squares[0] is x and axis is not None and not is_apart:
            return calls.replace(call, "rms_norm", [x, None], _settings(axis, eps))
    return False


def _root(calls: Calls, value: Value | None, *, inverse: bool) -> _Variance | None:
    """Return what sqrt(variance + eps) or its inverse is of."""
    if inverse:
        call = calls.inner(value, "rsqrt", "recip", "div", "pow")
        if call is None:
            return None
        if call.op in ("rsqrt", "pow"):
            is_inverse = call.op == "rsqrt" or scalar_value(call.inputs[1]) == -0.5
            return _shifted(calls, call.inputs[0]) if is_inverse else None
        if call.op == "div" and scalar_value(call.inputs[0]) != 1.0:
            return None
        value = call.inputs[1 if call.op == "div" else 0]
    root = calls.inner(value, "sqrt", "pow")
    if root is None or (root.op == "pow" and scalar_value(root.inputs[1]) != 0.5):
        return None
    return _shifted(calls, root.inputs[0])


def _shifted(calls: Calls, value: Value | None) -> _Variance | None:
    found = None if value is None else calls.terms(value)
    if found is None or len(found[1]) != 1:
        return None
    eps, (variance,) = found
    squares = _mean_of_squares(calls, variance)
    if squares is not None:
        return eps, squares, False
    apart = _mean_of_squares_minus_square(calls, variance)
    return None if apart is None else (eps, apart, True)


def _mean_of_squares(calls: Calls, value: Value | None) -> tuple[Value, Setting | None] | None:
    """Return what is squared and the axes of the mean."""
    mean = calls.inner(value, "mean_axis")
    if mean is None or not mean.settings.get("keepdims"):
        return None
    squared = _squared(calls, mean.inputs[0])
    return None if squared is None else (squared, mean.settings.get("axes"))


def _mean_of_squares_minus_square(calls: Calls, value: Value) -> tuple[Value, Setting | None] | None:
    """Return the x and axes of mean(x^2) - mean(x)^2, also where no less than 0 is let through."""
    bound = calls.inner(value, "relu", "max")
    if bound is not None:
        rest = [each for each in bound.inputs if each is not None and scalar_value(each) != 0.0]
        if len(rest) != 1:
            return None
        value = rest[0]
    difference = calls.inner(value, "sub")
    squares = None if difference is None else _mean_of_squares(calls, difference.inputs[0])
    if difference is None or squares is None:
        return None
    mean = calls.writer(_squared(calls, difference.inputs[1]), "mean_axis")
    is_same = mean is not None and mean.inputs[0] is squares[0] and mean.settings.get("axes") == squares[1]
    return squares if is_same else None


def _squared(calls: Calls, value: Value | None) -> Value | None:
    """Return what a value is the square of."""
    square = calls.inner(value, "square", "mul", "pow")
    if square is None or square.inputs[0] is None:
        return None
    is_square = (
        square.op == "square"
        or (square.op == "mul" and square.inputs[0] is square.inputs[1])
        or (square.op == "pow" and scalar_value(square.inputs[1]) == 2.0)
    )
    return square.inputs[0] if is_square else None


def _axis(mean: Call, x: Value | None) -> int | None:
    return None if x is None or not mean.settings.get("keepdims") else _axis_of(mean.settings.get("axes"), x)


def _axis_of(axes: Setting | None, x: Value) -> int | None:
    """Return the first of axes, negative, where they are the last ones."""
    if not isinstance(axes, tuple) or not x.rank:
        return None
    chosen = sorted(int(axis) % x.rank for axis in axes if isinstance(axis, int))
    return -len(chosen) if chosen == list(range(x.rank - len(chosen), x.rank)) else None


def _settings(axis: int, eps: float) -> dict[str, Setting]:
    settings: dict[str, Setting] = {} if axis == -1 else {"axis": axis}
    short = float(f"{eps:.7g}")
    return settings | ({} if short == 1e-5 else {"eps": short})


@ends_with("mul")
def _scale(calls: Calls, call: Call) -> bool:
    a, b = call.inputs
    for x, scale in ((a, b), (b, a)):
        norm = calls.inner(x, "layer_norm", "rms_norm")
        if norm is not None and norm.inputs[1] is None and norm.inputs[0] is not None and _fits(norm, scale):
            return calls.replace(call, norm.op, [norm.inputs[0], scale, *norm.inputs[2:]], norm.settings)
    return False


@ends_with("add")
def _bias(calls: Calls, call: Call) -> bool:
    a, b = call.inputs
    for x, bias in ((a, b), (b, a)):
        norm = calls.inner(x, "layer_norm")
        if norm is not None and norm.inputs[1] is not None and norm.inputs[2] is None and _fits(norm, bias):
            return calls.replace(call, "layer_norm", [*norm.inputs[:2], bias], norm.settings)
    return False


def _fits(norm: Call, parameter: Value | None) -> bool:
    """Whether a value has an element for each of the normalised places."""
    x, axis = norm.inputs[0], norm.settings.get("axis", -1)
    if x is None or parameter is None or not isinstance(axis, int):
        return False
    return parameter.dims == x.dims[axis % x.rank :] and parameter.dtype is x.dtype


@ends_with("div")
def _softmax(calls: Calls, call: Call) -> bool:
    """exp(x - max(x)) over its sum along one axis."""
    terms, total = call.inputs
    exponential = calls.writer(terms, "exp")
    added = calls.inner(total, "sum_axis")
    if exponential is None or added is None or terms is None or added.inputs[0] is not terms or calls.count(terms) != 2:
        return False
    shifted = calls.inner(exponential.inputs[0], "sub")
    largest = None if shifted is None else calls.inner(shifted.inputs[1], "max_axis")
    x = None if shifted is None else shifted.inputs[0]
    if largest is None or x is None or largest.inputs[0] is not x or x.dims != call.outputs[0].dims:
        return False
    axes = [_single_axis(reduction, x) for reduction in (added, largest)]
    if None in axes or axes[0] != axes[1]:
        return False
    return calls.replace(call, "softmax", [x], {} if axes[0] == x.rank - 1 else {"axis": axes[0] or 0})


def _single_axis(reduction: Call, x: Value) -> int | None:
    """Return the axis of a reduction along one that keeps it, counted from 0."""
    axes = reduction.settings.get("axes")
    if not reduction.settings.get("keepdims") or not isinstance(axes, tuple) or len(axes) != 1 or not x.rank:
        return None
    return axes[0] % x.rank if isinstance(axes[0], int) else None
