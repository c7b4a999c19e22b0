"""Cases as programs: many calls in one graph, so that a device is opened and a program compiled once for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from openinfer.dsl.builder import GraphBuilder
from openinfer.errors import OpenInferError
from openinfer.ir.values import Ref
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dsl.builder_values import Given
    from openinfer.ir.graph import Graph
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.simulate import Executor
    from openinfer.testing.cases import Case
    from openinfer.testing.refused import RefusedCase
    from openinfer.testing.values import Array

LONGEST_RUN = 300.0
"""Time limit in seconds of building a program, and of running it."""


def run_on_device(cases: Sequence[Case], device: str, environment: Environment) -> list[list[Array]]:
    """Run cases on a device and return the outputs of each.

    Raises:
        OpenInferError: what the device or a kernel says.
    """
    simulator = Simulator(Model.from_arrays({}), device=device, environment=environment)
    # Drivers of GPUs refuse to open a device again when many are open in a process.
    with simulator.make_executor(graph_of(cases, environment)) as executor:
        executor.insert(inputs_of(cases))
        executor.step()
        return [
            [executor.fetch_raw(name).array for name in output_names(number, case)] for number, case in enumerate(cases)
        ]


def refuse_on_device(
    given: Sequence[RefusedCase], device: str, environment: Environment
) -> list[list[OpenInferError | None]]:
    """Run a step for each of these elements, the only one in the program; return what each step ended with.

    Raises:
        OpenInferError: the program cannot be run, or ends with an error without any of them.
    """
    simulator = Simulator(Model.from_arrays({}), device=device, environment=environment)
    cases = [refused.case for refused in given]
    with simulator.make_executor(graph_of(cases, environment)) as executor:
        legal = inputs_of(cases)
        executor.step(**legal)
        found: list[list[OpenInferError | None]] = []
        for number, refused in enumerate(given):
            places = [(input_name(number, element.input), element) for element in refused.elements]
            found.append([_error_of(executor, legal | {n: each.put_into(legal[n])}) for n, each in places])
        return found


def _error_of(executor: Executor, inputs: Mapping[str, Array]) -> OpenInferError | None:
    """Return the error that a step with these inputs raises."""
    try:
        executor.step(**inputs)
    except OpenInferError as error:
        return error
    return None


def run_on_target(cases: Sequence[Case], target: str, environment: Environment) -> list[list[Array]]:
    """Write cases out as a program for a synth target, build it, run it, and return the outputs of each.

    Raises:
        OpenInferError: what the target, its tools or the program say.
    """
    graph = graph_of(cases, environment, copied=True)
    synthesis = Synthesizer(target, environment=environment).synthesize(Model.from_arrays({}), graph)
    found = synthesis.run(inputs_of(cases), timeout=LONGEST_RUN).outputs
    return [[found[name] for name in output_names(n, case, copied=True)] for n, case in enumerate(cases)]


def inputs_of(cases: Sequence[Case]) -> dict[str, Array]:
    """Return the inputs of cases by name."""
    return {
        input_name(number, position): array
        for number, case in enumerate(cases)
        for position, array in enumerate(case.inputs())
        if array is not None
    }


def input_name(case: int, position: int) -> str:
    """Return the name of an input of a case."""
    return f"in{case}_{position}"


def output_names(number: int, case: Case, *, copied: bool = False) -> list[str]:
    """Return the names of the outputs of a case; one that is written over an input has that input's name.

    With ``copied`` it is written over a copy of the input: programs that are written out leave their inputs alone.
    """
    if case.target is not None and not copied:
        return [input_name(number, case.target)]
    return [f"out{number}_{position}" for position in range(len(case.call.outputs))]


def graph_of(cases: Sequence[Case], environment: Environment, *, copied: bool = False) -> Graph:
    """Return a graph that carries out cases one after the other: dynamic inputs, volatile outputs."""
    builder = GraphBuilder()
    for number, case in enumerate(cases):
        for position, given in enumerate(case.call.inputs):
            if given is not None:
                builder.dynamic(input_name(number, position), given.dtype, given.shape)
        if case.target is None or copied:
            for name, made in zip(output_names(number, case, copied=copied), case.call.outputs, strict=True):
                builder.volatile(name, made.dtype, made.shape)
    with builder.block("entry"):
        for number, case in enumerate(cases):
            _call(builder, number, case, environment.op(case.call.op), output_names(number, case, copied=copied))
        builder.return_()
    return builder.build()


def _call(builder: GraphBuilder, number: int, case: Case, schema: OpSchema, outputs: list[str]) -> None:
    names = [input_name(number, position) for position in range(len(case.call.inputs))]
    if case.target is not None and outputs[0] != names[case.target]:
        builder.op("identity", names[case.target], outputs=outputs)
        names[case.target] = outputs[0]
    positional: list[str] = []
    settings: dict[str, Given] = {name: cast("Any", value) for name, value in case.settings.items()}
    for position, given in enumerate(case.call.inputs):
        spec = schema.inputs[min(position, len(schema.inputs) - 1)]
        if given is not None and spec.optional:
            settings[spec.name] = Ref(names[position])
        elif given is not None:
            positional.append(names[position])
    builder.op(case.call.op, *positional, outputs=outputs, settings=settings)
