"""Train the digit recogniser on scikit-learn's 8x8 scans and write `digits.oinf` and `held_back.npz`.

Development only: nothing in the repository needs this script to run, and its libraries (PyTorch,
scikit-learn) are not a dependency of any package. The `README.md` in this folder gives the commands and figures.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

from openinfer_oinf import ScalarValue, SizeVar, TensorSpec, write_oinf

Images = npt.NDArray[np.uint8]  # [N, 8, 8], grey levels 0..16
Labels = npt.NDArray[np.uint8]  # [N], digits 0..9

GREY_LEVELS = 16
CHANNELS = 24
LAYERS = 2
CLASSES = 10
SIDE = 8
POOLED = SIDE // 2
HELD_BACK = 360
HELD_BACK_SEED = 0
VALIDATION = 240


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training settings, chosen on the validation images alone."""

    seed: int = 7
    epochs: int = 60
    batch: int = 64
    learning_rate: float = 4e-3
    weight_decay: float = 1e-2
    rotation: float = 0.20  # radians, largest angle either way
    shift: float = 1.0  # pixels, largest offset either way


@dataclass(frozen=True)
class Samples:
    """Scans with their digits."""

    images: Images
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: npt.NDArray[np.intp]) -> Samples:
        return Samples(self.images[index], self.labels[index])

    def scaled(self) -> Tensor:
        """Return the scans as f32 `[N, 1, 8, 8]` in 0..1, as the program expects them."""
        return torch.from_numpy(self.images.astype(np.float32) / GREY_LEVELS).unsqueeze(1)

    def targets(self) -> Tensor:
        return torch.from_numpy(self.labels.astype(np.int64))


class DigitNet(nn.Module):
    """A stem, `LAYERS` residual 3x3 convolutions of equal shape, one pooling and one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(LAYERS))
        self.head = nn.Linear(CHANNELS * POOLED * POOLED, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Map `[N, 1, 8, 8]` to logits `[N, 10]`."""
        h = functional.relu(self.stem(image))
        for layer in self.layers:
            h = functional.relu(layer(h) + h)
        return self.head(functional.max_pool2d(h, 2).flatten(1))


def split(samples: Samples, size: int, seed: int) -> tuple[Samples, Samples]:
    """Part `size` samples from the rest, each digit in proportion."""
    rest, part = train_test_split(np.arange(len(samples)), test_size=size, random_state=seed, stratify=samples.labels)
    return samples.take(rest), samples.take(np.sort(part))


def load_samples() -> Samples:
    bunch = load_digits()
    return Samples(bunch.images.astype(np.uint8), bunch.target.astype(np.uint8))


def augment(images: Tensor, recipe: Recipe, generator: torch.Generator) -> Tensor:
    """Turn and shift every scan by its own small random amount; what leaves the frame is lost."""
    count = len(images)
    angle = (torch.rand(count, generator=generator) * 2 - 1) * recipe.rotation
    # affine_grid measures the frame from -1 to 1, so that one pixel is 2 / SIDE.
    offset = (torch.rand(count, 2, generator=generator) * 2 - 1) * recipe.shift * 2 / SIDE
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=1).view(count, 2, 2)
    grid = functional.affine_grid(
        torch.cat([turn, offset.unsqueeze(2)], dim=2), list(images.shape), align_corners=False
    )
    return functional.grid_sample(images, grid, align_corners=False)


