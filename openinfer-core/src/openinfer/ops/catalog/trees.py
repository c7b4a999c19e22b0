"""Ensembles of decision trees: bounded walks over tables."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

from openinfer.compute import Order
from openinfer.dtypes import I32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops.reading import parse_kernel
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
from openinfer.ops.shapes import integer, needed, optional, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.ir.resolved import SettingValue
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

CATEGORY = "trees"
FLOATS = frozenset({"f32", "f64"})
DEEPEST = 1024
"""Most steps of a walk: each is a stage on devices of many threads."""


def _types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, feature, threshold, children, roots, weights = (needed(inputs, number) for number in range(6))
    if len(x.shape) != 2 or len(weights.shape) != 2 or not (x.shape[1] and weights.shape[0]):
        raise OpTypeError(f"x is {x} and weights are {weights}, expected [N, F] and [L, C] with F and L of at least 1")
    nodes = feature.shape
    if len(nodes) != 1 or not nodes[0] or len(roots.shape) != 1:
        raise OpTypeError(f"feature is {feature} and roots are {roots}, expected [M] with M of at least 1, and [R]")
    for name, given, shape in (("threshold", threshold, nodes), ("children", children, (*nodes, 2))):
        if given.shape != shape:
            raise OpTypeError(f"{name} is {given}, expected shape {shown(shape)} for feature {feature}")
    missing = optional(inputs, 6)
    if missing is not None and missing.shape != nodes:
        raise OpTypeError(f"missing is {missing}, expected shape {shown(nodes)} for feature {feature}")
    depth = integer(settings.get("depth"), "depth")
    if not 0 <= depth <= DEEPEST:
        raise OpTypeError(f"depth is {depth}, expected 0..{DEEPEST}", settings=("depth",))
    return (TensorType(x.dtype, (x.shape[0], weights.shape[1])),)


def _walks(call: OpCall) -> Kernel:
    """Walk each tree for each row, and add the weights of the leaf where it ends.

    The minima and maxima never change a place of a tree that is one: they are bounds that analysers of generated source
    can see.
    """
    x, feature, roots, weights = (needed(call.inputs, number) for number in (0, 1, 4, 5))
    missing, (rows, columns), (nodes,) = optional(call.inputs, 6), call.outputs[0].shape, feature.shape
    names = ("x", "feature", "threshold", "children", "roots", "weights", "missing")
    given = [(name, type_) for name, type_ in zip(names, call.inputs, strict=False) if type_ is not None]
    head = ", ".join(
        f"{name}: GLOBAL[{type_.dtype}, {type_.count}]" for name, type_ in (*given, ("y", call.outputs[0]))
    )
    if not call.outputs[0].count:
        return parse_kernel(f"def tree_ensemble({head}):\n    pass\n")
    goes_left = "le(value, bound)"
    if missing is not None:
        goes_left = f"logical_or({goes_left}, logical_and(missing[node], is_nan(value)))"
    step = f"""inner: index[2] = cast(lt(place, i64({nodes})), i64)
if 0 <= inner - 1 < 1:
    node: index[{nodes}] = minimum(maximum(place, i64(0)), i64({nodes - 1}))
    column: index[{x.shape[1]}] = minimum(maximum(cast(feature[node], i64), i64(0)), i64({x.shape[1] - 1}))
    value: {x.dtype} = x[{x.shape[1]}*row + column]
    bound: {x.dtype} = threshold[node]
    goes_left: bool = {goes_left}
    place = select(goes_left, cast(children[2*node], i64), cast(children[2*node + 1], i64))"""
    leaves = weights.shape[0]
    return parse_kernel(f"""
def tree_ensemble({head}):
    for row in SERIAL({rows}):
        for first in SERIAL({columns}):
            y[{columns}*row + first] = {x.dtype}(0.0)
        for number in SERIAL({roots.shape[0]}):
            place: i64 = cast(roots[number], i64)
            for steps in SERIAL({integer(call.settings.get("depth"), "depth")}):
{indent(step, "                ")}
            leaf: index[{leaves}] = minimum(maximum(place - i64({nodes}), i64(0)), i64({leaves - 1}))
            for c in SERIAL({columns}):
                y[{columns}*row + c] = y[{columns}*row + c] + weights[{columns}*leaf + c]
