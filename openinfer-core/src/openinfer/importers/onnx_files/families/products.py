"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


@translates("MatMul")
def _matmul(node: Node) -> Value:
    return node.call("matmul", node.given(0), node.given(1))


@translates("Gemm")
def gemm(node: Node) -> Value:
    """Return alpha A B + beta C."""
    a, b, c = node.given(0), node.given(1), node.input(2)
    trans_a, trans_b = node.flag("transA"), node.flag("transB")
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    columns = b.dims[0 if trans_b else 1]
    if not trans_a and alpha == 1.0 and a.dtype.is_float and (c is None or (c.dims == (columns,) and beta == 1.0)):
        return node.call("linear", a, b, c, **({"trans_w": True} if trans_b else {}))
    settings = {name: True for name, given in (("trans_a", trans_a), ("trans_b", trans_b)) if given}
    product = node.call("matmul", a, b, **settings)
    if alpha != 1.0:
        product = node.call("mul", product, node.number(alpha, a.dtype))
    if c is None or beta == 0.0:
        return product
    return node.call("add", product, c if beta == 1.0 else node.call("mul", c, node.number(beta, a.dtype)))


@translates("Einsum")
def _einsum(node: Node) -> Value:
    inputs = [value for value in node.inputs if value is not None]
    return node.call("einsum", *inputs, equation=node.get("equation"))


@translates("Det")
def _det(node: Node) -> Value:
    """Determinants of matrices of up to three rows, written out."""
    x = node.given(0)
    rows = node.shape(0)[-1]
    if rows == 1:
        return node.call("squeeze", x, axes=(-2, -1))
    if rows == 2:
        return node.call("sub", _product(node, x, (0, 1), (0, 1)), _product(node, x, (0, 1), (1, 0)))
    if rows != 3:
        node.refuse(f"of matrices with {rows} rows")
    orders = (((0, 1, 2), "add"), ((1, 2, 0), "add"), ((2, 0, 1), "add"), ((2, 1, 0), "sub"), ((1, 0, 2), "sub"))
    found = _product(node, x, (0, 1, 2), orders[0][0])
    for columns, op in (*orders[1:], ((0, 2, 1), "sub")):
        found = node.call(op, found, _product(node, x, (0, 1, 2), columns))
    return found


def _product(node: Node, x: Value, rows: tuple[int, ...], columns: tuple[int, ...]) -> Value:
    parts = [
        node.call("select", node.call("select", x, axis=-2, index=row), axis=-1, index=column)
        for row, column in zip(rows, columns, strict=True)
    ]
    found = parts[0]
    for part in parts[1:]:
        found = node.call("mul", found, part)
    return found
