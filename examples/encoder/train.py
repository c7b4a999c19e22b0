"""Train a transformer encoder to read digits from their patches, export it to ONNX, and import that.

For development only: `run.py` needs none of what this script does. `README.md` has the commands.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

from openinfer import importers

HERE = Path(__file__).parent
WIDTH, HEADS, LAYERS, PATCH, SIDE = 48, 4, 4, 2, 8
HELD_BACK = 360


class Layer(nn.Module):
    """Attention between all patches, then two linear layers, each after a norm and added to what it read."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        x = self.norm1(h)
        heads = [part(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)]
        seen = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        h = h + self.out(seen)
        return h + self.down(functional.gelu(self.up(self.norm2(h))))


class Encoder(nn.Module):
    """Scans [N, 1, 8, 8] of grey levels from 0 to 1, as 16 patches, to logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(torch.randn((SIDE // PATCH) ** 2, WIDTH) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, image: Tensor) -> Tensor:
        h = self.patches(image).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h).mean(dim=1))


def moved(images: Tensor) -> Tensor:
    """Return scans, each shifted by up to a pixel and rotated by up to 0.2 radians."""
    count = len(images)
    angle, shift = (torch.rand(count) - 0.5) * 0.4, (torch.rand(count, 2) - 0.5) * 2 / SIDE * 2
    rows = [torch.cos(angle), -torch.sin(angle), shift[:, 0], torch.sin(angle), torch.cos(angle), shift[:, 1]]
    grid = functional.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(images: Tensor, labels: Tensor, epochs: int, batch: int = 64) -> Encoder:
    torch.manual_seed(0)
    model = Encoder()
    steps = epochs * (len(images) // batch)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for step in range(steps):
        chosen = torch.randint(len(images), (batch,))
        loss = functional.cross_entropy(model(moved(images[chosen])), labels[chosen], label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=80)
    epochs = parser.parse_args().epochs
    torch.set_num_threads(1)
    scans = load_digits()
    # The same draw as in examples/digits.
    rest, held_back = train_test_split(np.arange(1797), test_size=HELD_BACK, random_state=0, stratify=scans.target)
    held_back = np.sort(held_back)
    images = torch.from_numpy(scans.images.astype(np.float32) / 16)[:, None]
    labels = torch.from_numpy(scans.target.astype(np.int64))
    model = train(images[rest], labels[rest], epochs)

    with torch.no_grad():
        logits = model(images[held_back]).numpy()
    print(f"{np.mean(logits.argmax(axis=1) == scans.target[held_back]):.2%} of {HELD_BACK} held-out scans")
    np.savez_compressed(HERE / "golden.npz", logits=logits)
    torch.onnx.export(
        model,
        (images[:2],),
        str(HERE / "encoder.onnx"),
        dynamo=True,
        external_data=False,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes={"image": {0: torch.export.Dim("N")}},
    )
    imported = importers.load(HERE / "encoder.onnx")
    imported.save(HERE, "encoder")
    print(imported.report)


if __name__ == "__main__":
    main()
