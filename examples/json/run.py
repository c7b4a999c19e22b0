"""Writes the graph of the minimal example as JSON, reads it back and runs it: `python run.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import openinfer as oi

HERE = Path(__file__).parent
MINIMAL = HERE.parent / "minimal"


def main() -> None:
    """Graph to JSON text, JSON text to graph; both are equal and run alike."""
    sys.path.insert(0, str(MINIMAL))
    from make_model import make

    make(HERE / "model.oinf")
    graph = oi.load_graph(MINIMAL / "minimal.oi")
    path = HERE / "minimal-graph.json"
    path.write_text(json.dumps(oi.GraphSerialize.json(graph), indent=2), encoding="utf-8")
    again = oi.GraphDeserialize.from_json(json.loads(path.read_text(encoding="utf-8")))
    print("the graph that comes back is equal:", again == graph)

    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        simulator = oi.Simulator(model).with_trace()
        results = []
        for each in (graph, again):
            executor = simulator.make_executor(each)
            executor.insert(x=np.arange(model.size_of("B"), dtype=np.float32))
            for node in executor.iterate():
                print(f"[{node.event.kind}] {node.event.block_name} :: {node.event.op_name} ({node.event.micros})")
            results.append(executor.fetch("y"))
        trace = oi.trace_to_json(executor.trace())
    (HERE / "trace.json").write_text(json.dumps(trace, indent=2), encoding="utf-8")
    print("and computes the same:", bool(np.array_equal(*results)))


if __name__ == "__main__":
    main()
