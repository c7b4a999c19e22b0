"""Reductions over axes, each a fold of one expression."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.compute import Order
from openinfer.dtypes import BOOL, I32, I64, U64, DType, Kind
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.accumulate import ACC, accumulated, accumulator, delivered
from openinfer.ops.dtype_sets import BOOLS, FLOATS, NUMBERS, TERNARY
from openinfer.ops.elementwise import work_type
from openinfer.ops.schema import (
    Compute,
    Fold,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    Reduction,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import axes_of, axis_of, folds_nothing, integer, needed, reduced, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import BuildFold, DefineStages, InferTypes
    from openinfer.scalars import Scalar

    Comparison = Callable[[Expr, Expr], Expr]
    Settings = Mapping[str, SettingValue]

CATEGORY = "reduction"
_AXES = SettingSpec(
    name="axes",
    type=SettingType.INT_OR_LIST,
    default=None,
    aliases=("axis",),
    doc="dims to fold, negative from the end; default all",
)
_KEEPDIMS = SettingSpec(
    name="keepdims", type=SettingType.BOOL, default=False, doc="whether folded dims stay, with size 1"
)
_NAN = SettingSpec(
    name="nan",
    type=SettingType.STR,
    default="ignore",
    choices=("ignore", "propagate"),
    doc="whether a NaN is passed over, unless it is the first element, or always wins",
)


def _axes(rank: int, settings: Settings) -> tuple[int, ...]:
    return axes_of(settings.get("axes"), rank)


def _every_axis(rank: int, settings: Settings) -> tuple[int, ...]:
    del settings
    return tuple(range(rank))


def _inference(result: DType | None, *, may_be_empty: bool) -> InferTypes:
    def infer(
        inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
    ) -> tuple[TensorType, ...]:
        del declared
        x = needed(inputs)
        axes = _axes(len(x.shape), settings)
        if not may_be_empty and not x.dtype.is_float:
            _refuse_empty(x, axes)
        shape = reduced(x.shape, axes, keepdims=bool(settings.get("keepdims")))
        return (TensorType(result or accumulated(x.dtype, settings), shape),)

    return infer


def _extremum_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    x = needed(inputs)
    _refuse_empty(x, _axes(len(x.shape), settings))
    return _inference(x.dtype, may_be_empty=True)(inputs, settings, declared)


def _refuse_empty(x: TensorType, axes: Sequence[int]) -> None:
    """Raise OpTypeError if the result has an element and its slice has none."""
    if folds_nothing(x.shape, axes):
        raise OpTypeError(f"the slices of shape {shown(x.shape)} along axes {shown(axes)} are empty")


def _combined(
    start: Scalar,
    combine: Callable[[Expr, Expr], Expr],
    mapped: Callable[[Expr], Expr] | None = None,
    order: Order = Order.SEQUENTIAL,
) -> BuildFold:
    """Return the builder of a fold in the accumulator's type, from a neutral element."""

    def build(element: DType, settings: Settings, out: DType) -> Fold:
        wide = work_type(accumulator(element, settings))
        value = tree.cast(tree.cast(tree.Input(0, element), work_type(element)), wide)
        return Fold(
            start=tree.literal(start, wide),
            element=value if mapped is None else mapped(value),
            combine=combine(tree.Input(0, wide), tree.Input(1, wide)),
            finish=delivered(tree.Input(0, wide), settings, out),
            order=order,
        )

    return build


def _mean(element: DType, settings: Settings, out: DType) -> Fold:
    """Integers: the sum wraps in 64 bits, and the quotient is truncated and wraps in the accumulator's type."""
    own = work_type(accumulator(element, settings))
    wide = own if own.is_float else U64 if own.kind is Kind.UNSIGNED else I64
    total, count = tree.Input(0, wide), tree.Input(1, I64)
    return Fold(
        start=tree.literal(0, wide),
        element=tree.cast(tree.cast(tree.Input(0, element), work_type(element)), wide),
        combine=tree.add(total, tree.Input(1, wide)),
        finish=delivered(tree.cast(tree.div(total, tree.cast(count, wide)), own), settings, out),
        order=Order.ANY,
    )


def _extremum(better: Callable[[Expr, Expr], Expr]) -> BuildFold:
    """Return the builder of a fold that keeps the first element until a strictly better one comes."""

    def build(element: DType, settings: Settings, out: DType) -> Fold:
        wide = work_type(element)
        best, candidate = tree.Input(0, wide), tree.Input(1, wide)
        taken = better(candidate, best)
        if settings.get("nan") == "propagate" and wide.is_float:
            taken = tree.logical_or(taken, tree.is_nan(candidate))
        return Fold(
            start=None,
            element=tree.cast(tree.Input(0, element), wide),
            combine=tree.select(taken, candidate, best),
            finish=tree.cast(best, out),
        )

    return build


