"""Products of matrices, and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting, Value


@translates("linear")
def _linear(node: Node) -> Value:
    x, weight, bias = node.tensor("input"), node.tensor("weight"), node.optional("bias")
    if weight.rank == 1:
        made = node.call("matmul", x, weight)
        return made if bias is None else node.call("add", made, bias)
    if not x.dtype.is_float:
        made = node.call("matmul", x, weight, trans_b=True)
        return made if bias is None else node.call("add", made, bias)
    return node.call("linear", x, weight, bias, trans_w=True)


@translates("mm", "bmm", "matmul", "mv", "dot", "vdot", "inner")
def _matmul(node: Node) -> Value:
    second = {"mm": "mat2", "bmm": "mat2", "mv": "vec", "dot": "tensor"}.get(node.op, "other")
    if node.op == "inner" and node.tensor(second).rank > 1:
        return node.call("matmul", node.tensor(), node.tensor(second), trans_b=True)
    return node.call("matmul", node.tensor(), node.tensor(second))


@translates("addmm", "addmv", "baddbmm", "addbmm")
def _addmm(node: Node) -> Value:
    """beta self + alpha (a b)."""
    names = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec")}.get(node.op, ("batch1", "batch2"))
    a, b = (node.tensor(name) for name in names)
    alpha, beta, bias = node.real("alpha"), node.real("beta"), node.tensor()
    if node.op == "addmm" and alpha == beta == 1 and a.dtype.is_float and bias.dims == b.dims[1:]:
        return node.call("linear", a, b, bias)
    product = node.call("matmul", a, b)
    if node.op == "addbmm":
        product = node.call("sum_axis", product, axes=(0,))
    if alpha != 1:
        product = node.call("mul", product, node.number(alpha, product.dtype))
    if beta == 0:
        return product
    return node.call("add", bias if beta == 1 else node.call("mul", bias, node.number(beta, bias.dtype)), product)


@translates("outer")
def _outer(node: Node) -> Value:
    column = node.call("unsqueeze", node.tensor(), axes=(1,))
    return node.call("mul", column, node.tensor("vec2"))


@translates("einsum")
def _einsum(node: Node) -> Value:
    return node.call("einsum", *node.tensors("tensors"), equation=str(node.get("equation")))


@translates(
    "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"
)
def _sdpa(node: Node) -> tuple[Value | None, ...] | Value:
    if node.get("dropout_p"):
        node.refuse("dropout_p above 0: call eval() on the module before the export")
    q, k, v, mask = node.tensor("query"), node.tensor("key"), node.tensor("value"), node.optional("attn_mask")
    settings: dict[str, Setting] = {}
    if node.flag("is_causal"):
        # PyTorch counts keys from the first query; the operator lets the last query see every key.
        settings |= {"causal": True, "q_offset": 0}
    if node.get("scale") is not None:
        settings["scale"] = float(node.real("scale"))
    if q.rank not in (3, 4):
        node.refuse(f"queries of {q.rank} dims")
    if mask is not None and mask.dtype is not BOOL:
        mask = node.converted(mask, q.dtype)
    heads = [_four(node, value) for value in (q, k, v)]
    if mask is not None and q.rank == 3 and mask.rank == 3:
        mask = _four(node, mask)
    made = node.call("sdpa", *heads, mask, **settings)
    if q.rank == 3:
        made = node.call("squeeze", made, axes=(0,))
    return made if node.op == "scaled_dot_product_attention" else (made, None)


def _four(node: Node, value: Value) -> Value:
    """Return heads with a batch of one in front."""
    return value if value.rank == 4 else node.call("unsqueeze", value, axes=(0,))
