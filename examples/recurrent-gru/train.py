"""Train a GRU to forecast a series, export it to ONNX, and import that: writes the other files of this folder.

For development only: `run.py` needs none of what this script does. `README.md` has the commands.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from openinfer import importers

HERE = Path(__file__).parent
HIDDEN = 32
LENGTH = 96
"""Values of a series in training; the held-out one is four times as long."""


def make_series(rng: np.random.Generator, count: int, length: int) -> np.ndarray:
    """Return series f32 [length, count, 1]: two waves of random frequency, phase and amplitude, and noise of 0.05."""
    time = np.arange(length)[:, None]
    total = np.zeros((length, count))
    for slowest, fastest in ((0.05, 0.15), (0.2, 0.5)):
        frequency = rng.uniform(slowest, fastest, count)
        total += rng.uniform(0.3, 0.7, count) * np.sin(frequency * time + rng.uniform(0, 2 * np.pi, count))
    return (total + rng.normal(0, 0.05, total.shape))[:, :, None].astype(np.float32)


class Forecaster(nn.Module):
    """A GRU and a linear layer: each value of a series in, a forecast of the next one out."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(1, HIDDEN)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Map values [T, N, 1] and a state [1, N, H] to forecasts [T, N, 1] and the next state."""
        states, hn = self.gru(x, h)
        return self.head(states), hn


def train(steps: int) -> Forecaster:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = Forecaster()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for step in range(steps):
        series = torch.from_numpy(make_series(rng, 64, LENGTH))
        forecast, _ = model(series[:-1], torch.zeros(1, 64, HIDDEN))
        loss = (forecast - series[1:]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: mean squared error {loss.item():.5f}")
    return model.eval()


def export(model: Forecaster) -> None:
    """Write `gru.onnx`, whose input `x` may be of any length."""
    path = HERE / "gru.onnx"
    torch.onnx.export(
        model,
        (torch.zeros(4, 1, 1), torch.zeros(1, 1, HIDDEN)),
        str(path),
        dynamo=True,
        # PyTorch 2.13 annotates what a GRU returns with the length of the example, and its optimiser believes that.
        optimize=False,
        external_data=False,
        input_names=["x", "h"],
        output_names=["forecast", "hn"],
        dynamic_shapes={"x": {0: torch.export.Dim("T")}, "h": {}},
    )
    exported = onnx.load(path)
    exported.graph.ClearField("value_info")
    exported.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "T"
    onnx.save(exported, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    model = train(steps)

    series = make_series(np.random.default_rng(1), 1, 4 * LENGTH)
    with torch.no_grad():
        forecast, state = model(torch.from_numpy(series), torch.zeros(1, 1, HIDDEN))
    np.savez_compressed(HERE / "held_back.npz", series=series, forecast=forecast.numpy(), state=state.numpy())

    export(model)
    imported = importers.load(HERE / "gru.onnx")
    imported.save(HERE, "gru")
    print(imported.report)


if __name__ == "__main__":
    main()