_EXAMPLES = (
    OpExample(inputs=(Operand(shape=(3, 5, 7)),), settings={"axes": 1}),
    OpExample(inputs=(Operand(shape=(3, 5, 7)),), settings={"axes": (0, -1), "keepdims": True}),
    OpExample(inputs=(Operand(shape=(5, 4)),)),
    OpExample(inputs=(Operand(shape=()),)),
    OpExample(inputs=(Operand(shape=(0, 0, 3)),), settings={"axes": 1, "keepdims": True}),
)
_OF_NOTHING = OpExample(inputs=(Operand(shape=(2, 0, 3)),), settings={"axes": 1})
_OF_ONE_AXIS = (
    OpExample(inputs=(Operand(shape=(3, 5, 7)),), settings={"axis": 1}),
    OpExample(inputs=(Operand(shape=(6, 2)),), settings={"axis": -1, "keepdims": True, "select_first": False}),
    OpExample(inputs=(Operand(shape=(9,)),), settings={"axis": 0}),
    OpExample(inputs=(Operand(shape=(7, 5)),), settings={"axis": 0, "select_first": False, "nan": "propagate"}),
    OpExample(inputs=(Operand(shape=(0, 0, 3)),), settings={"axis": 1, "keepdims": True}),
)


def _reduction(
    name: str,
    dtypes: frozenset[str],
    build: BuildFold,
    *,
    summary: str,
    infer: InferTypes,
    settings: tuple[SettingSpec, ...] = (),
    alias: str | None = None,
    onnx: str | None = None,
    empty: bool = False,
) -> OpSchema:
    short = name.removesuffix("_axis")
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x"),),
        dtypes=dtypes,
        settings=(_AXES, _KEEPDIMS, *settings),
        infer=infer,
        definition=Reduction(_axes, build),
        aliases=tuple(a for a in (alias, f"reduce_{short}") if a is not None),
        onnx=onnx,
        examples=(*_EXAMPLES, _OF_NOTHING) if empty else _EXAMPLES,
    )


def _finite(element: DType, settings: Settings, out: DType) -> Fold:
    del settings, out
    x = tree.Input(0, element)
    both = tree.logical_and(tree.Input(0, BOOL), tree.Input(1, BOOL))
    is_finite = tree.logical_not(tree.logical_or(tree.is_nan(x), tree.is_inf(x)))
    return Fold(start=tree.literal(1, BOOL), element=is_finite, combine=both, finish=tree.Input(0, BOOL))


def _bool_fold(start: bool, combine: Callable[[Expr, Expr], Expr]) -> BuildFold:
    return _combined(start, combine)


def _scalar_bool(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    needed(inputs)
    return (TensorType(BOOL),)


def _square(x: Expr) -> Expr:
    return tree.mul(x, x)


def _norm(element: DType, settings: Settings, out: DType) -> Fold:
    squares = _combined(0, tree.add, _square, Order.ANY)(element, settings, out)
    return replace(squares, finish=tree.sqrt(tree.Input(0, out)))


def _index_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    _refuse_empty(x, (axis,))
    return (TensorType(I64, reduced(x.shape, (axis,), keepdims=bool(settings.get("keepdims")))),)


def _argmax(k: Builder, call: OpCall) -> None:
    _place(k, call, tree.gt, tree.ge)


def _argmin(k: Builder, call: OpCall) -> None:
    _place(k, call, tree.lt, tree.le)


def _place(k: Builder, call: OpCall, better: Comparison, as_good: Comparison) -> None:
    """Store the place of the best element along an axis: the first of equal ones, or the last.

    A NaN counts as the first element alone, or always as the best of all.
    """
    (x,), (y,), settings = k.given, k.outputs, call.settings
    shape, first = needed(call.inputs).shape, settings.get("select_first", True) is not False
    axis, wide = axis_of(integer(settings.get("axis"), "axis"), len(shape)), work_type(x.dtype)
    propagates = wide.is_float and settings.get("nan") == "propagate"

    def advanced(totals: Sequence[Expr], terms: Sequence[Expr]) -> tuple[Expr, ...]:
        best, value = totals[0], terms[0]
        wins = (better if first else as_good)(value, best)
        if propagates and first:
            wins = tree.logical_or(wins, tree.logical_and(tree.is_nan(value), tree.logical_not(tree.is_nan(best))))
        elif propagates:
            both = tree.logical_and(wins, tree.logical_not(tree.is_nan(best)))
            wins = tree.logical_or(tree.is_nan(value), both)
        return tuple(tree.select(wins, term, total) for term, total in zip(terms, totals, strict=True))

    before, after = k.axes(*shape[:axis]), k.axes(*shape[axis + 1 :])
    # Where nothing is stored, there may be no first place.
    place = k.axis(dims.max(shape[axis] - 1, 0))
    terms = (x[(*before, place + 1, *after)].cast(wide), k.position(place + 1))
    _, found = k.folds(terms, (place,), advanced, (x[(*before, 0, *after)].cast(wide), 0))
    kept = (0,) if len(call.outputs[0].shape) == len(shape) else ()
    y[(*before, *kept, *after)] = found


def _index(name: str, define: DefineStages, summary: str, alias: str, onnx: str) -> OpSchema:
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x"),),
        dtypes=NUMBERS,
        settings=(
            SettingSpec(name="axis", type=SettingType.INT, aliases=("axes",), doc="the dim, negative from the end"),
            _KEEPDIMS,
            SettingSpec(
                name="select_first",
                type=SettingType.BOOL,
                default=True,
                doc="whether the lowest or the highest of equal positions is taken",
            ),
            _NAN,
        ),
        infer=_index_types,
        definition=Compute(define),
        aliases=(alias,),
        onnx=onnx,
        examples=_OF_ONE_AXIS,
    )


