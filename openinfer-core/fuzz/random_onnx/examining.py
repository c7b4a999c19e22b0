"""Graphs imported and run, and what is wrong about them."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from random_programs.examining import Finding, Plan, examine

from openinfer.array_types import storage_dtype
from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers import ImportedModel, load
from openinfer.testing.random_programs.running import LONGEST, Failed, HangError, run_on, within
from openinfer.testing.random_programs.sample import Sample
from random_onnx.comparing import mismatch
from random_onnx.drawing import DrawnGraph
from random_onnx.graphs import Array, check
from random_onnx.messages import unclear
from random_onnx.tally import OnnxTally

CALM_MAGNITUDE = 1e6
"""Greatest magnitude of a program whose sums hardly depend on the order."""


@dataclass(frozen=True, slots=True, eq=False)
class _Imported:
    """A graph as a program, with its inputs."""

    drawn: DrawnGraph
    model: ImportedModel
    sample: Sample


def examine_graphs(graphs: Mapping[int, DrawnGraph], plan: Plan, tally: OnnxTally) -> list[Finding]:
    """Import and run numbered graphs, and return what is wrong."""
    findings: list[Finding] = []
    samples: dict[int, Sample] = {}
    for number, drawn in graphs.items():
        made = _imported(number, drawn, plan, findings, tally)
        if made is None:
            continue
        samples[number] = made.sample
        _compare(number, made, plan, findings, tally)
    return [*findings, *examine(samples, plan, tally.programs)]


def _imported(
    number: int, drawn: DrawnGraph, plan: Plan, findings: list[Finding], tally: OnnxTally
) -> _Imported | None:
    results = {name: variants[0] for name, variants in drawn.trace.values.items()}
    model = drawn.graph.model(results)
    check(model)
    inputs = drawn.graph.inputs()
    try:
        with warnings.catch_warnings(), within(LONGEST):
            warnings.simplefilter("error")
            made, fixed = _loaded(model, inputs, plan)
            sample = _sample(drawn, made, {name: array for name, array in inputs.items() if name not in fixed})
    except ModelImportError as error:
        tally.graphs["refused"] += 1
        manner = unclear(error)
        if manner is not None:
            findings.append(Finding(number, f"import: {manner}", str(error)))
        elif not drawn.is_refused:
            tally.graphs["refused as a whole"] += 1
            tally.note_refusal("graph", error)
        return None
    except HangError as error:
        findings.append(Finding(number, "import: hangs", str(error)))
        return None
    except OpenInferError as error:
        findings.append(Finding(number, f"import: error {error.code}", str(error)))
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the fuzzer looks for
        reported = "".join(traceback.format_exception(error)[-4:])
        findings.append(Finding(number, f"import: raises {type(error).__name__}", reported))
        return None
    tally.graphs["imported"] += 1
    tally.nodes.update(node.op_type for node in drawn.graph.nodes)
    return _Imported(drawn, made, sample)


def _loaded(model: onnx.ModelProto, inputs: Mapping[str, Array], plan: Plan) -> tuple[ImportedModel, set[str]]:
    """Load a model from a file; inputs whose values the importer needs are fixed one after another."""
    fixed: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="openinfer-") as folder:
        path = Path(folder, "drawn.onnx")
        path.write_bytes(model.SerializeToString())
        while True:
            try:
                values = {name: inputs[name] for name in fixed}
                return load(path, values=values, environment=plan.environment), fixed
            except ModelImportError as error:
                more = set(error.inputs) & set(inputs) - fixed
                if not more:
                    raise
                fixed |= more


def _sample(drawn: DrawnGraph, made: ImportedModel, inputs: Mapping[str, Array]) -> Sample:
    """Return the program as one that the fuzzer of programs runs."""
    store = made.model.tensor_store()
    tensors = {
        name: np.frombuffer(store.stored(name).tobytes(), storage_dtype(info.dtype)).reshape(info.shape)
        for name, info in made.model.tensors.items()
    }
    step = {made.report.inputs[name]: array for name, array in inputs.items() if name in made.report.inputs}
    values = [variants[0] for variants in drawn.trace.values.values()]
    sources = [source.array for source in drawn.graph.sources.values()]
    with np.errstate(all="ignore"):
        calm = drawn.graph.calm and all(map(_is_calm, values)) and all(map(_has_few_bits, sources))
    return Sample(made.graph, dict(made.model.sizevars), tensors, (step,), calm)


def _is_calm(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.all(np.abs(array) <= CALM_MAGNITUDE))


def _has_few_bits(array: Array) -> bool:
    """Whether floats are such that quotients and sums of them are hardly rounded, as single statements assume."""
    return array.dtype.kind != "f" or bool(np.all(array * 64 == np.rint(array * 64)))


def _compare(number: int, made: _Imported, plan: Plan, findings: list[Finding], tally: OnnxTally) -> None:
    """Compare what cpu computes with what onnxruntime does; what goes wrong on cpu is reported by `examine`."""
    try:
        (step,) = run_on(made.sample, "cpu", plan.environment).steps
    except Exception:  # noqa: BLE001 - see above
        return
    if isinstance(step, Failed):
        findings.append(Finding(number, "cpu: fails", f"the step ends with {step}, and onnxruntime runs it"))
        return
    for name, ours in made.model.report.outputs.items():
        if ours not in step:
            findings.append(Finding(number, "onnx: no result", f"{name} is missing"))
            continue
        line = mismatch(made.drawn.trace.values[name], step[ours].array, tally.values)
        if line is not None:
            op = next(node.op_type for node in made.drawn.graph.nodes if name in node.output)
            findings.append(Finding(number, f"onnx: value of {op}", f"{name}: {line}"))
