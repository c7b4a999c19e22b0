"""Cases as programs: many calls in one graph, so that a device is opened and a program compiled once for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from openinfer.dsl.builder import GraphBuilder
from openinfer.ir.values import Ref
from openinfer.model import Model
from openinfer.simulate import Simulator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dsl.builder_values import Given
    from openinfer.ir.graph import Graph
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.testing.cases import Case
    from openinfer.testing.values import Array


def run_cases(cases: Sequence[Case], device: str, environment: Environment) -> list[list[Array]]:
    """Run cases on a device and return the outputs of each.

    Raises:
        OpenInferError: what the device or a kernel says.
    """
    simulator = Simulator(Model.from_arrays({}), device=device, environment=environment)
    executor = simulator.make_executor(graph_of(cases, environment))
    executor.insert(
        {
            input_name(number, position): array
            for number, case in enumerate(cases)
            for position, array in enumerate(case.inputs())
            if array is not None
        }
    )
    executor.step()
    return [
        [executor.fetch_raw(name).array for name in output_names(number, case)] for number, case in enumerate(cases)
    ]


def input_name(case: int, position: int) -> str:
    """Return the name of an input of a case."""
    return f"in{case}_{position}"


def output_names(number: int, case: Case) -> list[str]:
    """Return the names of the outputs of a case; one that is written over an input has that input's name."""
    if case.target is not None:
        return [input_name(number, case.target)]
    return [f"out{number}_{position}" for position in range(len(case.call.outputs))]


def graph_of(cases: Sequence[Case], environment: Environment) -> Graph:
    """Return a graph that carries out cases one after the other: dynamic inputs, volatile outputs."""
    builder = GraphBuilder()
    for number, case in enumerate(cases):
        for position, given in enumerate(case.call.inputs):
            if given is not None:
                builder.dynamic(input_name(number, position), given.dtype, given.shape)
        if case.target is None:
            for name, made in zip(output_names(number, case), case.call.outputs, strict=True):
                builder.volatile(name, made.dtype, made.shape)
    with builder.block("entry"):
        for number, case in enumerate(cases):
            _call(builder, number, case, environment.op(case.call.op))
        builder.return_()
    return builder.build()


def _call(builder: GraphBuilder, number: int, case: Case, schema: OpSchema) -> None:
    positional: list[str] = []
    settings: dict[str, Given] = {name: cast("Any", value) for name, value in case.settings.items()}
    for position, given in enumerate(case.call.inputs):
        spec = schema.inputs[min(position, len(schema.inputs) - 1)]
        if given is not None and spec.optional:
            settings[spec.name] = Ref(input_name(number, position))
        elif given is not None:
            positional.append(input_name(number, position))
    builder.op(case.call.op, *positional, outputs=output_names(number, case), settings=settings)