SUM_AXIS = replace(
    _reduction(
        "sum_axis",
        NUMBERS | TERNARY,
        _combined(0, tree.add, order=Order.ANY),
        summary="sum in any order; integers wrap, ternaries need acc; 0 for an empty slice",
        infer=_inference(None, may_be_empty=True),
        settings=(ACC,),
        alias="sum",
        onnx="ReduceSum",
    ),
    examples=(
        *(replace(each, dtypes=NUMBERS) for each in (*_EXAMPLES, _OF_NOTHING)),
        *(replace(each, dtypes=TERNARY, settings={**each.settings, "acc": I32}) for each in (*_EXAMPLES, _OF_NOTHING)),
    ),
)
MEAN_AXIS = _reduction(
    "mean_axis",
    NUMBERS,
    _mean,
    summary="sum over count; integers truncate toward zero; NaN for an empty slice of floats",
    infer=_inference(None, may_be_empty=False),
    settings=(ACC,),
    alias="mean",
    onnx="ReduceMean",
)
PROD_AXIS = _reduction(
    "prod_axis",
    NUMBERS,
    _combined(1, tree.mul),
    summary="product in row-major order; integers wrap; 1 for an empty slice",
    infer=_inference(None, may_be_empty=True),
    empty=True,
    settings=(ACC,),
    alias="prod",
    onnx="ReduceProd",
)
MAX_AXIS = _reduction(
    "max_axis",
    NUMBERS,
    _extremum(tree.gt),
    summary="greatest element; a NaN counts only as the first element",
    infer=_extremum_types,
    settings=(_NAN,),
    onnx="ReduceMax",
)
MIN_AXIS = _reduction(
    "min_axis",
    NUMBERS,
    _extremum(tree.lt),
    summary="least element; a NaN counts only as the first element",
    infer=_extremum_types,
    settings=(_NAN,),
    onnx="ReduceMin",
)
L2_AXIS = _reduction(
    "l2_axis",
    FLOATS,
    _norm,
    summary="square root of the sum of squares",
    infer=_inference(None, may_be_empty=True),
    empty=True,
    onnx="ReduceL2",
)
ANY_AXIS = _reduction(
    "any_axis",
    BOOLS,
    _bool_fold(False, tree.logical_or),
    summary="whether any element is true; false for an empty slice",
    infer=_inference(None, may_be_empty=True),
    empty=True,
    onnx="Cast, ReduceMax",
)
ALL_AXIS = _reduction(
    "all_axis",
    BOOLS,
    _bool_fold(True, tree.logical_and),
    summary="whether all elements are true; true for an empty slice",
    infer=_inference(None, may_be_empty=True),
    empty=True,
    onnx="Cast, ReduceMin",
)
IS_FINITE = OpSchema(
    name="is_finite",
    summary="one bool: whether every element is neither NaN nor an infinity; true when there is none",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=FLOATS,
    infer=_scalar_bool,
    definition=Reduction(_every_axis, _finite),
    examples=(OpExample(inputs=(Operand(shape=(3, 5)),)), OpExample(inputs=(Operand(shape=(0,)),))),
)
ARGMAX_AXIS = _index("argmax_axis", _argmax, "position of the greatest element along an axis", "argmax", "ArgMax")
ARGMIN_AXIS = _index("argmin_axis", _argmin, "position of the least element along an axis", "argmin", "ArgMin")
