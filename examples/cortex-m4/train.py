"""Trains DS-CNN and MobileNetV1 0.25, as in MLPerf Tiny, and writes keyword.tflite and person.tflite in int8.

    python train.py

For development only: it needs PyTorch, tflite and flatbuffers. The files `keyword.npz` and `person.npz` have inputs
that training never saw, and what they show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sounds_and_pictures import BANDS, FRAMES, SIDE, WORDS, pictures, spectrograms
from tflite_file import Layer, tflite_bytes
from torch import Tensor, nn
from torch.nn import functional

HERE = Path(__file__).parent
SAME, VALID, RELU = 0, 1, 1
"""Codes of TFLite: margins of zeros or none, and the activation."""


@dataclass(frozen=True)
class Convolution:
    """A layer of a network: filters of ``rows`` x ``columns``; ``channels`` 0: one filter for each channel."""

    channels: int
    rows: int = 1
    columns: int = 1
    stride: int = 1


DS_CNN = (Convolution(64, 10, 4, 2), *(Convolution(0, 3, 3), Convolution(64)) * 4)
_PAIRS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
MOBILENET = (
    Convolution(8, 3, 3, 2),
    *(layer for width, stride in _PAIRS for layer in (Convolution(0, 3, 3, stride), Convolution(width))),
)


class Block(nn.Module):
    """A convolution with TFLite's margins, a batch norm and a ReLU."""

    def __init__(self, inputs: int, part: Convolution) -> None:
        super().__init__()
        self.part, outputs = part, part.channels or inputs
        groups = 1 if part.channels else inputs
        self.convolution = nn.Conv2d(inputs, outputs, (part.rows, part.columns), part.stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, images: Tensor) -> Tensor:
        margins: list[int] = []
        for extent, size in ((images.shape[3], self.part.columns), (images.shape[2], self.part.rows)):
            total = max((-(-extent // self.part.stride) - 1) * self.part.stride + size - extent, 0)
            margins += [total // 2, total - total // 2]
        return functional.relu(self.norm(self.convolution(functional.pad(images, margins))))

    def folded(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight as TFLite orders it, with the factors of the norm, and the bias."""
        norm = self.norm
        factor = (norm.weight / torch.sqrt(norm.running_var + norm.eps)).detach().numpy()
        bias = norm.bias.detach().numpy() - factor * norm.running_mean.numpy()
        weight = self.convolution.weight.detach().numpy() * factor[:, None, None, None]
        return weight.transpose((0, 2, 3, 1) if self.part.channels else (1, 2, 3, 0)), bias


class Network(nn.Module):
    """Blocks, the mean over all pixels, and a dense layer."""

    def __init__(self, channels: int, parts: tuple[Convolution, ...], classes: int) -> None:
        super().__init__()
        blocks: list[Block] = []
        for part in parts:
            blocks.append(Block(channels, part))
            channels = part.channels or channels
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        for block in self.blocks:
            images = block(images)
        return self.head(images.mean((2, 3)))


def trained(network: Network, draw: Callable[[int, int], tuple[Tensor, Tensor]], steps: int, batch: int) -> Network:
    """Train a network; ``draw`` returns images and labels for a count and a seed."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=4e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for step in range(steps):
        images, labels = draw(batch, 1000 + step)
        loss = functional.cross_entropy(network(images), labels, label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def codes(values: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    return np.clip(np.rint(values / scale), -127, 127).astype(np.int8)


@torch.no_grad()
def quantised(network: Network, images: Tensor, scale: float) -> list[Layer]:
    """Return the layers of a network for an input with a scale; ranges of activations are those of some images."""
    layers: list[Layer] = []
    for block in network.blocks:
        part, (weight, bias) = block.part, block.folded()
        images = block(images)
        axis = 0 if part.channels else 3
        weight_scale = np.abs(weight).max(tuple(place for place in range(4) if place != axis)) / 127
        shaped = weight_scale[:, None, None, None] if part.channels else weight_scale
        bias_scale = scale * weight_scale
        scale = float(np.percentile(images.numpy(), 99.95)) / 255
        options = {"Padding": SAME, "StrideH": part.stride, "StrideW": part.stride, "FusedActivationFunction": RELU}
        options |= {"DilationHFactor": 1, "DilationWFactor": 1} | ({} if part.channels else {"DepthMultiplier": 1})
        kind = ("CONV_2D", "Conv2DOptions") if part.channels else ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions")
        weights = (codes(weight, shaped), weight_scale, axis)
        biases = (np.rint(bias / bias_scale).astype(np.int32), bias_scale, 0)
        shape = (1, images.shape[2], images.shape[3], images.shape[1])
        layers.append(Layer(kind[0], (kind[1], options), shape, scale, -128, (weights, biases)))
    return [*layers, *_head(network, images, scale)]


def _head(network: Network, images: Tensor, scale: float) -> list[Layer]:
    """Return the mean over all pixels, the dense layer and a softmax."""
    _, channels, rows, columns = images.shape
    weight, bias = network.head.weight.numpy(), network.head.bias.numpy()
    classes, weight_scale = len(bias), float(np.abs(weight).max()) / 127
    logit_scale = float(network.head(images.mean((2, 3))).abs().max()) / 127
    pool = {"Padding": VALID, "StrideH": rows, "StrideW": columns, "FilterHeight": rows, "FilterWidth": columns}
    biases = (np.rint(bias / (scale * weight_scale)).astype(np.int32), scale * weight_scale, 0)
    stored = ((codes(weight, weight_scale), weight_scale, 0), biases)
    return [
        Layer("AVERAGE_POOL_2D", ("Pool2DOptions", pool), (1, 1, 1, channels), scale, -128),
        Layer("FULLY_CONNECTED", ("FullyConnectedOptions", {}), (1, classes), logit_scale, 0, stored),
        Layer("SOFTMAX", ("SoftmaxOptions", {"Beta": 1.0}), (1, classes), 1 / 256, -128),
    ]


def sounds(count: int, seed: int) -> tuple[Tensor, Tensor]:
    drawn, words = spectrograms(count, seed)
    return torch.from_numpy(drawn)[:, None], torch.from_numpy(words)


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    drawn, figures = pictures(count, seed)
    return torch.from_numpy(drawn).permute(0, 3, 1, 2).float() / 255, torch.from_numpy(figures)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    scale, network = 1 / 127, trained(Network(1, DS_CNN, WORDS), sounds, 300, 64)
    layers = quantised(network, sounds(500, 1)[0], scale)
    (HERE / "keyword.tflite").write_bytes(tflite_bytes((1, FRAMES, BANDS, 1), scale, 0, layers, "keyword"))
    heard, said = spectrograms(64, 2)
    np.savez_compressed(HERE / "keyword.npz", inputs=codes(heard[..., None], scale), labels=said.astype(np.int8))

    scale, network = 1 / 255, trained(Network(3, MOBILENET, 2), scenes, 500, 32)
    layers = quantised(network, scenes(200, 1)[0], scale)
    (HERE / "person.tflite").write_bytes(tflite_bytes((1, SIDE, SIDE, 3), scale, -128, layers, "person"))
    seen, figures = pictures(16, 2)
    inputs = (seen.astype(np.int16) - 128).astype(np.int8)
    np.savez_compressed(HERE / "person.npz", inputs=inputs, labels=figures.astype(np.int8))


if __name__ == "__main__":
    main()
