"""Runs the imported GRU over a whole series and value by value, everywhere, and compares with PyTorch.

`python run.py` needs neither PyTorch nor ONNX. `--time` measures a step, and onnxruntime where it is installed;
`--picture` draws `forecast.svg`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import openinfer as oi
from openinfer.synth import Synthesis

sys.path.append(str(Path(__file__).resolve().parents[1]))

import agreement

HERE = Path(__file__).resolve().parent
MOST = 1e-5
"""Largest difference of forecasts, whose magnitudes are near 1."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", action="store_true", help="measure microseconds per step")
    parser.add_argument("--picture", action="store_true", help="draw forecast.svg")
    options = parser.parse_args()
    with np.load(HERE / "held_back.npz", allow_pickle=False) as held_back:
        series, expected, state = (held_back[name] for name in ("series", "forecast", "state"))
    model, graph = oi.ModelLoader.open(HERE / "gru.oinf"), oi.load_graph(HERE / "gru.oi")
    claims = agreement.Claims()

    error = np.sqrt(np.mean((expected[:-1] - series[1:]) ** 2))
    repeated = np.sqrt(np.mean((series[:-1] - series[1:]) ** 2))
    print(f"{len(series)} values; root mean squared error {error:.3f}, of repeating the last value {repeated:.3f}")

    def on_device(device: str) -> None:
        # One program, one executor: the length of `x` may differ from step to step.
        executor = oi.Simulator(model, device=device).make_executor(graph)
        executor.step(x=series)
        claims.near(f"device {device}, whole sequence", executor.fetch("forecast"), expected, MOST)
        claims.near(f"device {device}, state after it", executor.fetch("h"), state, MOST)
        executor.reset()
        values = agreement.stepped(executor, [{"x": value[None]} for value in series], "forecast")
        claims.near(f"device {device}, value by value", np.concatenate(values), expected, MOST)

    agreement.on_each_device(on_device)

    def made(target: str) -> Synthesis:
        return oi.Synthesizer(target).synthesize(model, graph, sizes={"T": 1})

    for target, outputs in agreement.on_each_target(made, {"x": series[:, None]}, len(series)):
        claims.near(f"target {target}, value by value", outputs["forecast"][:, 0], expected, MOST)
    print(agreement.shown_sizes(made("c").plan))

    if options.picture:
        lines = {"held out": series[1:, 0, 0], "forecast": expected[:-1, 0, 0]}
        agreement.write_chart(HERE / "forecast.svg", "One series, and what the step before said of each value", lines)
    if options.time:
        measure(model, graph, series)
    return 1 if claims.failed else 0


def measure(model: oi.Model, graph: oi.Graph, series: np.ndarray) -> None:
    """Print microseconds of a step of one value."""
    x = series[:1]
    calls = {}
    for device in agreement.DEVICES:
        try:
            executor = oi.Simulator(model, device=device, sizes={"T": 1}).make_executor(graph)
        except oi.DeviceError:
            continue
        calls[f"device {device}"] = lambda run=executor.step: run(x=x)
    calls |= agreement.onnxruntime_call(HERE / "gru.onnx", {"x": x, "h": np.zeros((1, 1, 32), np.float32)})
    synthesis = oi.Synthesizer("c", arch="host").synthesize(model, graph, sizes={"T": 1})
    times = agreement.fastest(calls, repeat=20)
    times["target c, the program"] = min(
        synthesis.run({"x": series[:, None]}, steps=len(series)).micros for _ in range(5)
    )
    agreement.print_times(times)


if __name__ == "__main__":
    sys.exit(main())
