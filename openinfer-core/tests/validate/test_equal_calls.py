"""Statements without declarations: rules run once for equal types, however many statements there are."""

from __future__ import annotations

from given_plugins import load, operator, ops, plugin

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.ops.schema import Compute, InputSpec
from openinfer.validate import resolve


def test_statements_on_equal_types_share_one_call_of_the_rule():
    shapes = []

    def infer(inputs, settings, declared):
        shapes.append(inputs[0].shape)
        return (inputs[0],)

    def define(k, call):
        at = k.axes(*call.outputs[0].shape)
        k.outputs[0][at] = k.inputs[0][at]

    same = operator("same", inputs=(InputSpec(name="x"),), infer=infer, definition=Compute(define))
    environment = load(("example", plugin(ops(same))))
    statements = [f"op same(x) >> a{number}; op same(z) >> b{number};" for number in range(40)]
    program = graph(f"dynamic {{ x: f32[2]; z: f32[3]; }} block entry {{ {' '.join(statements)} return a0, b0; }}")
    shapes.clear()

    resolved = resolve(program, Model.from_arrays({}), environment=environment)

    assert shapes == [(2,), (3,)]
    assert {op.output_types for op in resolved.ops.values()} == {op.input_types for op in resolved.ops.values()}
