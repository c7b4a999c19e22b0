"""JSON forms of graphs, traces and device files; the readers are opened by the first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer.serialize.graphs import GraphDeserialize, GraphSerialize
    from openinfer.serialize.json_schemas import json_schema
    from openinfer.serialize.perfetto import trace_to_perfetto
    from openinfer.serialize.traces import trace_from_json, trace_to_json

__all__ = [
    "GraphDeserialize",
    "GraphSerialize",
    "json_schema",
    "trace_from_json",
    "trace_to_json",
    "trace_to_perfetto",
]

_HOMES = {
    "GraphSerialize": "graphs",
    "GraphDeserialize": "graphs",
    "json_schema": "json_schemas",
    "trace_to_json": "traces",
    "trace_from_json": "traces",
    "trace_to_perfetto": "perfetto",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
