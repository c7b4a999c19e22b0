"""What `openinfer run` prints of values and times."""

from __future__ import annotations

import math
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from openinfer.cli.terminal import table
from openinfer.output_files import writing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from openinfer.events import MemoryUse
    from openinfer.inspect.statistics import OperatorTime, Summary
    from openinfer.simulate.values import Tensor


def output_lines(name: str, tensor: Tensor) -> list[str]:
    """Return a value in one line: type, first and last elements, statistics."""
    from openinfer.inspect.statistics import summarise
    from openinfer.ir.types import TensorType
    from openinfer.simulate.formatting import format_significant

    kind = TensorType(tensor.dtype, tensor.shape) if tensor.shape else tensor.dtype
    head = f"{name}: {kind} = {format_significant(tensor.array)}"
    return [head] if math.prod(tensor.shape) <= 1 else [f"{head}  {_statistics(summarise(tensor))}"]


def _statistics(summary: Summary) -> str:
    if summary.minimum is None or summary.maximum is None or summary.mean is None:
        return f"nan {summary.nan}"
    nan = f"  nan {summary.nan}" if summary.nan else ""
    return f"min {summary.minimum:.6g}  max {summary.maximum:.6g}  mean {summary.mean:.6g}{nan}"


def output_object(tensor: Tensor) -> dict[str, Any]:
    """Return a value as JSON: element type, shape, statistics and all elements; NaN and infinities are strings."""
    from openinfer.inspect.statistics import summarise

    statistics = {key: _finite(value) for key, value in asdict(summarise(tensor)).items()}
    values: Any = tensor.array.tolist()
    return {"dtype": tensor.dtype.name, "shape": list(tensor.shape), **statistics, "values": _finite(values)}


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in cast("list[Any]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def save_array(file: Path, tensor: Tensor) -> None:
    """Write the elements of a value to a ``.npy`` file."""
    import numpy as np

    with writing(file) as write:
        # A stream that is known as a file takes another way in NumPy, on which the system's reason is lost.
        target = cast("Any", SimpleNamespace(write=write))
        np.lib.format.write_array(target, np.asarray(tensor.array), allow_pickle=False)


def memory_lines(uses: Sequence[MemoryUse]) -> list[str]:
    """Return a table of live bytes by kind of memory: at the peak, and at the end."""
    from openinfer.inspect.memory_use import peak

    most = peak(uses)
    if most is None:
        return []
    kinds = [kind for kind in most.live if any(use.live[kind] for use in uses)]
    rows = [
        (name, *(f"{use.live[kind]:,}" for kind in kinds), f"{use.total:,}", use.node_desc)
        for name, use in (("most", most), ("last", uses[-1]))
    ]
    return ["", *table(("live bytes", *kinds, "in all", "after"), rows).splitlines()]


def memory_object(uses: Sequence[MemoryUse]) -> dict[str, Any]:
    """Return live bytes after every node, and the most, as JSON."""
    from openinfer.inspect.memory_use import peak

    most = peak(uses)
    return {"peak": None if most is None else _use(most), "nodes": [_use(use) for use in uses]}


def _use(use: MemoryUse) -> dict[str, Any]:
    return {"node_index": use.node_index, "node_desc": use.node_desc, "live": dict(use.live), "total": use.total}


def time_lines(times: Sequence[OperatorTime], steps: int) -> list[str]:
    """Return a table of operators: how often, how long in all, a step, and which share."""
    rows = [
        (
            time.op,
            str(time.count),
            f"{time.total_ns / 1e6:.3f}",
            f"{time.total_ns / 1e3 / max(steps, 1):.1f}",
            f"{100 * time.share:.1f}",
        )
        for time in times
    ]
    note = "first use included, such as compiling for a device: `openinfer bench` leaves it out"
    return ["", *table(("operator", "runs", "total ms", "us a step", "%"), rows).splitlines(), note]
