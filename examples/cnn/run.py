"""Runs MobileNetV1 0.25 and ResNet-8, in f32 and in int8, everywhere; compares with PyTorch and counts right answers.

`python run.py` needs neither PyTorch nor ONNX. `--quantise` makes the int8 programs again, `--accuracy` compares all
500 held-out images everywhere, `--time DIR` measures a step, and onnxruntime on the ONNX files that `train.py --keep
DIR` writes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from images import make

sys.path.append(str(Path(__file__).resolve().parents[1]))

import agreement

import openinfer as oi
from openinfer.quantization import Clipping, quantize
from openinfer.synth import Synthesis

HERE = Path(__file__).resolve().parent
SIDES = {"resnet8": 32, "mobilenet": 96}
HELD_BACK_SEED, HELD_BACK, CHECKED = 1_000_000, 500, 8
CALIBRATION_SEED, CALIBRATION = 2_000_000, 32
ARCHITECTURES = {"resnet8": None, "mobilenet": "host"}
"""What C is written for: the loops of MobileNet in plain C99 take compilers three times as long."""

MOST = 1e-4
"""Largest difference of f32 logits, whose magnitudes are near 10."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quantise", action="store_true", help="make the int8 programs")
    parser.add_argument("--accuracy", action="store_true", help="compare all held-out images, not the first eight")
    parser.add_argument("--time", type=Path, metavar="DIR", help="measure microseconds per step; ONNX files are here")
    options = parser.parse_args()
    claims = agreement.Claims()
    for name, side in SIDES.items():
        if options.quantise:
            make_int8(name, side)
        count = HELD_BACK if options.accuracy else CHECKED
        images, labels = make(HELD_BACK_SEED, HELD_BACK, side)
        check(name, images[:, None], labels, count, claims)
        if options.time:
            measure(name, images[:1], options.time)
    return 1 if claims.failed else 0


def make_int8(name: str, side: int) -> None:
    """Write NAME-int8.oi and NAME-int8.oinf, with scales from images of their own."""
    images, labels = make(CALIBRATION_SEED, CALIBRATION, side)
    with oi.ModelLoader.open(HERE / f"{name}.oinf") as model:
        graph = oi.load_graph(HERE / f"{name}.oi")
        made = quantize(graph, model, {"image": images}, clipping=Clipping(99.99), labels=labels)
        made.save(HERE, f"{name}-int8")
    print(made.report)


def check(name: str, images: agreement.Array, labels: agreement.Array, count: int, claims: agreement.Claims) -> None:
    """Count right answers over all images; compare f32 with PyTorch and int8 with device cpu, over `count` of them."""
    with np.load(HERE / f"{name}.npz", allow_pickle=False) as golden:
        of_pytorch = golden["logits"]
    for variant in (name, f"{name}-int8"):
        model, graph = oi.ModelLoader.open(HERE / f"{variant}.oinf"), oi.load_graph(HERE / f"{variant}.oi")
        found = logits_of(model, graph, images, "cpu")
        right = int(np.sum(found.argmax(axis=1) == labels))
        print(f"{variant}: {right} of {len(labels)} images right")
        expected = (of_pytorch if variant == name else found)[:count]

        def on_device(device: str, variant: str = variant, expected: agreement.Array = expected) -> None:
            model, graph = oi.ModelLoader.open(HERE / f"{variant}.oinf"), oi.load_graph(HERE / f"{variant}.oi")
            claims.near(f"device {device}, {variant}", logits_of(model, graph, images[:count], device), expected, MOST)

        agreement.on_each_device(on_device)

        def made(target: str, name: str = name, model: oi.Model = model, graph: oi.Graph = graph) -> Synthesis:
            return oi.Synthesizer(target, arch=ARCHITECTURES[name] if target == "c" else None).synthesize(model, graph)

        for target, outputs in agreement.on_each_target(made, {"image": images[:count]}, count):
            claims.near(f"target {target}, {variant}", outputs["logits"][:, 0], expected, MOST)
        print(f"{'':6} {variant} as C: {agreement.shown_sizes(oi.Synthesizer('c').plan(model, graph))}")


def logits_of(model: oi.Model, graph: oi.Graph, images: agreement.Array, device: str) -> agreement.Array:
    """Return the logits that a device computes, image by image."""
    executor = oi.Simulator(model, device=device).make_executor(graph)
    return np.concatenate(agreement.stepped(executor, [{"image": image} for image in images], "logits"))


def measure(name: str, image: agreement.Array, folder: Path) -> None:
    """Print microseconds of a step of one image."""
    calls = {}
    for variant in (name, f"{name}-int8"):
        model, graph = oi.ModelLoader.open(HERE / f"{variant}.oinf"), oi.load_graph(HERE / f"{variant}.oi")
        for device in agreement.DEVICES:
            try:
                executor = oi.Simulator(model, device=device).make_executor(graph)
            except oi.DeviceError:
                continue
            calls[f"{variant}, device {device}"] = lambda step=executor.step: step(image=image)
    calls |= agreement.onnxruntime_call(folder / f"{name}.onnx", {"image": image})
    agreement.print_times(agreement.fastest(calls, rounds=15))


if __name__ == "__main__":
    sys.exit(main())
