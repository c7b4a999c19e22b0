"""Graphs as JSON documents and back (``specification: json.graphs``)."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from openinfer.boundary import public_methods
from openinfer.diagnostics import Severity, summary
from openinfer.errors import SerializationError
from openinfer.ir.bulk import many_objects
from openinfer.ir.graph import Block, Graph, VarDecl
from openinfer.ir.language import MAX_NESTING
from openinfer.ir.nodes import Loop, Node
from openinfer.ir.strings import quoted
from openinfer.serialize.declarations import DECLARATION
from openinfer.serialize.documents import fail, finding, pointer_to, problem_found, read_document
from openinfer.serialize.forms import COUNT, IDENTIFIER, MISSING, UNKNOWN, FormError, Problem, shown
from openinfer.serialize.nodes import NODE
from openinfer.serialize.values import HINTS
from openinfer.serialize.version import VERSION, needed_version

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.diagnostics import Diagnostic
    from openinfer.serialize.forms import Form, Path, ValueT


@public_methods
class GraphSerialize:
    """Graph to JSON."""

    @staticmethod
    def json(graph: Graph) -> dict[str, Any]:
        """Return the document of a graph: plain dictionaries, lists, strings and numbers."""
        with many_objects():
            document: dict[str, Any] = {
                "vars": {name: DECLARATION.write(decl) for name, decl in sorted(graph.vars.items())},
                "blocks": {name: _block_out(block) for name, block in sorted(graph.blocks.items())},
                "next_index": graph.next_index,
            }
        version = needed_version(graph)
        if version > 1:
            document["schema_version"] = version
        return document

    @staticmethod
    def text(graph: Graph) -> str:
        """Return the document as text: keys sorted, two spaces of indent, a final line end."""
        document = GraphSerialize.json(graph)
        return json.dumps(document, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


@public_methods
class GraphDeserialize:
    """JSON to graph."""

    @staticmethod
    def from_json(
        source: Mapping[str, Any] | str | os.PathLike[str], *, strict: bool = False, name: str = "graph JSON"
    ) -> Graph:
        """Return the graph of a document, JSON text (a ``str``) or file (a path object).

        Form is checked here: types, tags, names, numbers, ids, and that texts parse. What only the structure check or
        a model can tell is left to those. Unknown fields are warnings in ``Graph.warnings``.

        Args:
            source: the document.
            strict: refuse unknown fields.
            name: how findings call JSON text; files have their path.

        Raises:
            SerializationError: with every finding and its JSON pointer.
            OSError: the file cannot be read.
        """
        reader = _Reader(strict=strict)
        with many_objects():
            document = read_document(source, name)
            if not isinstance(document, dict):
                what = "a graph is an object with `vars`, `blocks` and `next_index`"
                fail(f"{what}, found {shown(document)}", "wrong-type")
            graph = reader.graph(cast("dict[str, Any]", document))
        if reader.errors:
            raise SerializationError(summary(reader.errors), diagnostics=reader.errors)
        return graph


def _block_out(block: Block) -> dict[str, Any]:
    hints = HINTS.write(block.hints)
    return {"name": block.name, "nodes": _nodes_out(block.nodes), **({"hints": hints} if hints else {})}


def _nodes_out(nodes: Sequence[Node]) -> list[Any]:
    """Return nodes as JSON, filling loop bodies from a work list instead of by recursion."""
    result: list[Any] = []
    waiting: list[tuple[Sequence[Node], list[Any], int]] = [(nodes, result, 0)]
    while waiting:
        group, out, depth = waiting.pop()
        if depth > MAX_NESTING:
            fail(f"nesting too deep: over {MAX_NESTING} loops", "too-deep")
        for node in group:
            written = NODE.write(node)
            if isinstance(node.kind, Loop):
                body: list[Any] = []
                written["kind"]["Loop"]["body"] = body
                waiting.append((node.kind.body, body, depth + 1))
            out.append(written)
    return result


@dataclass(frozen=True, slots=True)
class _Group:
    """The nodes of a block or loop: those read, the JSON, where it is, and the loops and scopes around."""

    loaded: list[Node]
    items: list[Any]
    path: Path
    loops: int = 0
    scope: tuple[str, ...] = ()


class _Reader:
    """One document on its way to a graph, with the findings so far."""

    def __init__(self, *, strict: bool) -> None:
        self.errors: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []
        self._strict = strict
        self._indices: dict[int, Path] = {}
        self._ids: dict[object, Path] = {}

    def graph(self, document: dict[str, Any]) -> Graph:
        if not self._version(document.get("schema_version")):
            return Graph()
        for key in document:
            if key not in ("vars", "blocks", "next_index", "schema_version"):
                self._unknown((key,))
        variables = {
            name: decl
            for name, value in self._members(document, "vars")
            if (decl := self._declaration(name, value)) is not None
        }
        blocks = {
            name: block
            for name, value in self._members(document, "blocks")
            if (block := self._block(name, value)) is not None
        }
        return Graph(
            vars=MappingProxyType(variables),
            blocks=MappingProxyType(blocks),
            next_index=self._next_index(document),
            warnings=tuple(self._warnings),
        )

    # Findings

    def _error(self, path: Path, message: str, code: str = "wrong-value") -> None:
        self.errors.append(finding(path, message, code))

    def _problem(self, problem: Problem) -> None:
        self.errors.append(problem_found(problem))

    def _unknown(self, path: Path) -> None:
        severity = Severity.ERROR if self._strict else Severity.WARNING
        unknown = finding(path, f"unknown field `{path[-1]}`", "unknown-field", severity)
        (self.errors if self._strict else self._warnings).append(unknown)

    def _load(self, form: Form[ValueT], value: object, path: Path) -> ValueT | None:
        """Return what a form makes of a value, or None with the findings recorded."""
        try:
            return form.read(value)
        except FormError as error:
            problems = error.problems
        unknown = [problem.path for problem in problems if problem.code == UNKNOWN.code]
        for place in unknown:
            self._unknown((*path, *place))
        for problem in problems:
            if problem.code != UNKNOWN.code:
                self._problem(problem.within(path))
        if len(unknown) < len(problems):
            return None
        return self._load(form, _without(cast("dict[str, Any]", value), unknown), path)

    # Parts

    def _version(self, version: object) -> bool:
        if version is None:
            return True
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            self._error(("schema_version",), f"expected a positive integer, found {shown(version)}", "schema-version")
        elif version > VERSION:
            message = f"the document has version {version}, this reader knows versions up to {VERSION}"
            self._error(("schema_version",), message, "schema-version")
        return not self.errors

    def _members(self, document: dict[str, Any], key: str) -> Iterator[tuple[str, Any]]:
        if key not in document:
            self._problem(MISSING.within((key,)))
            return
        value = document[key]
        if not isinstance(value, dict):
            self._error((key,), f"expected an object, found {shown(value)}", "wrong-type")
            return
        yield from cast("dict[str, Any]", value).items()

    def _declaration(self, name: str, value: object) -> VarDecl | None:
        decl = self._load(DECLARATION, value, ("vars", name))
        if decl is not None and decl.name != name:
            self._error(
                ("vars", name, "name"), f"the key is {shown(name)}, the name {shown(decl.name)}", "name-mismatch"
            )
        return decl

    def _block(self, name: str, value: object) -> Block | None:
        path: Path = ("blocks", name)
        if not isinstance(value, dict):
            self._error(path, f"expected an object, found {shown(value)}", "wrong-type")
            return None
        block = cast("dict[str, Any]", value)
        for key in block:
            if key not in ("name", "nodes", "hints"):
                self._unknown((*path, key))
        own_name = self._field(IDENTIFIER, block, "name", path)
        if own_name is not None and own_name != name:
            self._error((*path, "name"), f"the key is {shown(name)}, the name {shown(own_name)}", "name-mismatch")
        hints = self._field(HINTS, block, "hints", path) if block.get("hints") is not None else None
        nodes = block.get("nodes")
        if not isinstance(nodes, list):
            mistyped = Problem(f"expected a list of nodes, found {shown(nodes)}", "wrong-type")
            self._problem((mistyped if "nodes" in block else MISSING).within((*path, "nodes")))
            return None
        loaded = self._nodes(cast("list[Any]", nodes), (*path, "nodes"))
        return Block(name, loaded, hints) if hints is not None else Block(name, loaded)

    def _field(self, form: Form[ValueT], data: dict[str, Any], key: str, path: Path) -> ValueT | None:
        """Return what a form makes of one member of an object, or None with the findings recorded."""
        if key in data:
            return self._load(form, data[key], (*path, key))
        self._problem(MISSING.within((*path, key)))
        return None

    def _next_index(self, document: dict[str, Any]) -> int:
        value = self._field(COUNT, document, "next_index", ())
        if value is None:
            return 0
        for index, path in self._indices.items():
            if index >= value:
                message = f"node number {index} is not below next_index, which is {value}"
                self._error((*path, "index"), message, "node-index")
        return value

    # Nodes

    def _nodes(self, values: list[Any], path: Path) -> tuple[Node, ...]:
        """Return the nodes of a list: every one is loaded alone, then the loops get their bodies, innermost first."""
        groups = [_Group([], values, path)]
        owners: list[tuple[list[Node], int, list[Node]]] = []
        for group in groups:
            for position, item in enumerate(group.items):
                here: Path = (*group.path, position)
                node = self._node(item, here)
                if node is None or not self._is_nested_right(node, group, here):
                    continue
                group.loaded.append(node)
                if isinstance(node.kind, Loop):
                    body: list[Node] = []
                    owners.append((group.loaded, len(group.loaded) - 1, body))
                    inner: Path = (*here, "kind", "Loop", "body")
                    groups.append(_Group(body, item["kind"]["Loop"]["body"], inner, group.loops + 1, node.scope))
        for loaded, position, body in reversed(owners):
            node = loaded[position]
            loaded[position] = replace(node, kind=replace(cast("Loop", node.kind), body=tuple(body)))
        return tuple(groups[0].loaded)

    def _is_nested_right(self, node: Node, group: _Group, path: Path) -> bool:
        """Record an error if a node is nested too deeply, or in a loop without the scopes around the loop."""
        if node.scope[: len(group.scope)] != group.scope:
            message = f"the scopes begin with those of the loop around the node: {', '.join(map(quoted, group.scope))}"
            self._error((*path, "scope"), message)
        elif group.loops + len(node.scope) + isinstance(node.kind, Loop) > MAX_NESTING:
            self._error(path, f"nesting too deep: over {MAX_NESTING} loops and scopes", "too-deep")
        else:
            return True
        return False

    def _node(self, item: object, path: Path) -> Node | None:
        node = self._load(NODE, item, path)
        if node is None:
            return None
        first = self._indices.setdefault(node.index, path)
        if first is not path:
            message = f"node number {node.index} is also that of {pointer_to(first)}"
            self._error((*path, "index"), message, "node-index")
        first = self._ids.setdefault(node.uuid, path)
        if first is not path:
            self._error((*path, "uuid"), f"id {node.uuid} is also that of {pointer_to(first)}", "duplicate-uuid")
        return node


def _without(value: dict[str, Any], places: list[Path]) -> dict[str, Any]:
    """Return a copy of a value without the members at some places."""
    pruned = dict(value)
    for place in places:
        parent: Any = pruned
        for part in place[:-1]:
            parent[part] = copy.copy(parent[part])
            parent = parent[part]
        del parent[place[-1]]
    return pruned
