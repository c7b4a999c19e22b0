"""Single statements of a program on cpu, compared with what is known of their operators apart from the schemas."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openinfer.errors import ExecutionError
from openinfer.ir.resolved import ResolvedOp
from openinfer.ir.text import ref_text
from openinfer.ir.values import Ref
from openinfer.ops.calls import OpCall
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator
from openinfer.symbolic import Const
from openinfer.testing.comparing import mismatch
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known_oracles
from openinfer.testing.precision import tolerance_of
from openinfer.testing.random_programs.running import LONGEST, within
from openinfer.testing.random_programs.sample import Array, Sample
from openinfer.testing.values import exact


def wrong_statements(sample: Sample, environment: Environment) -> list[str]:
    """Return what is wrong with the results of statements, each compared once, in the first step."""
    found: list[str] = []
    with within(LONGEST), Simulator(sample.model(), sample.graph, environment=environment).make_executor() as executor:
        seen = set[int]()
        try:
            executor.insert(sample.steps[0])
            for run in executor.iterate():
                number = run.event.node_index
                resolved = executor.program.ops.get(number)
                if number in seen or resolved is None or not _can_compare(resolved, executor):
                    continue
                seen.add(number)
                found += [f"{run.event.node_desc}: {line}" for line in _wrong(resolved, executor, environment)]
        except ExecutionError:
            return found
    return found


def _can_compare(resolved: ResolvedOp, executor: Executor) -> bool:
    """Whether the operands of a statement that has just run are still there, and nothing else decides its results."""
    inputs = [given for given in resolved.inputs if given is not None]
    is_known = resolved.op in known_oracles() and not resolved.runtime_settings
    is_rounded = any(isinstance(value, float) for value in resolved.settings.values())
    fixed = all(isinstance(index, Const) for given in inputs for index in given.indices)
    is_kept = not {given.name for given in inputs} & set(resolved.outputs)
    variables = executor.program.variables
    return (
        is_known
        and not is_rounded
        and fixed
        and is_kept
        and all(given.name in variables or given.indices for given in inputs)
        and not any(variables[name].varying for name in resolved.outputs)
    )


def _wrong(resolved: ResolvedOp, executor: Executor, environment: Environment) -> Iterator[str]:
    schema = environment.op(resolved.op)
    if len(resolved.outputs) < len(schema.outputs) or not any(made.shape for made in resolved.output_types):
        return  # Oracles return no arrays for single elements, and all results in any event.
    call = OpCall(
        op=resolved.op, inputs=resolved.input_types, outputs=resolved.output_types, settings=resolved.settings
    )
    with np.errstate(all="ignore"):
        inputs = [
            None if given is None or kind is None else exact(_array(executor, given), kind.dtype)
            for given, kind in zip(resolved.inputs, resolved.input_types, strict=True)
        ]
        expected = expected_of(known_oracles()[resolved.op], inputs, call)
        tolerance = tolerance_of(schema, call, inputs, [each.values for each in expected])
    for want, name, kind in zip(expected, resolved.outputs, resolved.output_types, strict=False):
        line = mismatch(want, executor.fetch_raw(name).array, kind.dtype, tolerance)
        if line is not None:
            yield line


def _array(executor: Executor, given: Ref) -> Array:
    return executor.fetch_raw(ref_text(given)).array
