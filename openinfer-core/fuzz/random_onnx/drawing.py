"""Drawing a graph: each depends on a seed and its number alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

import onnx

from openinfer.importers.onnx_files.reading import OLDEST_OPSET
from openinfer.importers.onnx_files.translators import translators
from random_onnx.calls import Call, ImpossibleError
from random_onnx.generic import draw_generic
from random_onnx.graphs import Array, OnnxGraph, Source
from random_onnx.messages import unclear
from random_onnx.recipe_registry import registered
from random_onnx.tally import OnnxTally
from random_onnx.tracing import InvalidError, RefusedError, Trace

LENGTHS = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6)
"""Nodes of a graph."""

TRIES = 12
"""Attempts to draw a node of an operator that onnxruntime runs; some types and attributes it has no kernel for."""

UNTRANSLATED = 0.06
"""How often an operator without a translation is drawn."""

KEPT = 0.05
"""How often a node that is refused is kept, so that its graph is refused: the others are counted and drawn again."""

CALM = 0.7
"""How many graphs have floats whose sums hardly depend on the order."""

GRAPHS = frozenset({onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS})
"""Attributes with which operators are not drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnGraph:
    """A graph and its values.

    Attributes:
        is_refused: whether a node of it is refused alone, so that the graph has to be.
    """

    graph: OnnxGraph
    trace: Trace
    is_refused: bool = False


@cache
def opsets_of(op: str, newest: int) -> tuple[int, ...]:
    """Return the versions of ONNX's operators that have one, of those that are imported."""
    return tuple(version for version in range(OLDEST_OPSET, newest + 1) if _schema(op, version) is not None)


@cache
def _schema(op: str, opset: int) -> onnx.defs.OpSchema | None:
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None
    is_plain = not any(attribute.type in GRAPHS for attribute in schema.attributes.values())
    return schema if is_plain and not schema.deprecated else None


@cache
def operators(newest: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the operators that are translated, and others of the default domain."""
    names = sorted({name for domain, name in translators() if not domain})
    others = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain} - set(names))
    return tuple(n for n in names if opsets_of(n, newest)), tuple(n for n in others if opsets_of(n, newest))


def drawn_graph(seed: int, number: int, newest: int, start: Trace, tally: OnnxTally) -> DrawnGraph:
    """Return a graph.

    Args:
        newest: the newest version of operators.
        start: a trace without values, which names the process of onnxruntime.
    """
    random = Random(f"onnx/{seed}/{number}")  # noqa: S311 - the same graphs every time
    while True:
        names = operators(newest)
        first = random.choice(names[random.random() < UNTRANSLATED])
        opset = random.choice(opsets_of(first, newest))
        writer = Writer(random, Trace(opset, start.runtime, start.environment), tally, calm=random.random() < CALM)
        writer.write(first)
        length = random.choice(LENGTHS)
        for _ in range(4 * length):
            if writer.is_refused or len(writer.nodes) >= length:
                break
            name = random.choice(names[random.random() < UNTRANSLATED])
            if opset in opsets_of(name, newest):
                writer.write(name)
        if writer.nodes:
            return writer.graph()


class Writer:
    """A graph that is being drawn, node by node."""

    def __init__(self, random: Random, trace: Trace, tally: OnnxTally, *, calm: bool) -> None:
        self._random = random
        self._trace = trace
        self._tally = tally
        self._calm = calm
        self._sources: dict[str, Source] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.is_refused = False

    def write(self, op: str) -> None:
        """Add a node of an operator, if onnxruntime runs one of some that are drawn."""
        schema = _schema(op, self._trace.opset)
        for attempt in range(TRIES if schema is not None else 0):
            assert schema is not None  # noqa: S101 - see above
            if self._is_added(schema, f"v{len(self.nodes)}{'abcdefghijklmnop'[attempt]}"):
                return

    def _is_added(self, schema: onnx.defs.OpSchema, prefix: str) -> bool:
        values: dict[str, Array] = {name: variants[0] for name, variants in self._trace.values.items()}
        call = Call(schema, self._random, values, self._trace.known, self._calm, prefix)
        trial = Trace(
            self._trace.opset,
            self._trace.runtime,
            self._trace.environment,
            dict(self._trace.values),
            set(self._trace.known),
        )
        try:
            registered().get(schema.name, draw_generic)(call)
            for name, source in call.sources.items():
                trial.add_source(name, source)
            node = call.node()
            outcome = trial.add(node)
        except ImpossibleError:
            self._tally.drawn["impossible", schema.name] += 1
            return False
        except InvalidError:
            self._tally.drawn["invalid", schema.name] += 1
            return False
        except RefusedError as error:
            self._tally.note_runtime_refusal(schema.name, str(error))
            return False
        if outcome.refusal is not None:
            self._tally.note_refusal(schema.name, outcome.refusal)
            if self._random.random() >= KEPT and unclear(outcome.refusal) is None:
                return False
            self.is_refused = True
        self._tally.differences.update(outcome.differences)
        self._trace = trial
        self._sources |= call.sources
        self.nodes.append(node)
        return True

    def graph(self) -> DrawnGraph:
        """Return the graph; what no node reads is a result, and of the others some are."""
        read = {name for node in self.nodes for name in node.input}
        share = self._random.choice((0.0, 0.3, 1.0))
        made = [name for node in self.nodes for name in node.output if name]
        outputs = tuple(name for name in made if name not in read or self._random.random() < share)
        graph = OnnxGraph(self._trace.opset, self._sources, tuple(self.nodes), outputs, self._calm)
        return DrawnGraph(graph, self._trace, self.is_refused)
