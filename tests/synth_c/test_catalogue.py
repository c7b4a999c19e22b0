"""The whole catalogue as C under the sanitisers: every operator and element type, against the oracles of the kit."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from generated_c import STRICT, needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.dtypes import F32
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.scratch import scratch_directory
from openinfer.simulate import Simulator
from openinfer.synth import Bundle, Synthesizer
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.synth.comparison import compare
from openinfer.testing.cases import Case, cases, sampled
from openinfer.testing.checks import wrong
from openinfer.testing.oracle import known_oracles
from openinfer.testing.programs import graph_of, inputs_of, output_names
from openinfer.testing.waiting import limit_s

PROGRAMS = 6

pytestmark = needs_gcc


@pytest.fixture(autouse=True)
def sanitising_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clang called where it is installed: with sanitizers it compiles large programs twice as fast as gcc."""
    monkeypatch.setenv("CC", "clang" if shutil.which("clang") is not None else "gcc")


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


def assert_gcc_has_no_warning(bundle: Bundle) -> None:
    with scratch_directory() as directory:
        for name, data in bundle.files.items():
            (directory / name).write_bytes(data)
        run_tool(["gcc", *STRICT, "-fsyntax-only", "main.c", "model.c"], directory, limit_s(60), "gcc")


@pytest.mark.parametrize("part", range(PROGRAMS))
def test_every_operator_is_clean_and_right(part: int) -> None:
    environment = Environment.default()
    given = chosen(environment, part)
    program = graph_of(given, environment, copied=True)

    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), program)
    inputs = inputs_of(given)
    found = run_sanitised(synthesis, inputs, timeout_s=limit_s(300))

    assert_gcc_has_no_warning(synthesis.bundle)
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
    found = run_sanitised(synthesis, inputs, timeout_s=limit_s(300))

    assert_gcc_has_no_warning(synthesis.bundle)
    executor = Simulator(Model.from_arrays({}), graph(text), device="cpu").make_executor()
    executor.step(**inputs)
    for name in names:
        expected = executor.fetch(name)
        # A scalar is a number of Python, of which the type does not say how exact it is.
        dtype = found[name].dtype if isinstance(expected, float) else None
        difference = compare(name, np.asarray(expected, dtype), found[name])
        assert difference.within, difference
