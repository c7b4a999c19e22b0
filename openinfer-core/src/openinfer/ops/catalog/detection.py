"""Boxes of detections: those that are kept when others overlap them."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.dims import is_size, surely
from openinfer.dtypes import BOOL, I32, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops.reading import parse_kernel
from openinfer.ops.counting import COUNT_TYPE
from openinfer.ops.rows import Rows, store_zeros
from openinfer.ops.schema import (
    InputSpec,
    Loops,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import integer, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as Tensor
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

CATEGORY = "detection"
FLOATS = frozenset({"f32", "f64"})
MOST_STAGED = 1024
"""Most boxes of a class on devices of many threads, where each box is a stage of its own."""


def _types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    boxes, scores = needed(inputs), needed(inputs, 1)
    fits = len(boxes.shape) == 3 and len(scores.shape) == 3 and boxes.shape[2] == 4
    if not fits or boxes.shape[0] != scores.shape[0] or boxes.shape[1] != scores.shape[2]:
        raise OpTypeError(f"boxes are {boxes} and scores are {scores}, expected [B, N, 4] and [B, C, N]", of="nms")
    most = integer(settings.get("max_output_boxes"), "max_output_boxes")
    if most < 0:
        raise OpTypeError(f"max_output_boxes is {most}, expected 0 or more", settings=("max_output_boxes",))
    batches, classes, count = scores.shape
    return TensorType(I64, (batches * classes * dims.min(most, count), 3)), COUNT_TYPE


@dataclass(frozen=True, slots=True)
class _Limits:
    """The settings of a call. Thresholds are rounded to the type of the scores where they are used.

    Attributes:
        score: boxes need more; None: any score will do.
        iou: boxes that overlap a kept one by more are dropped.
    """

    most: int
    iou: float
    score: float | None
    is_centred: bool

    @classmethod
    def of(cls, call: OpCall) -> _Limits:
        settings = call.settings
        score, iou = settings.get("score_threshold"), settings.get("iou_threshold")
        return cls(
            most=integer(settings.get("max_output_boxes"), "max_output_boxes"),
            iou=float(iou) if isinstance(iou, int | float) else 0.0,
            score=float(score) if isinstance(score, int | float) else None,
            is_centred=settings.get("box_format") == "center",
        )


def _kept(call: OpCall) -> Kernel:
    """Take the best box that is left again and again, and drop those that overlap it.

    The minima and maxima never change a place: they are bounds that analysers of generated source can see.
    """
    boxes, scores = needed(call.inputs), needed(call.inputs, 1)
    (batches, classes, count), limits, dtype = scores.shape, _Limits.of(call), scores.dtype
    result = call.outputs[0]
    parts = (("boxes", boxes), ("scores", scores), ("selected", result), ("n", COUNT_TYPE))
    head = ", ".join(f"{name}: GLOBAL[{type_.dtype}, {type_.count}]" for name, type_ in parts)
    if not result.count:
        return parse_kernel(f"def nms({head}):\n    n[0] = i64(0)\n")
    at = f"{classes * count}*b + {count}*c"
    overlap = _overlap_text(limits, dtype, f"{4 * count}*b + 4*p", f"{4 * count}*b + 4*j")
    is_free = (
        "ge(number(j, i64), i64(0))" if limits.score is None else f"gt(scores[{at} + j], {dtype}({limits.score!r}))"
    )
    row = "\n".join(f"selected[3*row + {place}] = number({of}, i64)" for place, of in enumerate(("b", "c", "p")))
    return parse_kernel(f"""
def nms({head}):
    rows: i64 = i64(0)
    free: PRIVATE[bool, {count}]
    for b in SERIAL({batches}):
        for c in SERIAL({classes}):
            for j in SERIAL({count}):
                free[j] = {is_free}
            for k in SERIAL({min(limits.most, count)}):
                best: i64 = i64(-1)
                top: {dtype} = {dtype}(0.0)
                for j in SERIAL({count}):
                    value: {dtype} = scores[{at} + j]
                    better: bool = logical_and(free[j], logical_or(lt(best, i64(0)), gt(value, top)))
                    best = select(better, number(j, i64), best)
                    top = select(better, value, top)
                is_left: index[2] = cast(ge(best, i64(0)), i64)
                if 0 <= is_left - 1 < 1:
                    p: index[{count}] = minimum(maximum(best, i64(0)), i64({count - 1}))
                    row: index[{result.shape[0]}] = minimum(maximum(rows, i64(0)), i64({result.shape[0] - 1}))
{indent(row, " " * 20)}
                    rows = rows + i64(1)
                    for j in SERIAL({count}):
{indent(overlap, " " * 24)}
                        is_other: bool = ne(number(j, i64), number(p, i64))
                        free[j] = logical_and(free[j], logical_and(is_other, logical_not(overlaps)))
    n[0] = rows
