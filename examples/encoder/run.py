"""Runs the imported encoder over held-out digits everywhere, and compares with PyTorch.

`python run.py` needs neither PyTorch nor ONNX. `--time` measures a step, and onnxruntime where it is installed;
`--picture` draws `sure.svg`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

import agreement

import openinfer as oi
from openinfer.synth import Synthesis

HERE = Path(__file__).resolve().parent
SCANS = HERE.parent / "digits" / "held_back.npz"
MOST = 1e-4
"""Largest difference of logits, whose magnitudes are near 10."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", action="store_true", help="measure microseconds per step")
    parser.add_argument("--picture", action="store_true", help="draw sure.svg")
    options = parser.parse_args()
    with np.load(SCANS, allow_pickle=False) as scans, np.load(HERE / "golden.npz", allow_pickle=False) as golden:
        images, labels = scans["images"][:, None, None].astype(np.float32) / 16, scans["labels"]
        expected = golden["logits"]
    model, graph = oi.ModelLoader.open(HERE / "encoder.oinf"), oi.load_graph(HERE / "encoder.oi")
    wanted = int(np.sum(expected.argmax(axis=1) == labels))
    print(f"PyTorch reads {wanted} of {len(labels)} held-out scans right")
    claims = agreement.Claims()

    def on_device(device: str) -> None:
        executor = oi.Simulator(model, device=device).make_executor(graph)
        executor.step(image=images[:, 0])
        found = executor.fetch("logits")
        claims.near(f"device {device}, all scans in one step", found, expected, MOST)
        right = int(np.sum(found.argmax(axis=1) == labels))
        claims.check(f"device {device}, {right} scans right, as many as in PyTorch", holds=right == wanted)

    agreement.on_each_device(on_device)

    def made(target: str) -> Synthesis:
        return oi.Synthesizer(target).synthesize(model, graph, sizes={"N": 1})

    for target, outputs in agreement.on_each_target(made, {"image": images}, len(images)):
        claims.near(f"target {target}, scan by scan", outputs["logits"][:, 0], expected, MOST)
    print(agreement.shown_sizes(made("c").plan))
    if options.picture:
        powers = np.exp(expected - expected.max(axis=1, keepdims=True))
        shares = (powers / powers.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels]
        lines = {"probability of the right digit": np.sort(shares)}
        agreement.write_chart(
            HERE / "sure.svg", "How sure the encoder is of the right digit, scan by scan, sorted", lines
        )
    if options.time:
        measure(model, graph, images)
    return 1 if claims.failed else 0


def measure(model: oi.Model, graph: oi.Graph, images: agreement.Array) -> None:
    """Print microseconds of a step of one scan."""
    calls = {}
    for device in agreement.DEVICES:
        try:
            executor = oi.Simulator(model, device=device, sizes={"N": 1}).make_executor(graph)
        except oi.DeviceError:
            continue
        calls[f"device {device}"] = lambda step=executor.step: step(image=images[0])
    times = agreement.fastest(calls | agreement.onnxruntime_call(HERE / "encoder.onnx", {"image": images[0]}))
    synthesis = oi.Synthesizer("c", arch="host").synthesize(model, graph, sizes={"N": 1})
    runs = [synthesis.run({"image": images}, steps=len(images)) for _ in range(3)]
    times["target c, the program"] = min(run.micros for run in runs)
    agreement.print_times(times)


if __name__ == "__main__":
    sys.exit(main())
