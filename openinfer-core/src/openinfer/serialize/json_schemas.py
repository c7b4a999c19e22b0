"""JSON Schema of the documents, made from what the readers go by, for editors and other tools.

The files in ``schemas/`` are this module's output. A schema takes every document that the reader takes; what only the
reader can tell (unique numbers and ids, an ``@init`` that fits, expressions that parse) it does not refuse.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from openinfer.serialize.archs import device_schema
from openinfer.serialize.declarations import DECLARATION
from openinfer.serialize.forms import COUNT, IDENTIFIER, integer
from openinfer.serialize.nodes import NODE
from openinfer.serialize.traces import EVENT
from openinfer.serialize.values import HINTS, VALUE_SCHEMA
from openinfer.serialize.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS = ("graph", "trace", "device")


def json_schema(document: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of document: ``graph``, ``trace`` or ``device``.

    Raises:
        ValueError: there is no such kind.
    """
    if document not in DOCUMENTS:
        raise ValueError(f"expected one of {', '.join(DOCUMENTS)}, found {document!r}")
    made = {"graph": _graph, "trace": _trace, "device": device_schema}[document]()
    return {"$schema": DIALECT, "title": f"OpenInfer {document}", **made}


def schema_text(document: str) -> str:
    """Return the JSON Schema as the text of its file."""
    return json.dumps(json_schema(document), indent=2, sort_keys=True) + "\n"


def shipped_text(document: str) -> str:
    """Return the text of the file that the package holds."""
    return files("openinfer.serialize").joinpath("schemas", f"{document}.schema.json").read_text(encoding="utf-8")


def _graph() -> dict[str, Any]:
    node = {"$ref": "#/$defs/node"}
    hints = {"anyOf": [HINTS.schema, {"type": "null"}]}
    block = _object(
        {"name": IDENTIFIER.schema, "nodes": {"type": "array", "items": node}, "hints": hints}, ("name", "nodes")
    )
    version = {"anyOf": [integer(1, VERSION).schema, {"type": "null"}]}
    return {
        **_object(
            {
                "vars": {"type": "object", "additionalProperties": {"$ref": "#/$defs/declaration"}},
                "blocks": {"type": "object", "additionalProperties": {"$ref": "#/$defs/block"}},
                "next_index": COUNT.schema,
                "schema_version": version,
            },
            ("vars", "blocks", "next_index"),
        ),
        "$defs": {"declaration": DECLARATION.schema, "block": block, "node": NODE.schema, "value": VALUE_SCHEMA},
    }


def _trace() -> dict[str, Any]:
    return {"type": "array", "items": EVENT.schema}


def _object(properties: Mapping[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}
