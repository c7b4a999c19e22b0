"""Train MobileNetV1 0.25 and ResNet-8 on drawn images, export them to ONNX, import and quantise them.

For development only: `run.py` needs none of what this script does. `README.md` has the commands.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from images import CLASSES, make
from torch import Tensor, nn
from torch.nn import functional

from openinfer import importers

HERE = Path(__file__).parent
SIDES = {"mobilenet": 96, "resnet8": 32}
STEPS = {"mobilenet": 1200, "resnet8": 400}
BATCHES = {"mobilenet": 16, "resnet8": 32}
HELD_BACK = 500
HELD_BACK_SEED = 1_000_000


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution followed by a batch norm."""
    padding = kernel // 2
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class MobileNet(nn.Module):
    """MobileNetV1 of a quarter of the width: convolutions of single channels and of single places take turns."""

    WIDTHS = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)

    def __init__(self) -> None:
        super().__init__()
        width, layers = 8, [convolution(3, 8, 3, 2), nn.ReLU()]
        for wider, stride in zip(self.WIDTHS, self.STRIDES, strict=True):
            layers += [convolution(width, width, 3, stride, groups=width), nn.ReLU()]
            layers += [convolution(width, wider, 1), nn.ReLU()]
            width = wider
        self.features, self.head = nn.Sequential(*layers), nn.Linear(width, len(CLASSES))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.features(image).mean(dim=(2, 3)))


class Residual(nn.Module):
    """Two convolutions, added to what they read or to a convolution of it."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = convolution(inputs, outputs, 3, stride), convolution(outputs, outputs, 3)
        self.skip = convolution(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(functional.relu(self.first(x))) + self.skip(x))


class ResNet8(nn.Module):
    """The residual network of MLPerf Tiny: three pairs of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 16, 3), nn.ReLU())
        self.layers = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.head = nn.Linear(64, len(CLASSES))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.layers(self.stem(image)).mean(dim=(2, 3)))


NETWORKS = {"mobilenet": MobileNet, "resnet8": ResNet8}


def train(name: str, steps: int, batch: int) -> nn.Module:
    torch.manual_seed(0)
    model = NETWORKS[name]()
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for step in range(steps):
        images, labels = (torch.from_numpy(part) for part in make(step, batch, SIDES[name]))
        loss = functional.cross_entropy(model(images), labels, label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(f"{name}, step {step}: loss {loss.item():.3f}", flush=True)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, help="by default 400 for resnet8, 1200 for mobilenet")
    parser.add_argument("--keep", type=Path, help="keep the exported ONNX files in this folder")
    parser.add_argument("networks", nargs="*", default=[*NETWORKS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.networks:
        model = train(name, options.steps or STEPS[name], BATCHES[name])
        images, labels = make(HELD_BACK_SEED, HELD_BACK, SIDES[name])
        with torch.no_grad():
            logits = torch.cat([model(part) for part in torch.from_numpy(images).split(50)]).numpy()
        print(f"{name}: {np.mean(logits.argmax(axis=1) == labels):.1%} of {HELD_BACK} held-out images")
        np.savez_compressed(HERE / f"{name}.npz", logits=logits)
        with tempfile.TemporaryDirectory() as scratch:
            folder = options.keep or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name}.onnx"
            torch.onnx.export(
                model,
                (torch.zeros(1, 3, SIDES[name], SIDES[name]),),
                str(path),
                dynamo=True,
                external_data=False,
                input_names=["image"],
                output_names=["logits"],
            )
            imported = importers.load(path)
            imported.save(HERE, name)
            print(imported.report)


if __name__ == "__main__":
    main()
