"""Trace JSON: seven fields in a fixed order, read back strictly."""

from __future__ import annotations

import json

import pytest

from openinfer.errors import SerializationError
from openinfer.events import TraceEvent
from openinfer.serialize import trace_from_json, trace_to_json

EVENT = TraceEvent(
    kind="OpExecute",
    node_index=1,
    node_uuid="53b7184e-4b0f-492d-8d93-9274d52617a6",
    block_name="entry",
    node_desc="op add(x,a) >> t0",
    op_name="add",
    params=("x", "a"),
    output=("t0",),
    micros_parts=(0, 31, 788),
    start_ns=12,
)


@pytest.mark.rule("json.traces.1", "runtime.traces.1")
def test_an_event_has_seven_fields_in_order() -> None:
    (written,) = trace_to_json([EVENT])
    assert json.dumps(written) == (
        '{"block_name": "entry", "node_index": 1, "node_uuid": "53b7184e-4b0f-492d-8d93-9274d52617a6", '
        '"kind": "OpExecute", "params": ["x", "a"], "output": ["t0"], "micros": [0, 31, 788]}'
    )


def test_events_are_read_without_what_the_form_leaves_out(tmp_path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace_to_json([EVENT, EVENT])), encoding="utf-8")
    (first, _) = trace_from_json(file)
    assert trace_to_json([first]) == trace_to_json([EVENT])
    assert (first.node_desc, first.op_name, first.start_ns) == ("", "", 0)
    assert trace_from_json(file.read_text(encoding="utf-8")) == trace_from_json(trace_to_json([EVENT, EVENT]))


@pytest.mark.rule("json.traces.2")
def test_fields_of_later_versions_are_ignored() -> None:
    (written,) = trace_to_json([EVENT])
    assert trace_from_json([{**written, "device": "cpu"}]) == trace_from_json([written])


WRONG = {
    "unknown kind": ({"kind": "Op"}, "/0/kind", "one of Assign, OpExecute"),
    "two numbers": ({"micros": [0, 1]}, "/0/micros", "found 2 numbers"),
    "a float": ({"micros": [0, 1, 2.0]}, "/0/micros/2", "expected an integer"),
    "a negative number": ({"micros": [0, -1, 2]}, "/0/micros/1", "out of range"),
    "nanoseconds beyond 999": ({"micros": [0, 0, 1000]}, "/0/micros/2", "out of range"),
    "params as text": ({"params": "x"}, "/0/params", "expected a list"),
}


@pytest.mark.rule("json.traces.2")
@pytest.mark.parametrize(("change", "pointer", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_event_is_refused_where_it_is(change: dict[str, object], pointer: str, message: str) -> None:
    (written,) = trace_to_json([EVENT])
    with pytest.raises(SerializationError) as caught:
        trace_from_json([{**written, **change}])
    (finding,) = caught.value.diagnostics
    assert finding.path == pointer
    assert message in finding.message


def test_a_trace_is_a_list() -> None:
    with pytest.raises(SerializationError, match="expected a list of events"):
        trace_from_json("{}")
