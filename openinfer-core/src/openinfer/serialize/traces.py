"""Traces as JSON (``specification: json.traces``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from marshmallow import EXCLUDE

from openinfer.boundary import public
from openinfer.diagnostics import summary
from openinfer.errors import SerializationError
from openinfer.events import TraceEvent
from openinfer.serialize.documents import fail, parse_json, problem_found, read_text
from openinfer.serialize.forms import COUNT, TEXT, Form, FormError, integer, list_of, one_of, shown, wrong
from openinfer.serialize.objects import Member, object_form

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

EVENT_KINDS = (
    *("Assign", "OpExecute", "CacheRead", "CacheWrite", "CacheIncrement", "CacheDecrement", "CacheReset"),
    *("Barrier", "Dep", "Transfer", "Yield", "Await", "Branch", "Loop", "Return"),
)
_Duration: TypeAlias = "tuple[int, int, int]"


def _read_duration(value: object) -> _Duration:
    parts = list_of(COUNT).read(value)
    if len(parts) != 3:
        raise wrong(f"expected milliseconds, microseconds and nanoseconds, found {len(parts)} numbers")
    for position, part in enumerate(parts[1:], start=1):
        if part > 999:
            raise wrong(f"{part} is out of range: expected 0 to 999", position)
    return parts[0], parts[1], parts[2]


_PARTS = [COUNT.schema, integer(0, 999).schema, integer(0, 999).schema]
_DURATION: Form[_Duration] = Form(
    list, _read_duration, {"type": "array", "prefixItems": _PARTS, "minItems": 3, "maxItems": 3}
)


_KIND = Form(str, lambda value: one_of(value, EVENT_KINDS, "a kind of event"), {"enum": list(EVENT_KINDS)})
EVENT: Form[TraceEvent] = object_form(
    {
        "block_name": TEXT,
        "node_index": COUNT,
        "node_uuid": TEXT,
        "kind": _KIND,
        "params": list_of(TEXT),
        "output": list_of(TEXT),
        "micros": Member(_DURATION, attribute="micros_parts"),
    },
    lambda data: TraceEvent(node_desc="", **data),
    unknown=EXCLUDE,
)


@public
def trace_to_json(events: Iterable[TraceEvent]) -> list[dict[str, Any]]:
    """Return events as a list of objects with the seven fields of a trace, in their order."""
    return [EVENT.write(event) for event in events]


TRACE_NBYTES = 1 << 30
"""Most bytes of a trace file: long runs make long traces."""


@public
def trace_from_json(source: list[Any] | str | os.PathLike[str]) -> tuple[TraceEvent, ...]:
    """Return the events of a list, JSON text (a ``str``) or file (a path object).

    Descriptions, operator names and start times are not part of the form and come back empty.

    Raises:
        SerializationError: with every finding and its JSON pointer.
        OSError: the file cannot be read.
    """
    document: Any = source if isinstance(source, list) else parse_json(*read_text(source, "trace JSON", TRACE_NBYTES))
    if not isinstance(document, list):
        fail(f"expected a list of events, found {shown(document)}", "wrong-type")
    try:
        return list_of(EVENT).read(cast("object", document))
    except FormError as error:
        findings = [problem_found(problem) for problem in error.problems]
        raise SerializationError(summary(findings), diagnostics=findings) from error
