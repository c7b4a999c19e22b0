"""Trace files: the JSON of the specification, or what Perfetto opens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from openinfer.cli.headings import option_under
from openinfer.output_files import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from openinfer.events import MemoryUse
    from openinfer.simulate import Executor

JSON, PERFETTO = "json", "perfetto"

PERFETTO_SUFFIXES = (".perfetto.json", ".perfetto", ".perfetto-trace")
"""Endings of file names that are taken for Perfetto's format where none is given."""


def trace_options(heading: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--trace FILE`` and ``--trace-format``; parameters are ``trace_path`` and ``trace_format``."""
    option = option_under(heading)
    path = option("--trace", "trace_path", metavar="FILE", help="Write the events of all steps.")
    kinds = click.Choice([JSON, PERFETTO])
    form = option("--trace-format", type=kinds, help="Form of the trace; perfetto for FILE.perfetto.json, else json.")
    return lambda function: path(form(function))


def format_of(path: str, wanted: str | None) -> str:
    """Return the form that a trace file is to have."""
    return wanted or (PERFETTO if path.endswith(PERFETTO_SUFFIXES) else JSON)


def write_trace(path: str, wanted: str | None, executor: Executor, memory: Sequence[MemoryUse] = ()) -> None:
    """Write the events of an executor to a file; Perfetto's form with lines, types, and live bytes as counters.

    Raises:
        OSError: the file cannot be written.
    """
    from openinfer.serialize import trace_to_json, trace_to_perfetto

    events = executor.trace()
    perfetto = format_of(path, wanted) == PERFETTO
    document = trace_to_perfetto(events, memory, executor.program) if perfetto else trace_to_json(events)
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    with writing(path) as write:
        write(text.encode("utf-8"))
