"""Imports Silero's voice detector and runs it over a WAV, 512 samples a step, everywhere; compares with onnxruntime.

The model is the file of the library `silero-vad` (`pip install --no-deps silero-vad`), which is read and not imported.
`--golden` writes the probabilities that onnxruntime finds, `--picture` draws them, `--time` measures a step.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import speech

sys.path.append(str(Path(__file__).resolve().parents[1]))

import agreement

import openinfer as oi
from openinfer import importers
from openinfer.synth import Synthesis

HERE = Path(__file__).resolve().parent
NEW, CONTEXT = 512, 64
"""Samples that are new in a step, and those before them that the model reads too."""

MOST = 1e-5
VALUES = {"sr": 16_000, "input_0": 1, "input_1": CONTEXT + NEW, "state_1": 1}


def find_model() -> Path | None:
    """Return the ONNX file of the library, if that is installed."""
    found = importlib.util.find_spec("silero_vad")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "data" / "silero_vad.onnx"


def chunks_of(samples: agreement.Array) -> agreement.Array:
    """Return the input of each step: f32 [steps, 1, 576]."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), samples])
    starts = range(0, len(samples) - NEW + 1, NEW)
    return np.stack([padded[None, start : start + CONTEXT + NEW] for start in starts])


def by_onnxruntime(path: Path, chunks: agreement.Array) -> agreement.Array:
    """Return the probability of each chunk as onnxruntime computes it: f32 [steps]."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    state, found = np.zeros((2, 1, 128), np.float32), []
    for chunk in chunks:
        probability, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(16_000, np.int64)})
        found.append(probability[0, 0])
    return np.array(found, np.float32)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--golden", action="store_true", help="write golden.npz")
    parser.add_argument("--picture", action="store_true", help="draw probabilities.svg")
    parser.add_argument("--time", action="store_true", help="measure microseconds per step")
    options = parser.parse_args()
    path = find_model()
    if path is None or importlib.util.find_spec("onnx") is None:
        print("skipped: silero-vad or onnx is not installed (pip install --no-deps silero-vad; pip install onnx)")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        speech.write(Path(scratch) / "speech.wav")
        samples = speech.read(Path(scratch) / "speech.wav")
    chunks = chunks_of(samples)
    if options.golden:
        np.savez_compressed(HERE / "golden.npz", probabilities=by_onnxruntime(path, chunks))
    with np.load(HERE / "golden.npz", allow_pickle=False) as golden:
        expected = golden["probabilities"]
    if options.picture:
        loudness = np.abs(samples[: len(chunks) * NEW]).reshape(len(chunks), NEW).max(axis=1)
        lines = {"loudest sample": loudness, "probability": expected}
        agreement.write_chart(HERE / "probabilities.svg", "Is someone speaking? 32 ms a step", lines)

    imported = importers.load(path, values=VALUES)
    print(f"{imported.report}\n{len(chunks)} chunks, {np.mean(expected > 0.5):.0%} of them speech")
    claims = agreement.Claims()

    def on_device(device: str) -> None:
        executor = oi.Simulator(imported.model, device=device).make_executor(imported.graph)
        found = agreement.stepped(executor, [{"input": chunk} for chunk in chunks], "output")
        claims.near(f"device {device}, chunk by chunk", np.array(found)[:, 0, 0], expected, MOST)

    agreement.on_each_device(on_device)

    def made(target: str) -> Synthesis:
        return oi.Synthesizer(target).synthesize(imported.model, imported.graph)

    for target, outputs in agreement.on_each_target(made, {"input": chunks}, len(chunks)):
        claims.near(f"target {target}, chunk by chunk", outputs["output"][:, 0, 0], expected, MOST)
    print(agreement.shown_sizes(made("c").plan))
    if options.time:
        measure(imported, path, chunks)
    return 1 if claims.failed else 0


def measure(imported: importers.ImportedModel, path: Path, chunks: agreement.Array) -> None:
    """Print microseconds of a step of 512 samples."""
    calls = {}
    for device in agreement.DEVICES:
        try:
            executor = oi.Simulator(imported.model, device=device).make_executor(imported.graph)
        except oi.DeviceError:
            continue
        calls[f"device {device}"] = lambda step=executor.step: step(input=chunks[30])
    state = np.zeros((2, 1, 128), np.float32)
    given = {"input": chunks[30], "state": state, "sr": np.array(16_000, np.int64)}
    times = agreement.fastest(calls | agreement.onnxruntime_call(path, given), repeat=5)
    synthesis = oi.Synthesizer("c", arch="host").synthesize(imported.model, imported.graph)
    runs = [synthesis.run({"input": chunks}, steps=len(chunks)) for _ in range(5)]
    times["target c, the program"] = min(run.micros for run in runs)
    agreement.print_times(times)


if __name__ == "__main__":
    sys.exit(main())
