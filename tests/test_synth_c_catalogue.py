"""The whole catalogue as C under the sanitisers: every operator and element type, against the oracles of the kit."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.dtypes import F32
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare
from openinfer.testing.cases import Case, cases, sampled
from openinfer.testing.checks import wrong
from openinfer.testing.oracle import known_oracles
from openinfer.testing.programs import graph_of, inputs_of, output_names
from openinfer.testing.waiting import limit_s
from openinfer_synth_c.target import CTarget

FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O0", "-ffp-contract=off"),
    *("-fsanitize=undefined,address", "-fno-sanitize-recover=all"),
)

PROGRAMS = 6

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def chosen(environment: Environment, part: int) -> list[Case]:
    """Return cases of every operator: one of each of its element types in turn, and some of its other cases."""
    found: list[Case] = []
    for number, schema in enumerate(environment.ops.values()):
        if number % PROGRAMS != part:
            continue
        dtypes = [dtype for dtype in environment.dtypes.values() if dtype.name in schema.dtypes]
        for place, dtype in enumerate(dtypes):
            small = [case for case in cases(schema, dtype, environment.dtypes) if case.shapes != "large"]
            found += sampled(small[place % len(small) :], 64)[:3]
    return found


@pytest.mark.parametrize("part", range(PROGRAMS))
def test_every_operator_is_clean_and_right(part: int) -> None:
    environment = Environment.default()
    given = chosen(environment, part)
    program = graph_of(given, environment, copied=True)

    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), program)
    inputs = inputs_of(given)
    found = CTarget().build_and_run(synthesis.plan, synthesis.bundle, inputs, flags=FLAGS, timeout=limit_s(300)).outputs

    lines: list[str] = []
    for number, case in enumerate(given):
        outputs = [found[name] for name in output_names(number, case, copied=True)]
        lines += wrong(environment.op(case.call.op), known_oracles()[case.call.op], case, outputs)
    assert lines == []


def test_every_operator_is_among_them() -> None:
    environment = Environment.default()
    met = {case.call.op for part in range(PROGRAMS) for case in chosen(environment, part)}

    assert met == set(environment.ops)


def test_every_operator_takes_an_expression_that_is_fused_into_it() -> None:
    environment = Environment.default()
    given: list[Case] = []
    for schema in environment.ops.values():
        dtypes = [dtype for dtype in environment.dtypes.values() if dtype.name in schema.dtypes]
        plain = [
            case
            for case in cases(schema, F32 if F32 in dtypes else dtypes[0], environment.dtypes)
            if case.shapes not in {"large", "strewn"}
            and case.target is None
            and case.call.outputs[0].dtype.name in environment.op("add").dtypes
        ]
        given += sampled(plain, 4)
    names = [output_names(number, case)[0] for number, case in enumerate(given)]
    doubled = "".join(f"  op add({name}, {name}) >> {name};\n" for name in names)
    text = graph_of(given, environment).to_dsl().replace("  return;", f"{doubled}  return;")

    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(text))
    inputs = inputs_of(given)
    found = CTarget().build_and_run(synthesis.plan, synthesis.bundle, inputs, flags=FLAGS, timeout=limit_s(300)).outputs

    executor = Simulator(Model.from_arrays({}), graph(text), device="cpu").make_executor()
    executor.step(**inputs)
    for name in names:
        expected = executor.fetch(name)
        # A scalar is a number of Python, of which the type does not say how exact it is.
        dtype = found[name].dtype if isinstance(expected, float) else None
        difference = compare(name, np.asarray(expected, dtype), found[name])
        assert difference.within, difference
