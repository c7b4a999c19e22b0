"""Single steps as C functions: what is written around kernels of plugins."""

from __future__ import annotations

import pytest

from openinfer.dtypes import F32, I4
from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer.plan.steps import KernelStep, ValueRef
from openinfer.plugins.types import KernelSpec
from openinfer_synth_c.step_functions import NOWHERE, library_source, step_function


def function_of(emit, inputs, output, **settings):
    """Return the function of a kernel on one-dimensional operands of these element types."""
    types = [TensorType(dtype, (5,)) for dtype in inputs]
    call = OpCall(op="made", inputs=tuple(types), outputs=(TensorType(output, (5,)),), settings=settings)
    step = KernelStep(
        origin=NOWHERE,
        call=call,
        kernel=KernelSpec(op="made", kernel=emit),
        inputs=tuple(ValueRef(number) for number in range(len(types))),
        outputs=(len(types),),
    )
    return step_function(step, types, call.outputs)


def test_elements_that_have_no_address_are_not_counted_from_a_pointer():
    def emit(site):
        site.code.line(f"p = {site.input(0).name} + 1;")

    with pytest.raises(SynthesisError, match=r"elements of i4\[5\] can be used one by one only"):
        function_of(emit, [I4], I4)


def test_operands_that_a_kernel_leaves_alone_are_mentioned():
    def emit(site):
        site.store.write(site.code, ("0",), site.input(1).at("0"))

    lines = [line.strip() for line in function_of(emit, [F32, F32], F32).lines]

    assert "(void)x0;" in lines
    assert "(void)x1;" not in lines
    assert "(void)y;" not in lines


def test_bits_past_the_last_packed_element_are_cleared():
    def emit(site):
        site.store.write(site.code, ("0",), "1")

    lines = [line.strip() for line in function_of(emit, [I4], I4).lines]

    assert lines.index("oi_store_i4(y, 0, 1);") < lines.index("y[2] = (uint8_t)(y[2] & 15);")


@pytest.mark.parametrize(
    ("count", "declared", "kept"),
    [(0, "size_t order[1];", False), (1024, "size_t order[1024];", False), (1025, "static size_t order[1025];", True)],
)
def test_long_arrays_to_work_in_are_static_and_noted(count, declared, kept):
    def emit(site):
        site.code.scratch("size_t", "order", count)
        site.store.write(site.code, ("3",), "1.0f")

    function = function_of(emit, [F32], F32)

    assert declared in [line.strip() for line in function.lines]
    assert function.keeps_memory == kept


def test_functions_share_what_they_call():
    def emit(site):
        site.code.line(f"element = {site.input(0).at('0')};")

    functions = [function_of(emit, [I4], F32), function_of(emit, [I4, I4], F32)]

    assert library_source(functions).count("static inline int8_t oi_load_i4(") == 1
    assert function_of(emit, [I4], F32) == functions[0] != functions[1]