""")


def _overlap_text(limits: _Limits, dtype: DType, one: str, other: str) -> str:
    """Return the lines that find whether two boxes overlap by more than the limit."""
    lines: list[str] = []
    for axis in (0, 1):
        for name, at in (("a", one), ("b", other)):
            first, second = f"boxes[{at} + {axis}]", f"boxes[{at} + {axis + 2}]"
            low, high = f"minimum({first}, {second})", f"maximum({first}, {second})"
            if limits.is_centred:
                half = f"{second} / {dtype}(2.0)"
                low, high = f"{first} - {half}", f"{first} + {half}"
            lines += [f"low_{name}{axis}: {dtype} = {low}", f"high_{name}{axis}: {dtype} = {high}"]
        low, high = (f"{end}_a{axis}, {end}_b{axis}" for end in ("low", "high"))
        lines.append(f"common{axis}: {dtype} = minimum({high}) - maximum({low})")
    areas = {name: f"(high_{name}0 - low_{name}0) * (high_{name}1 - low_{name}1)" for name in "ab"}
    zero = f"{dtype}(0.0)"
    return "\n".join(
        [
            *lines,
            f"common: {dtype} = common0 * common1",
            *(f"area_{name}: {dtype} = {area}" for name, area in areas.items()),
            f"union: {dtype} = area_a + area_b - common",
            f"meets: bool = logical_and(gt(common0, {zero}), gt(common1, {zero}))",
            f"is_area: bool = logical_and(gt(area_a, {zero}), gt(area_b, {zero}))",
            f"is_positive: bool = logical_and(gt(common, {zero}), gt(union, {zero}))",
            "is_overlap: bool = logical_and(meets, logical_and(is_area, is_positive))",
            f"overlaps: bool = logical_and(is_overlap, gt(common / union, {dtype}({limits.iou!r})))",
        ]
    )


def _kept_in_stages(k: Builder, call: OpCall) -> None:
    """Take the best box of all classes that is left, in a stage for each box of a class, and drop those it overlaps."""
    (boxes, scores), (selected, n) = k.given, k.outputs
    limits, (batches, classes, count) = _Limits.of(call), needed(call.inputs, 1).shape
    most = _fewer(limits.most, count)
    if most > MOST_STAGED:
        message = f"max_output_boxes is {limits.most}, and each box is a stage here: 0..{MOST_STAGED} are possible"
        raise OpTypeError(message, of="nms", settings=("max_output_boxes",))
    store_zeros(k, selected)
    if not most or any(surely(lambda extent=extent: extent == 0) for extent in (batches, classes, count)):
        n[()] = k.constant(0, I64)
        return
    free, best = k.temporary(BOOL, batches, classes, count), k.temporary(I32, batches, classes, most)
    at = k.axes(batches, classes, count)
    score = scores[at]
    free[at] = k.constant(True, BOOL) if limits.score is None else score > limits.score
    for number in range(most):
        b, c, j = k.axes(batches, classes, count)
        place = k.apply(tree.select, free[b, c, j], k.position(j, I32), k.constant(-1, I32))
        best[b, c, number] = k.folds((place, scores[b, c, j]), (j,), _better, (-1, 0.0))[0]
        if number + 1 < most:
            left = k.temporary(BOOL, batches, classes, count)
            b, c, j = k.axes(batches, classes, count)
            kept = k.apply(tree.maximum, best[b, c, number], k.constant(0, I32))
            p = k.lookup(kept, count, "a box")
            # Where nothing is left, box 0 is not free either.
            dropped = k.apply(
                tree.logical_or, _overlaps(k, limits, boxes, b, p, j), k.apply(tree.eq, k.position(p), k.position(j))
            )
            left[b, c, j] = k.apply(tree.logical_and, free[b, c, j], k.apply(tree.logical_not, dropped))
            free = left
    # As many places as rows: fewer boxes than stages leave no row for a place after the last that is chosen.
    shape = (batches, classes, dims.min(most, count))
    rows = Rows.of(k, shape, lambda at: k.apply(tree.ge, best[at], k.constant(0, I32)))
    for column in range(3):
        b, c, number = at = k.axes(*shape)
        value = best[at].cast(I64) if column == 2 else k.position((b, c)[column])
        selected[rows.row(at, call.outputs[0].shape[0]), column] = value
    rows.count(n)


def _fewer(most: int, count: int) -> int:
    """Return the lesser of two numbers, the first where the other is known at run time only."""
    return most if is_size(count) else min(most, count)


def _better(totals: Sequence[Expr], terms: Sequence[Expr]) -> Sequence[Expr]:
    """Return the place and score of the better of two boxes; of equal ones that of the lower place."""
    (best, top), (place, score) = totals, terms
    is_first = tree.lt(best, tree.literal(0, I32))
    is_better = tree.logical_and(tree.ge(place, tree.literal(0, I32)), tree.logical_or(is_first, tree.gt(score, top)))
    return tree.select(is_better, place, best), tree.select(is_better, score, top)


def _overlaps(k: Builder, limits: _Limits, boxes: Tensor, b: Var, one: Var, other: Var) -> Value:
    """Return whether two boxes overlap by more than the limit."""
    zero = k.constant(0, boxes.dtype)

    def ends(box: Var, axis: int) -> tuple[Value, Value]:
        first, second = boxes[b, box, axis], boxes[b, box, axis + 2]
        if limits.is_centred:
            half = second / 2.0
            return first - half, first + half
        return k.apply(tree.minimum, first, second), k.apply(tree.maximum, first, second)

    both = [(ends(one, axis), ends(other, axis)) for axis in (0, 1)]
    common = [
        k.apply(tree.minimum, high, high2) - k.apply(tree.maximum, low, low2) for (low, high), (low2, high2) in both
    ]
    sides = [[high - low for low, high in (axis[number] for axis in both)] for number in (0, 1)]
    shared, areas = common[0] * common[1], [side[0] * side[1] for side in sides]
    union = areas[0] + areas[1] - shared
    positive = (*common, shared, *areas, union)
    overlaps = shared / union > limits.iou
    for value in positive:
        overlaps = k.apply(tree.logical_and, overlaps, value > zero)
    return overlaps


def _example(batches: int, classes: int, count: int, most: int, **settings: SettingValue) -> OpExample:
    return OpExample(
        inputs=(Operand(shape=(batches, count, 4)), Operand(shape=(batches, classes, count))),
        settings={"max_output_boxes": most, **settings},
    )


NMS = OpSchema(
    name="nms",
    summary="boxes that are kept, best first, where those that overlap a kept one of their class are dropped",
    category=CATEGORY,
    inputs=(
        InputSpec(name="boxes", doc="[B, N, 4]"),
        InputSpec(name="scores", doc="[B, C, N], of each class"),
    ),
    dtypes=FLOATS,
    outputs=("selected", "n"),
    counted=("selected",),
    settings=(
        SettingSpec(name="max_output_boxes", type=SettingType.INT, doc="most boxes of a class in one image"),
        SettingSpec(
            name="iou_threshold",
            type=SettingType.FLOAT,
            default=0.0,
            doc="boxes are dropped whose intersection with a kept one is more than this part of their union",
        ),
        SettingSpec(
            name="score_threshold", type=SettingType.FLOAT, default=None, doc="boxes need more than this; default any"
        ),
        SettingSpec(
            name="box_format",
            type=SettingType.STR,
            default="corners",
            choices=("corners", "center"),
            doc="[y, x, y, x] of two corners in any order, or [x, y, width, height] of the center",
        ),
    ),
    infer=_types,
    definition=Loops(_kept, stages=_kept_in_stages),
    onnx="NonMaxSuppression",
    domain={"boxes": (0.0, 4.0), "scores": (0.0, 1.0)},
    examples=(
        _example(1, 1, 9, 4, iou_threshold=0.5),
        _example(2, 3, 5, 9, iou_threshold=0.25, score_threshold=0.5),
        _example(1, 2, 6, 3, iou_threshold=0.125, box_format="center"),
        _example(1, 1, 4, 0),
        _example(0, 2, 4, 2),
    ),
)
