"""What the definition of a plugin's operator refuses is reported at the statement, wherever it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offered_operators import environment_offering, same_type

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import ExecutionError, SynthesisError
from openinfer.expr import tree
from openinfer.ops import Elementwise, InputSpec, OpSchema, OpTypeError, SettingSpec, SettingType
from openinfer.simulate import Simulator
from openinfer.simulate.execute.whole_program import device_findings
from openinfer.synth import Synthesizer
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.plugins.environment import Environment

PROGRAM = """dynamic { x: f32[4]; }
volatile { y: f32[4]; }
block entry {
  op relu(x) >> t;
  op steep(t, slope=-1.0) >> y;
  return y;
}
"""


def steep(inputs: Sequence[Expr], settings: Mapping[str, Any], *_: object) -> Expr:
    if settings["slope"] < 0:
        raise OpTypeError("the slope is negative", code="setting-range", settings=("slope",))
    return tree.mul(inputs[0], tree.literal(settings["slope"], inputs[0].dtype))


@pytest.fixture
def environment() -> Environment:
    return environment_offering(
        OpSchema(
            name="steep",
            summary="x times a slope that is not negative",
            category="test",
            inputs=(InputSpec(name="x"),),
            settings=(SettingSpec(name="slope", type=SettingType.FLOAT, default=1.0),),
            dtypes=frozenset({"f32"}),
            infer=same_type,
            definition=Elementwise(steep),
        )
    )


@pytest.mark.parametrize("target", ["c", "vulkan"])
def test_targets_report_the_statement_and_point_at_the_setting(environment: Environment, target: str) -> None:
    with pytest.raises(SynthesisError, match="the slope is negative") as caught:
        Synthesizer(target, environment=environment).synthesize(oi.Model.from_arrays({}), graph(PROGRAM))

    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.block, finding.node_index) == ("setting-range", "entry", 1)
    assert finding.span is not None
    assert (finding.span.line, PROGRAM.splitlines()[4][finding.span.column - 1 :][:4]) == (5, "-1.0")


def test_checks_for_devices_that_run_whole_programs_report_the_same(environment: Environment) -> None:
    model = oi.Model.from_arrays({})

    (finding,) = device_findings(resolve(graph(PROGRAM), model, environment=environment), model, "c", environment)

    assert (finding.code, finding.node_index) == ("setting-range", 1)
    assert finding.span is not None
    assert finding.span.line == 5


def test_devices_that_bind_operators_report_the_same_place(environment: Environment) -> None:
    simulator = Simulator(oi.Model.from_arrays({}), environment=environment)

    with pytest.raises(ExecutionError, match="the slope is negative") as caught:
        simulator.make_executor(graph(PROGRAM))

    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.block, finding.node_index) == ("setting-range", "entry", 1)
    assert finding.span is not None
    assert finding.span.line == 5
