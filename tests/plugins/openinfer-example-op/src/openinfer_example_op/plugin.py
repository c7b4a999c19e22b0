"""The operator `leaky_square`, whose definition is its expression, and `row_products`, which is defined by a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plugin import Elementwise, InputSpec, OpSchema, OpTypeError, SettingSpec, SettingType, hookimpl, tree
from openinfer_example_op.row_products import ROW_PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.plugin import DType, Expr, SettingValue, TensorType

OPENINFER_API = 1


def same_type(
    inputs: Sequence[TensorType | None], settings: Mapping[str, SettingValue], declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    """Return the output type: that of the only input."""
    del settings, declared
    (x,) = inputs
    if x is None:
        raise OpTypeError("needs the input x", of="leaky_square", code="arity")
    return (x,)


def leaky_square(inputs: Sequence[Expr], settings: Mapping[str, SettingValue], out: DType) -> Expr:
    """Return x * x where x is not negative, else slope * x."""
    (x,) = inputs
    slope = settings["slope"]
    if not isinstance(slope, int | float):
        raise OpTypeError(f"setting 'slope' takes a number, found {slope!r}", code="setting-type", settings=("slope",))
    leaked = tree.mul(tree.literal(slope, out), x)
    return tree.select(tree.ge(x, tree.literal(0.0, out)), tree.mul(x, x), leaked)


@hookimpl
def openinfer_ops() -> Iterator[OpSchema]:
    """Offer both operators."""
    yield OpSchema(
        name="leaky_square",
        summary="y = x * x where x >= 0, else slope * x",
        category="example",
        inputs=(InputSpec(name="x", doc="tensor of any shape"),),
        settings=(SettingSpec(name="slope", type=SettingType.FLOAT, default=0.5, doc="factor of negative elements"),),
        dtypes=frozenset({"bf16", "f16", "f32", "f64"}),
        infer=same_type,
        definition=Elementwise(leaky_square),
        oracle="openinfer_example_op.oracle:leaky_square",
        tolerance=0.0,
        in_place=True,
    )
    yield ROW_PRODUCTS
