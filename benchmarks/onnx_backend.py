"""ONNX's own tests against the importer: `python benchmarks/onnx_backend.py [--device NAME] [--match TEXT]`.

Prints how many tests passed, are unsupported (the importer said so, from operator, type or attribute), and failed.
Tests whose names end in ``_expanded`` are left out: they are others, written with the functions that define operators.
`onnx_unsupported.txt` lists what is unsupported and may only shrink: a test that is unsupported without being listed
counts as failed, and so does one that passes though it is listed. ``--write`` rewrites the list.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers.onnx_backend import OpenInferBackend
from openinfer.importers.onnx_files.failures import NUMERIC

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")

COARSE = {"float16": 2e-3, "bfloat16": 2e-2, "float8_e5m2": 0.2}
"""Relative tolerance of low floats, of which ONNX rounds more often."""

VERSION = "1.23.2"
"""The package ``onnx`` whose tests the list is about; another one has others."""

LIST = Path(__file__).with_name("onnx_unsupported.txt")


@dataclass(frozen=True)
class Outcome:
    """What became of a test: passed, unsupported or failed, and why."""

    name: str
    state: str
    reason: str = ""


def cases(match: str) -> Iterator[Any]:
    """Yield ONNX's tests, those of expanded functions left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        for kind in KINDS:
            for case in load_model_tests(kind=kind):
                if "_expanded" not in case.name and match in case.name:
                    yield case


def outcome(case: Any, device: str) -> Outcome:
    """Run a test."""
    try:
        model, data = opened(case)
        prepared = OpenInferBackend.prepare(model, device)
        for inputs, outputs in data:
            wrong = difference(prepared.run(inputs), outputs, case)
            if wrong:
                return Outcome(case.name, "failed", wrong)
    except ModelImportError as error:
        return Outcome(case.name, "unsupported", reason_of(error))
    except (OpenInferError, *NUMERIC) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(
            case.name, "failed", f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        )
    return Outcome(case.name, "passed")


def reason_of(error: ModelImportError) -> str:
    """Return why a model cannot be imported: the first node at fault."""
    lines = str(error).splitlines()
    text = lines[1].strip() if len(lines) > 1 else lines[0]
    return text.partition("): ")[2] or text


def opened(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """Return the model of a test, and its inputs with the expected outputs."""
    if case.model_dir is None:
        return case.model, [([plain(i) for i in ins], [plain(o) for o in outs]) for ins, outs in case.data_sets]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = [(tensors(each, "input"), tensors(each, "output")) for each in sorted(folder.glob("test_data_set_*"))]
    return model, data


def tensors(folder: Path, kind: str) -> list[Any]:
    """Return the inputs or outputs of a set of data."""
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [plain(onnx.load_tensor(path)) for path in files]


def plain(value: Any) -> Any:
    """Return a tensor as an array; sequences and the like stay as they are."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def difference(found: tuple[Any, ...], wanted: list[Any], case: Any) -> str:
    """Return what is wrong with results, or an empty text."""
    for number, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours.shape != theirs.shape:
            return f"output {number} has shape {ours.shape}, expected {theirs.shape}"
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        if not np.allclose(a, b, max(case.rtol, COARSE.get(theirs.dtype.name, 0.0)), case.atol, equal_nan=True):
            return f"output {number} is {a.reshape(-1)[:4]}, expected {b.reshape(-1)[:4]}"
        packed = theirs.dtype.name in ("int2", "int4", "uint2", "uint4")
        if ours.dtype != theirs.dtype and not packed:
            return f"output {number} has type {ours.dtype}, expected {theirs.dtype}"
    return ""


def listed() -> dict[str, str]:
    """Return the tests that are known to be unsupported, with reasons."""
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return {name: reason for name, _, reason in (line.partition(": ") for line in lines)}


def judged(outcomes: list[Outcome]) -> Iterator[Outcome]:
    """Yield outcomes with those that contradict the list as failures."""
    known = listed()
    for each in outcomes:
        if each.state == "unsupported" and each.name not in known:
            yield Outcome(each.name, "failed", f"unsupported and not listed: {each.reason}")
        elif each.state == "passed" and each.name in known:
            yield Outcome(each.name, "failed", f"passes: take it out of {LIST.name}")
        else:
            yield each


def main() -> int:
    """Run the tests; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--match", default="", help="only tests with this text in their name")
    parser.add_argument("--verbose", action="store_true", help="print every test that is unsupported")
    parser.add_argument("--write", action="store_true", help="write the list of unsupported tests")
    chosen = parser.parse_args()
    if chosen.write and chosen.match:
        parser.error("--write lists all tests: leave --match out")
    found = [outcome(case, chosen.device) for case in cases(chosen.match)]
    if chosen.write:
        LIST.write_text(
            "".join(f"{o.name}: {o.reason}\n" for o in sorted(found, key=lambda o: o.name) if o.state == "unsupported")
        )
    final = list(judged(found))
    for each in final:
        if each.state == "failed" or (chosen.verbose and each.state == "unsupported"):
            print(f"{each.state} {each.name}: {each.reason}")
    counts = Counter(each.state for each in final)
    print(", ".join(f"{counts[state]} {state}" for state in ("passed", "unsupported", "failed")))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
