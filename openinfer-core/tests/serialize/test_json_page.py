"""The tables of docs/specification/json.md list exactly the fields, kinds and values of the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import openinfer.serialize

PAGE = (Path(__file__).parents[3] / "docs" / "specification" / "json.md").read_text(encoding="utf-8")
SCHEMA = json.loads(
    (Path(openinfer.serialize.__file__).parent / "schemas" / "graph.schema.json").read_text(encoding="utf-8")
)
KINDS: dict[str, Any] = {
    kind: schema
    for choice in SCHEMA["$defs"]["node"]["properties"]["kind"]["anyOf"]
    for kind, schema in choice.get("properties", {}).items()
}


def table(first: str) -> dict[str, str]:
    """Return the rows of the table whose first column has this title: the second column by the names in the first."""
    rows = PAGE[PAGE.index(f"| {first} |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {name: fields for names, fields in cells for name in re.findall(r"`(\w+)`", names) or [names]}


def fields(cell: str) -> tuple[set[str], set[str]]:
    """Return the fields that a cell lists outside of parentheses, and those that may be left out."""
    outside = re.sub(r"\([^)]*\)", "", cell)
    found = re.findall(r"`(\w+)`(\*?)", outside)
    return {name for name, _ in found}, {name for name, star in found if star}


def of_schema(schema: dict[str, Any]) -> tuple[set[str], set[str]]:
    names = set(schema.get("properties", {}))
    return names, names - set(schema.get("required", names))


def test_parts_of_a_graph_have_these_fields() -> None:
    rows = table("part")
    assert fields(rows["document"]) == of_schema(SCHEMA)
    for part in ("declaration", "block", "node"):
        assert fields(rows[part]) == of_schema(SCHEMA["$defs"][part])
    assert fields(rows["cache access"])[0] == set(KINDS["CacheReset"]["properties"]["target"]["properties"])


def test_kinds_of_nodes_have_these_fields() -> None:
    rows = table("kind of node")
    assert set(rows) == set(KINDS)
    assert {kind: fields(cell) for kind, cell in rows.items()} == {k: of_schema(KINDS[k]) for k in rows}


def test_values_of_settings_have_these_tags() -> None:
    assert set(table("value of a setting")) == set(SCHEMA["$defs"]["value"]["properties"])
