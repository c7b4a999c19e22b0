"""Convolution and pooling: one thread for each output element, which walks its window."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ops.elementwise import work_type
from openinfer.ops.shapes import integer, needed
from openinfer.ops.transposed_windows import transposed_windows
from openinfer.ops.windows import Window, per_dim, windows
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.functions import Functions
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered
from openinfer_backend_vulkan.sums import sum_functions, sums_in_32_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.ops.transposed_windows import TransposedWindow

    _Over: TypeAlias = Sequence[Window] | Sequence[TransposedWindow]


@kernel("conv2d", dtypes=COMPUTED, supports=sums_in_32_bits)
def conv2d(call: OpCall) -> Shader:
    """Cross-correlation of x [N, C, H, W] with w [O, C/groups, h, w] plus bias [O] where it is given."""
    x, w = needed(call.inputs).shape, needed(call.inputs, 1).shape
    over = windows(x[2:], w[2:], call.settings)
    return _convolution(call, "conv2d.comp.j2", over, w[1], w[0] // _groups(call))


@kernel("conv_transpose2d", dtypes=COMPUTED)
def conv_transpose2d(call: OpCall) -> Shader:
    """Each x [N, C, H, W] times w [C, O/groups, h, w] at its window, summed by the result; no zeros are multiplied."""
    x, w = needed(call.inputs).shape, needed(call.inputs, 1).shape
    over = transposed_windows(x[2:], w[2:], call.settings)
    return _convolution(call, "conv_transpose2d.comp.j2", over, x[1] // _groups(call), w[1])


def _groups(call: OpCall) -> int:
    return integer(call.settings.get("groups", 1), "groups")


def _convolution(call: OpCall, template: str, over: _Over, depth: int, kernels: int) -> Shader:
    """Return the shader of sums over windows and ``depth`` channels, for groups of ``kernels`` channels of the result.

    Sums are kept between its runs.
    """
    source = rendered(
        template,
        words=[glsl_word(given.dtype) for given in call.inputs if given is not None],
        target_word=glsl_word(call.outputs[0].dtype),
        functions=sum_functions(call, 2),
        bias=len(call.inputs) > 2 and call.inputs[2] is not None,
    )
    shader = _shader(call, source, over, (depth, max(1, kernels), 0, depth), depth)
    return replace(shader, scratch_nbytes=4 * max(call.outputs[0].count, 1))


@kernel("max_pool2d", dtypes=COMPUTED)
def max_pool2d(call: OpCall) -> Shader:
    """Greatest element of each window; a NaN is passed over unless a window holds nothing else."""
    dtype = call.outputs[0].dtype
    functions = Functions(work_type(dtype))
    functions.load(0, dtype)
    functions.better()
    source = rendered("max_pool2d.comp.j2", word=glsl_word(dtype), functions=functions)
    return _shader(call, source, _pooled(call), ())


@kernel("avg_pool2d", dtypes=COMPUTED)
def avg_pool2d(call: OpCall) -> Shader:
    """Mean over the image's elements in each window, or over padding too with ``count_include_pad``."""
    over, counted = _pooled(call), bool(call.settings.get("count_include_pad"))
    sides = (*(w.before for w in over), *(w.after for w in over)) if counted else (0, 0, 0, 0)
    dtype = call.outputs[0].dtype
    functions = Functions(F32)
    functions.load(0, dtype)
    functions.store(tree.cast(tree.Input(0, F32), dtype))
    source = rendered("avg_pool2d.comp.j2", word=glsl_word(dtype), functions=functions)
    return _shader(call, source, over, sides)


def _pooled(call: OpCall) -> tuple[Window, ...]:
    return windows(needed(call.inputs).shape[2:], per_dim(call.settings, "kernel", 2), call.settings)


def _shader(call: OpCall, source: str, over: _Over, own: tuple[int, ...], channels: int | None = None) -> Shader:
    """Return the shader with the parameters that ``window.glsl`` reads, followed by its own from number 15 on.

    A thread walks one window, or that of each of ``channels``, whose first and last stand in parameters 17 and 18.
    """
    output = call.outputs[0]
    shape = (needed(call.inputs).shape[1], output.shape[1], *(w.positions for w in over))
    fields = ("size", "kernel", "stride", "dilation", "before")
    sliding = (getattr(w, field) for field in fields for w in over)
    rows, columns = (w.kernel for w in over)
    # A loop takes a turn to find its end, and on software devices that turn also enters the loop inside.
    window = (rows + 1) + rows * (columns + 1) + 1
    turns = Turns(window) if channels is None else Turns(channels, 1 + window, at=17)
    return Shader(source, (output.count, *shape, *sliding, *own), output.count, turns=turns)
