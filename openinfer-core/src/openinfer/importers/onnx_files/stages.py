"""Which part of a model a node belongs to, by the names that exporters give."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import SourceNode


def stage_of(node: SourceNode, before: str) -> str:
    """Return the module that a node belongs to, such as ``layer1.0.conv1``; empty where its names do not say.

    PyTorch names nodes after the path of their module: ``/layer1/layer1.0/conv1/Conv``. Exporters with ``dynamo`` write
    the path into the metadata of nodes, and leaves it out of those that it adds itself: these belong where the node
    before them does.
    """
    for entry in node.proto.metadata_props:
        if entry.key == "namespace":
            parts = [part.partition(":")[0].strip() for part in entry.value.split("/")]
            parts = [part for part in parts if part]
            return parts[-2] if len(parts) > 1 else ""
    if node.name.startswith("node_"):
        return before
    name = node.name or (node.outputs[0] if node.outputs else "")
    parts = [part for part in name.split("/") if part]
    return _joined(parts[:-1]) if len(parts) > 1 else ""


def _joined(parts: list[str]) -> str:
    """Join path parts; a part that repeats the one before it, as in ``layer1/layer1.0``, takes its place."""
    found = ""
    for part in parts:
        last = found.rpartition(".")[2]
        repeats = found and part.startswith(f"{last}.")
        found = f"{found[: len(found) - len(last)]}{part}" if repeats else f"{found}.{part}" if found else part
    return found
