"""Statements that can run on 8-bit integers, and why others cannot."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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

OPERATORS = ("conv2d", "linear", "matmul")
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
        return self.resolved.op == "conv2d"

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
    layers: list[Layer] = []
    left: list[Left] = []
    reads = _reads(resolved.graph)
    for block in resolved.graph.blocks.values():
        for node in block.walk():
            found = resolved.ops.get(node.index)
            if not isinstance(node.kind, Op) or found is None or found.op not in OPERATORS:
                continue
            reason = _reason(node.kind, found, resolved, model, reads, exclude)
            if reason is None:
                layers.append(_layer(len(layers), block.name, node, node.kind, found))
            elif reason:
                line = 0 if node.span is None else node.span.line
                left.append(Left(line, found.op, found.outputs[0], reason))
    return layers, left


def _layer(number: int, block: str, node: Node, op: Op, found: ResolvedOp) -> Layer:
    source, weight, *rest = found.inputs
    if source is None or weight is None:
        raise ValueError(f"{found.op} has no weight")
    rank = 0 if found.input_types[1] is None else len(found.input_types[1].shape)
    outputs_first = found.op == "conv2d" or bool(found.settings.get("trans_w"))
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
    reads: Mapping[str, list[int]],
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
    if len(kinds[1].shape) != (4 if found.op == "conv2d" else 2):
        return f"its weight has {len(kinds[1].shape)} dims"
    names = [weight.name, *weight_names(declared, model)]
    if len(names) == 1:
        return "its weight is not data of the model"
    if any(fnmatchcase(name, pattern) for pattern in exclude for name in names):
        return "excluded"
    return _unlike_integers(op, found, weight, resolved, reads, kinds[1].shape)


def _unlike_integers(
    op: Op,
    found: ResolvedOp,
    weight: Ref,
    resolved: ResolvedGraph,
    reads: Mapping[str, list[int]],
    shape: tuple[int, ...],
) -> str | None:
    others = [index for index in reads.get(weight.name, []) if not _reads_as_weight(resolved.ops.get(index), weight)]
    if others:
        return f"another statement reads `{weight.name}` too"
    known = CONVOLUTION_SETTINGS if found.op == "conv2d" else ("trans_w",)
    unknown = next((name for name in op.settings if name not in (*known, "bias")), None)
    if unknown is not None or found.runtime_settings:
        return f"products of integers have no setting `{unknown or next(iter(found.runtime_settings))}`"
    outputs = shape[0] if found.op == "conv2d" or found.settings.get("trans_w") else shape[-1]
    products = math.prod(shape) // max(1, outputs)
    if products > MOST_PRODUCTS:
        return f"a sum of {products} products may not fit 32 bits"
    return None


def _reads_as_weight(found: ResolvedOp | None, weight: Ref) -> bool:
    if found is None or found.op not in OPERATORS:
        return False
    names = [None if ref is None else ref.name for ref in found.inputs]
    return names.count(weight.name) == 1 and names[1] == weight.name


def weight_names(declared: ResolvedVar | PrefixTable, model: Model) -> list[str]:
    """Return the tensors of the model behind a weight: one, or the entries of a prefix table."""
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
