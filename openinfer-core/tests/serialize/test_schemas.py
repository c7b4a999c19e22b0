"""The JSON Schema files: up to date, valid, and in agreement with the readers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openinfer.arch import DeviceArch
from openinfer.errors import SerializationError
from openinfer.serialize import GraphDeserialize, trace_from_json
from openinfer.serialize.json_schemas import DOCUMENTS, json_schema, schema_text, shipped_text

jsonschema = pytest.importorskip("jsonschema", reason="the schemas are compared with an independent validator")

DATA = Path(__file__).parents[1] / "data"
READERS = {"graph": GraphDeserialize.from_json, "trace": trace_from_json, "device": DeviceArch.load}
SEEN_BY_SCHEMAS = {"wrong-type", "missing-field", "schema-version"}

TRACE = [
    {
        "block_name": "entry",
        "node_index": 0,
        "node_uuid": "0c9d9a52-3f0f-5f0e-8a0c-8d1f4f1f7a22",
        "kind": "OpExecute",
        "params": ["x"],
        "output": ["y"],
        "micros": [0, 12, 345],
    }
]
DEVICE: dict[str, Any] = {
    "device": {"type": "gpu", "api": "vulkan", "vendor": "v"},
    "limits": {
        "max_workgroup_size": [256, 256, 64],
        "max_shared_memory_bytes": 1,
        "max_push_constants_bytes": 128,
        "max_storage_buffer_range_bytes": 134217728,
    },
    "features": {"fp16": True, "other": False},
    "memory": {"global_bytes": 1},
    "preferences": {"default_precision": "fp16", "max_kernel_ops": 4},
    "target": {
        "lanes": 8,
        "registers": 16,
        "integer_registers": 12,
        "fpu": "single",
        "dsp": False,
        "fma": True,
        "dot4": False,
        "loads": 2,
        "caches": [32768],
        "dialect": "vector",
        "flags": ["-march=x86-64-v3"],
    },
    "memories": [{"name": "sram", "bytes": 65536, "kind": "sram"}],
    "version": 2,
}


def graph_document(version: int) -> Any:
    return json.loads((DATA / f"graph_version_{version}.json").read_text(encoding="utf-8"))


DOCUMENTS_READ = [
    ("graph", graph_document(1)),
    ("graph", graph_document(2)),
    ("graph", graph_document(4)),
    ("trace", TRACE),
    ("device", DEVICE),
]


def validator(kind: str) -> Any:
    return jsonschema.Draft202012Validator(json_schema(kind))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_shipped_file_is_up_to_date(kind: str) -> None:
    assert shipped_text(kind) == schema_text(kind)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_schema_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(kind))


@pytest.mark.parametrize(("kind", "document"), DOCUMENTS_READ)
def test_what_is_written_is_accepted(kind: str, document: Any) -> None:
    READERS[kind](document)
    validator(kind).validate(document)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place inside of a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def changed(document: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    """The document with something else at a place, or nothing."""
    for other in (None, True, -1, 1.5, 10**30, "?", "x", [], {}, {"Int": 1}, [1, 2, 3]):
        if not path:
            yield other
            continue
        copied = copy.deepcopy(document)
        parent = copied
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = other
        yield copied
    if path:
        copied = copy.deepcopy(document)
        parent = copied
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        yield copied


@pytest.mark.parametrize(("kind", "document"), DOCUMENTS_READ)
def test_the_schema_takes_what_the_reader_takes_and_refuses_wrong_types(kind: str, document: Any) -> None:
    check = validator(kind)
    verdicts: set[tuple[bool, bool]] = set()
    every = list(paths(document))
    for path in every[:: max(1, len(every) // 60)]:
        for other in changed(document, path):
            if not isinstance(other, dict | list):
                continue
            try:
                READERS[kind](other)
                codes = set()
            except SerializationError as error:
                codes = {finding.code for finding in error.diagnostics}
            accepted = check.is_valid(other)
            assert accepted or codes, f"{path}: the reader takes {other}, the schema does not"
            if kind == "graph" and codes & SEEN_BY_SCHEMAS:
                assert not accepted, f"{path}: the reader says {codes}, the schema takes it"
            verdicts.add((not codes, accepted))
    assert {(True, True), (False, False)} <= verdicts


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("trace", [{**TRACE[0], "kind": "Op"}]),
        ("trace", [{**TRACE[0], "micros": [0, 1000, 0]}]),
        ("trace", {}),
        ("device", {"device": {"type": "cpu"}}),
        ("device", {"device": {"type": "gpu", "api": "vulkan"}}),
        ("device", {**DEVICE, "limits": {**DEVICE["limits"], "max_workgroup_size": [1, 1]}}),
        ("device", {**DEVICE, "version": 3}),
    ],
)
def test_what_the_reader_refuses_is_refused(kind: str, document: Any) -> None:
    with pytest.raises(SerializationError):
        READERS[kind](document)
    assert not validator(kind).is_valid(document)


def test_there_is_no_other_schema() -> None:
    with pytest.raises(ValueError, match="expected one of graph, trace, device"):
        json_schema("model")