""")


def _steps(k: Builder, call: OpCall) -> None:
    """Take all walks one step further at a time."""
    x, feature, threshold, children, roots, weights, missing = (*k.inputs, None)[:7]
    if x is None or feature is None or threshold is None or children is None or roots is None or weights is None:
        raise OpTypeError("an input is missing", code="arity")
    (y,), rows, count = k.outputs, x.shape[0], roots.shape[0]
    features, nodes, leaves = (needed(call.inputs, number).shape[axis] for number, axis in ((0, 1), (1, 0), (5, 0)))
    count_of_nodes = k.constant(nodes, I32)
    places = k.temporary(I32, rows, count)
    n, r = k.axes(rows, count)
    places[n, r] = roots[(r,)]
    for _ in range(integer(call.settings.get("depth"), "depth")):
        after = k.temporary(I32, rows, count)
        n, r = k.axes(rows, count)
        place = places[n, r]
        node = _within(k, place, nodes, "a node")
        column = _within(k, feature[(node,)], features, "a column")
        value, bound = x[n, column], threshold[(node,)]
        goes_left = value <= bound
        if missing is not None:
            passes = k.apply(tree.logical_and, missing[(node,)], k.apply(tree.is_nan, value))
            goes_left = k.apply(tree.logical_or, goes_left, passes)
        child = k.apply(tree.select, goes_left, children[node, 0], children[node, 1])
        after[n, r] = k.apply(tree.select, place < count_of_nodes, child, place)
        places = after
    n, c, r = k.axes(*y.shape, count)
    leaf = _within(k, places[n, r] - count_of_nodes, leaves, "a leaf")
    y[n, c] = k.sum(weights[leaf, c], (r,), Order.SEQUENTIAL)


def _within(k: Builder, place: Value, extent: int, what: str) -> Var:
    low = k.apply(tree.maximum, place, k.constant(0, place.dtype))
    return k.lookup(k.apply(tree.minimum, low, k.constant(extent - 1, place.dtype)), extent, what)


def _example(rows: int, nodes: int, trees: int, leaves: int, depth: int, *, missing: bool = False) -> OpExample:
    def whole(*shape: int, below: int) -> Operand:
        return Operand(shape=shape, dtype="i32", low=0, high=below - 1)

    return OpExample(
        inputs=(
            Operand(shape=(rows, 3)),
            whole(nodes, below=3),
            Operand(shape=(nodes,)),
            whole(nodes, 2, below=nodes + leaves),
            whole(trees, below=nodes + leaves),
            Operand(shape=(leaves, 2)),
            *((Operand(shape=(nodes,), dtype="bool"),) if missing else ()),
        ),
        settings={"depth": depth},
    )


TREE_ENSEMBLE = OpSchema(
    name="tree_ensemble",
    summary="sums of the weights of the leaves where walks from the roots end; places outside are the nearest inside",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", doc="[N, F]"),
        InputSpec(name="feature", dtypes=frozenset({"i32"}), doc="[M], the column that a node compares"),
        InputSpec(name="threshold", doc="[M]: a walk goes left where the element is not above it"),
        InputSpec(name="children", dtypes=frozenset({"i32"}), doc="[M, 2], left and right: a node, or M + a leaf"),
        InputSpec(name="roots", dtypes=frozenset({"i32"}), doc="[R], a node or M + a leaf for each tree"),
        InputSpec(name="weights", doc="[L, C], a row for each leaf"),
        InputSpec(name="missing", dtypes=frozenset({"bool"}), optional=True, doc="[M], whether NaN goes left"),
    ),
    dtypes=FLOATS,
    settings=(SettingSpec(name="depth", type=SettingType.INT, doc=f"most steps of a walk, 0..{DEEPEST}"),),
    infer=_types,
    definition=Loops(_walks, stages=_steps),
    examples=(
        _example(3, 4, 3, 5, 3),
        _example(2, 7, 2, 3, 4, missing=True),
        _example(2, 1, 4, 2, 0),
        _example(0, 2, 2, 2, 1),
        _example(2, 2, 0, 2, 1),
    ),
)
