"""The operator `row_products`: the products of all rows of two matrices, a contraction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plugin import Compute, InputSpec, Operand, OpExample, OpSchema, OpTypeError, TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plugin import Builder, OpCall, SettingValue


def matrix_type(
    inputs: Sequence[TensorType | None], settings: Mapping[str, SettingValue], declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    """Return the output type: [m, n] for inputs [m, k] and [n, k] of one element type."""
    del settings, declared
    a, b = inputs
    if a is None or b is None:
        raise OpTypeError("needs the inputs a and b", of="row_products", code="arity")
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[1]:
        raise OpTypeError(f"needs rows of one length, found {a} and {b}", of="row_products", code="shape-mismatch")
    return (TensorType(a.dtype, (a.shape[0], b.shape[0])),)


def row_products(k: Builder, call: OpCall) -> None:
    """y[i, j] = the sum of a[i, r] * b[j, r] over r."""
    (a, b), (y,) = k.given, k.outputs
    i, j = k.axes(*y.shape)
    r = k.axis(a.shape[1])
    y[i, j] = k.sum(a[i, r] * b[j, r], over=(r,))


ROW_PRODUCTS = OpSchema(
    name="row_products",
    summary="y[i, j] = the sum of a[i, r] * b[j, r] over r",
    category="example",
    inputs=(InputSpec(name="a", doc="matrix [m, k]"), InputSpec(name="b", doc="matrix [n, k]")),
    dtypes=frozenset({"f32", "f64", "i32"}),
    infer=matrix_type,
    definition=Compute(row_products),
    examples=(
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(7, 5)))),
        OpExample(inputs=(Operand(shape=(16, 64)), Operand(shape=(16, 64)))),
        OpExample(inputs=(Operand(shape=(2, 0)), Operand(shape=(3, 0)))),
    ),
    oracle="openinfer_example_op.oracle:row_products",
)