def train(samples: Samples, recipe: Recipe) -> DigitNet:
    """Train a fresh network; equal samples and recipe give equal weights on one machine."""
    torch.manual_seed(recipe.seed)
    generator = torch.Generator().manual_seed(recipe.seed)
    net = DigitNet()
    images, targets = samples.scaled(), samples.targets()
    steps = -(-len(samples) // recipe.batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.learning_rate, epochs=recipe.epochs, steps_per_epoch=steps
    )
    for _ in range(recipe.epochs):
        for index in torch.randperm(len(samples), generator=generator).split(recipe.batch):
            logits = net(augment(images[index], recipe, generator))
            loss = functional.cross_entropy(logits, targets[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


@torch.no_grad()
def count_correct(net: DigitNet, samples: Samples) -> int:
    return int((net(samples.scaled()).argmax(dim=1) == samples.targets()).sum())


@dataclass(kw_only=True)
class DigitModel:
    """What `digits.oinf` holds: the sizes that the program names, the tensors and how they came about."""

    N: SizeVar = field(default_factory=lambda: SizeVar(1))
    S: SizeVar = field(default_factory=lambda: SizeVar(SIDE))
    P: SizeVar = field(default_factory=lambda: SizeVar(POOLED))
    C: SizeVar = field(default_factory=lambda: SizeVar(CHANNELS))
    L: SizeVar = field(default_factory=lambda: SizeVar(LAYERS))
    K: SizeVar = field(default_factory=lambda: SizeVar(CLASSES))
    tensors: dict[str, TensorSpec]
    metadata: dict[str, object]


def to_array(parameter: Tensor) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(parameter.detach().numpy(), dtype=np.float32)


def export_tensors(net: DigitNet) -> dict[str, TensorSpec]:
    """Name the weights as the program does; the head becomes `[inputs, classes]`, as `linear` reads it."""
    arrays = {
        "stem.w": to_array(net.stem.weight),
        "stem.b": to_array(net.stem.bias),
        "head.w": to_array(net.head.weight.T),
        "head.b": to_array(net.head.bias),
    }
    for number, layer in enumerate(net.layers):
        arrays[f"conv.w.{number}"] = to_array(layer.weight)
        arrays[f"conv.b.{number}"] = to_array(layer.bias)
    return {name: TensorSpec(array) for name, array in arrays.items()}


def describe(net: DigitNet, trained_on: Samples, held_back: Samples, recipe: Recipe) -> dict[str, object]:
    train_correct, held_correct = count_correct(net, trained_on), count_correct(net, held_back)
    return {
        "model.name": "digits-residual-cnn",
        "data.source": "sklearn.datasets.load_digits",
        "classes": np.arange(CLASSES, dtype=np.int64),
        "image.grey_levels": ScalarValue(GREY_LEVELS, "u32"),
        "train.images": ScalarValue(len(trained_on), "u32"),
        "train.seed": ScalarValue(recipe.seed, "u32"),
        "train.epochs": ScalarValue(recipe.epochs, "u32"),
        "train.accuracy": ScalarValue(train_correct / len(trained_on), "f32"),
        "held_back.images": ScalarValue(len(held_back), "u32"),
        "held_back.seed": ScalarValue(HELD_BACK_SEED, "u32"),
        "held_back.correct": ScalarValue(held_correct, "u32"),
        "held_back.accuracy": ScalarValue(held_correct / len(held_back), "f32"),
    }


def validate(rest: Samples, recipe: Recipe, draws: int) -> None:
    """Measure the recipe on validation images, each draw with a split and starting weights of its own."""
    for draw in range(draws):
        training, validation = split(rest, VALIDATION, seed=draw)
        net = train(training, replace(recipe, seed=draw))
        print(f"draw {draw}: {count_correct(net, validation)} of {len(validation)} validation images right")


def write_artefacts(folder: Path, rest: Samples, held_back: Samples, recipe: Recipe) -> None:
    net = train(rest, recipe)
    metadata = describe(net, rest, held_back, recipe)
    write_oinf(DigitModel(tensors=export_tensors(net), metadata=metadata), folder / "digits.oinf")
    np.savez_compressed(folder / "held_back.npz", images=held_back.images, labels=held_back.labels)
    parameters = sum(parameter.numel() for parameter in net.parameters())
    print(f"{parameters} parameters, {(folder / 'digits.oinf').stat().st_size} bytes")
    for samples, name in ((rest, "training"), (held_back, "held-out")):
        print(f"{count_correct(net, samples)} of {len(samples)} {name} images right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder for the artefacts")
    parser.add_argument("--validate", type=int, metavar="DRAWS", help="only measure on validation images")
    arguments = parser.parse_args()
    # One thread: sums over a varying number of threads would differ in their last bits from run to run.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    rest, held_back = split(load_samples(), HELD_BACK, HELD_BACK_SEED)
    if arguments.validate is not None:
        validate(rest, Recipe(), arguments.validate)
        return
    write_artefacts(arguments.output, rest, held_back, Recipe())


if __name__ == "__main__":
    main()
