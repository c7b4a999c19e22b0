"""The statements and declarations of a layer on 8-bit integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.dtypes import BY_NAME, F32, I8
from openinfer.ir.text import declaration_text, hints_text, ref_text, type_text, value_text
from openinfer.ir.values import Ref
from openinfer.quantization.layers import CONVOLUTION_SETTINGS
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.graph import VarDecl
    from openinfer.ir.resolved import SettingValue
    from openinfer.quantization.layers import Layer
    from openinfer.quantization.ranges import Codes
    from openinfer.symbolic import IntExpr

SCALE, STEP, ZERO = "_scale", "_step", "_zero"
"""Suffixes of a weight's name: what its sums are multiplied with, what one step of its input stands for, and which code
of it is zero."""

SCALE_TENSOR, STEP_TENSOR = ".scale", ".step"
"""The same for the names of tensors."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the temporaries that a layer brings, none of which the program has.

    Attributes:
        row, row_sums: what is read and summed as an image of one row, for a convolution over one dim.
    """

    read: str
    sums: str
    bias: str
    row: str
    row_sums: str

    @staticmethod
    def of(layer: Layer, taken: set[str]) -> Names:
        """Return names made from that of the output, and add them to those that are taken."""
        read, sums, bias = (free_name(layer.output + suffix, taken) for suffix in ("_q", "_sums", "_bias"))
        rows = ("_row", "_row_sums") if layer.is_signal else ()
        row, row_sums = (free_name(layer.output + suffix, taken) for suffix in rows) if rows else (read, sums)
        return Names(read, sums, bias, row, row_sums)


def free_name(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken, with a number after it where that is needed; it is taken then."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    taken.add(name)
    return name


def layer_statements(layer: Layer, names: Names, codes: Codes, dims: Sequence[IntExpr]) -> list[str]:
    """Return the statements in place of a layer, with its hints.

    Args:
        codes: what is read becomes.
        dims: its extents.
    """
    scale, step = (ref_text(Ref(layer.weight.name + suffix, layer.weight.indices)) for suffix in (SCALE, STEP))
    windows = {name: value for name, value in layer.op.settings.items() if name in CONVOLUTION_SETTINGS}
    settings = _over_a_row(layer) if layer.is_signal else [f"{n}={value_text(v)}" for n, v in windows.items()]
    zero = layer.weight.name + ZERO
    if codes.zero_point:
        settings.insert(0, f"{'x_zero' if layer.is_convolution else 'a_zero'}={zero}")
    inputs = ", ".join([names.row, ref_text(layer.weight), *settings])
    read = ", ".join([layer.source, step, *([f"zero_point={zero}"] if codes.zero_point else [])])
    ops = [
        f"quantize_linear({read}) >> {names.read}",
        f"{'conv_integer' if layer.is_convolution else 'matmul_integer'}({inputs}) >> {names.row_sums}",
        f"cast({names.sums}, to=f32) >> {layer.output}",
        f"mul({layer.output}, {scale}) >> {layer.output}",
    ]
    if layer.is_signal:
        ops.insert(2, f"squeeze({names.row_sums}, axes=[2]) >> {names.sums}")
        ops.insert(1, f"unsqueeze({names.read}, axes=[2]) >> {names.row}")
    if layer.bias is not None:
        bias = ref_text(layer.bias)
        if layer.is_convolution:
            ops.append(f"unsqueeze({bias}, axes={[1] if layer.is_signal else [1, 2]}) >> {names.bias}")
            bias = names.bias
        ops.append(f"add({layer.output}, {bias}) >> {layer.output}")
    hints = hints_text(layer.node.hints)
    return [f"assign {names.read}: {type_text(BY_NAME[codes.dtype], dims)};", *(f"op {op}{hints};" for op in ops)]


def _over_a_row(layer: Layer) -> list[str]:
    """Return the settings of a window over one dim as those of one over images of one row."""
    settings = layer.resolved.settings
    steps = {name: _numbers(settings[name])[0] for name in ("stride", "dilation")}
    made = [f"{name}=[1, {step}]" for name, step in steps.items() if step != 1]
    padding = settings["padding"]
    if isinstance(padding, str):
        made.append(f'padding="{padding}"')
    elif any(_numbers(padding)):
        made.append(f"padding=[0, {_numbers(padding)[0]}, 0, {_numbers(padding)[-1]}]")
    return made + ([f"groups={settings['groups']}"] if settings["groups"] != 1 else [])


def _numbers(setting: SettingValue) -> Sequence[object]:
    """Return a setting of a window as a sequence; one number is that of every place."""
    return setting if isinstance(setting, tuple) else (setting,)


def weight_declarations(layer: Layer, decl: VarDecl, step: float, codes: Codes) -> list[str]:
    """Return the declarations in place of that of a weight.

    Args:
        step: of the layer's input, for a weight that is not a table.
        codes: of the layer's input.
    """
    dims = decl.dims[::-1] if layer.is_transposed else decl.dims
    if layer.is_signal:
        dims = (*dims[:2], Const(1), dims[2])
    # Scales go along channels, which the dims of an image or a signal follow, or along the last dim of a product.
    places = 0 if not layer.is_convolution else 1 if layer.is_signal else 2
    outputs = (decl.dims[layer.axis], *((Const(1),) * places))
    weight = declaration_text(replace(decl, dtype=I8, dims=dims))
    scale = declaration_text(_further(decl, SCALE, SCALE_TENSOR, outputs))
    zero = [f"{decl.name}{ZERO}: i8 @init({codes.zero_point});"] if codes.zero_point else []
    if decl.pattern is not None:
        return [weight, scale, declaration_text(_further(decl, STEP, STEP_TENSOR, ())), *zero]
    return [weight, scale, f"{decl.name}{STEP}: f32 @init({step!r});", *zero]


def _further(decl: VarDecl, suffix: str, tensor_suffix: str, dims: tuple[IntExpr, ...]) -> VarDecl:
    """Return the declaration of a further tensor of a weight."""
    dtype = F32
    if decl.pattern is not None:
        return replace(decl, name=decl.name + suffix, dtype=dtype, dims=dims, pattern=decl.pattern + tensor_suffix)
    return replace(decl, name=decl.name + suffix, dtype=dtype, dims=dims, ref=(decl.ref or decl.name) + tensor_suffix)
