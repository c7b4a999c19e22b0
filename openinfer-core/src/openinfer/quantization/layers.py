"""Statements that can run on 8-bit integers, and why others cannot."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.ir.nodes import Op
from openinfer.ir.resolved import PrefixTable, ResolvedVar, Storage
from openinfer.ir.uses import operands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp
    from openinfer.ir.values import Ref
    from openinfer.model import Model

OPERATORS = ("conv1d", "conv2d", "linear", "matmul")
RANKS = {"conv1d": 3, "conv2d": 4, "linear": 2, "matmul": 2}
"""Dims of the weight of each."""

WITHIN = ("conv_transpose2d", "gru_cell", "lstm_cell")
"""Operators whose products with weights no operator on integers computes."""

CONVOLUTION_SETTINGS = ("stride", "strides", "padding", "pads", "dilation", "dilations", "groups", "group")
MOST_PRODUCTS = 2**31 // (255 * 127)
"""Products of a u8 and an i8 whose sum always fits an i32."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A product or convolution with a constant weight.

    Attributes:
        number: place among the layers of the program.
        source: what is multiplied with the weight.
        weight: the weight: a variable, or an entry of a prefix table.
        bias: what is added, where it is given.
        output: the variable that is written.
        axis: dim of the weight that its outputs go along.
    """

    number: int
    block: str
    node: Node
    op: Op
    resolved: ResolvedOp
    source: str
    weight: Ref
    bias: Ref | None
    output: str
    axis: int

    @property
    def is_convolution(self) -> bool:
        return self.resolved.op in ("conv1d", "conv2d")

    @property
    def is_signal(self) -> bool:
        """Whether it is a convolution over one dim, which becomes one over images of one row."""
        return self.resolved.op == "conv1d"

    @property
    def is_transposed(self) -> bool:
        """Whether the weight is stored with its outputs first, which products of integers do not take."""
        return bool(self.resolved.settings.get("trans_w"))


@dataclass(frozen=True, slots=True)
class Left:
    """A statement that stays as it is, and why."""

    line: int
    op: str
    output: str
    reason: str


def find_layers(resolved: ResolvedGraph, model: Model, exclude: Sequence[str]) -> tuple[list[Layer], list[Left]]:
    """Return the layers of a program in written order, and the candidates that are none.

    Args:
        exclude: patterns of names of weights, in the program or in the model, that stay.
    """
    candidates: list[Layer] = []
    left: list[Left] = []
    for block in resolved.graph.blocks.values():
        for node in block.walk():
            found = resolved.ops.get(node.index)
            if not isinstance(node.kind, Op) or found is None or found.op not in (*OPERATORS, *WITHIN):
                continue
            within = "no operator on integers computes its products" if found.op in WITHIN else None
            reason = within or _reason(node.kind, found, resolved, model, exclude)
            if reason is None:
                candidates.append(_layer(len(candidates), block.name, node, node.kind, found))
            elif reason:
                left.append(_left(node, found, reason))
    layers: list[Layer] = []
    shared = _shared(candidates, resolved, model)
    for layer in candidates:
        if layer.weight.name in shared:
            left.append(_left(layer.node, layer.resolved, shared[layer.weight.name]))
        else:
            layers.append(replace(layer, number=len(layers)))
    return layers, sorted(left, key=lambda each: each.line)


def _left(node: Node, found: ResolvedOp, reason: str) -> Left:
    return Left(0 if node.span is None else node.span.line, found.op, found.outputs[0], reason)


def _shared(candidates: Sequence[Layer], resolved: ResolvedGraph, model: Model) -> Mapping[str, str]:
    """Return weights that more than layers of one kind read, each with the reason why they stay."""
    reads, variables = _reads(resolved.graph), _variables_of_tensors(resolved, model)
    found: dict[str, str] = {}
    for name in dict.fromkeys(layer.weight.name for layer in candidates):
        layers = [layer for layer in candidates if layer.weight.name == name]
        others = {each for tensor in _tensors(name, resolved, model) for each in variables[tensor]} - {name}
        if len(reads[name]) > len(layers) or any(_is_read_twice(layer) for layer in layers):
            found[name] = f"another statement reads `{name}` too"
        elif len({layer.is_transposed for layer in layers}) > 1:
            found[name] = f"statements read `{name}` with and without trans_w"
        elif others:
            found[name] = f"`{min(others)}` has the same tensor of the model"
    return found


def _is_read_twice(layer: Layer) -> bool:
    return sum(ref is not None and ref.name == layer.weight.name for ref in layer.resolved.inputs) > 1


def _tensors(name: str, resolved: ResolvedGraph, model: Model) -> list[str]:
    return weight_names(resolved.tables.get(name) or resolved.variables[name], model)


def _variables_of_tensors(resolved: ResolvedGraph, model: Model) -> Mapping[str, set[str]]:
    """Return the variables that a tensor of the model is the content of, by its name."""
    found: dict[str, set[str]] = {}
    for name in (*resolved.variables, *resolved.tables):
        for tensor in _tensors(name, resolved, model):
            found.setdefault(tensor, set()).add(name)
    return found


def _layer(number: int, block: str, node: Node, op: Op, found: ResolvedOp) -> Layer:
    source, weight, *rest = found.inputs
    if source is None or weight is None:
        raise ValueError(f"{found.op} has no weight")
    rank = 0 if found.input_types[1] is None else len(found.input_types[1].shape)
    outputs_first = found.op in ("conv1d", "conv2d") or bool(found.settings.get("trans_w"))
    return Layer(
        number=number,
        block=block,
        node=node,
        op=op,
        resolved=found,
        source=source.name,
        weight=weight,
        bias=rest[0] if rest else None,
        output=found.outputs[0],
        axis=0 if outputs_first else rank - 1,
    )


def _reads(graph: Graph) -> Mapping[str, list[int]]:
    """Return the statements that read a variable, by its name."""
    found: dict[str, list[int]] = {}
    for block in graph.blocks.values():
        for node in block.walk():
            for name in set(operands(node)):
                found.setdefault(name, []).append(node.index)
    return found


def _reason(
    op: Op,
    found: ResolvedOp,
    resolved: ResolvedGraph,
    model: Model,
    exclude: Sequence[str],
) -> str | None:
    """Return why a statement stays as it is, None if it does not, "" where no one would expect it to change."""
    source, weight = found.inputs[:2]
    if source is None or weight is None:
        return ""
    declared = resolved.tables.get(weight.name) or resolved.variables.get(weight.name)
    if declared is None or declared.storage is not Storage.CONSTANT or declared.decl is None:
        return ""
    if source.indices or source.name not in resolved.variables:
        return "its input is not a plain variable"
    kinds = [kind for kind in found.input_types if kind is not None]
    if any(kind.dtype is not F32 for kind in kinds):
        return f"its inputs are {', '.join(kind.dtype.name for kind in kinds)}, not f32"
    if len(kinds[1].shape) != RANKS[found.op]:
        return f"its weight has {len(kinds[1].shape)} dims"
    names = [weight.name, *weight_names(declared, model)]
    if len(names) == 1:
        return "its weight is not data of the model"
    if any(fnmatchcase(name, pattern) for pattern in exclude for name in names):
        return "excluded"
    return _unlike_integers(op, found, kinds[1].shape)


def _unlike_integers(op: Op, found: ResolvedOp, shape: tuple[int, ...]) -> str | None:
    if any(bias is not None and bias.name == found.outputs[0] for bias in found.inputs[2:]):
        return f"it writes its bias `{found.outputs[0]}`"
    is_convolution = found.op in ("conv1d", "conv2d")
    known = CONVOLUTION_SETTINGS if is_convolution else ("trans_w",)
    unknown = next((name for name in op.settings if name not in (*known, "bias")), None)
    if unknown is not None or found.runtime_settings:
        return f"products of integers have no setting `{unknown or next(iter(found.runtime_settings))}`"
    outputs = shape[0] if is_convolution or found.settings.get("trans_w") else shape[-1]
    products = math.prod(shape) // max(1, outputs)
    if products > MOST_PRODUCTS:
        return f"a sum of {products} products may not fit 32 bits"
    return None


def weight_names(declared: ResolvedVar | PrefixTable, model: Model) -> list[str]:
    """Return the tensors of the model that hold a weight: one, or the entries of a prefix table."""
    if isinstance(declared, ResolvedVar):
        decl = declared.decl
        name = declared.name if decl is None or decl.ref is None else decl.ref
        return [name] if _has_data(name, model) else []
    pattern = _entry_pattern(declared)
    return [name for name in model.tensors if pattern.fullmatch(name) and _has_data(name, model)]


def entry_numbers(table: PrefixTable, name: str) -> tuple[int, ...]:
    """Return the indices of the entry of a prefix table that is a tensor of the model.

    Raises:
        ValueError: the tensor is not an entry.
    """
    found = _entry_pattern(table).fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is not an entry of {table.name}")
    return tuple(int(found[formal]) for formal in table.formals)


def _entry_pattern(table: PrefixTable) -> re.Pattern[str]:
    pattern = re.escape(table.pattern)
    for formal in table.formals:
        first, *rest = pattern.split(re.escape("{" + formal + "}"))
        # A number that occurs again is the same there.
        pattern = f"(?P<{formal}>0|[1-9][0-9]*)".join([first, rest[0]])
        for part in rest[1:]:
            pattern += f"(?P={formal}){part}"
    return re.compile(pattern)


def _has_data(name: str, model: Model) -> bool:
    info = model.var_info(name)
    return info is not None and info.has_data
