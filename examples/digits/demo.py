"""Real handwritten digits, end to end: verify the model, simulate, synthesise C, compile, compare.

Run it from anywhere: ``python examples/digits/demo.py``. Exit status 0 means that every check held; a missing compiler
or GPU is reported and skipped.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import openinfer as oi
import openinfer_oinf
from openinfer.plugins.probing import probe
from openinfer_oinf.progress import advance, expect, progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

HERE = Path(__file__).resolve().parent
LEAST_ACCURACY = 0.98
MOST_DIFFERENCE = 1e-5
"""Largest difference between two runs that is accepted, relative to the largest logit."""

SOFTWARE = "  (a software device: the processor runs the shaders, so this says nothing about a GPU)"


class Answers(NamedTuple):
    """What a device made of the images: logits f32 [images, 10], digits i64 [images], seconds for all of them."""

    logits: npt.NDArray[np.float32]
    digits: npt.NDArray[np.int64]
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="write the C project here instead of a temporary folder"
    )
    options = parser.parse_args(arguments)

    openinfer_oinf.verify_oinf(HERE / "digits.oinf", file=False)
    model = oi.ModelLoader.open(HERE / "digits.oinf")
    graph = oi.load_graph(HERE / "digits.oi")
    introduce(model, graph)

    with np.load(HERE / "held_back.npz", allow_pickle=False) as held_back:
        scans, labels = held_back["images"], held_back["labels"].astype(np.int64)
    images = (scans.astype(np.float32) / 16.0)[:, None, None, :, :]

    heading(f"Simulated on cpu: {len(images)} held-out scans")
    on_cpu = simulate(model, graph, "cpu", images)
    show(scans, labels, on_cpu.digits)
    correct = int(np.sum(on_cpu.digits == labels))
    accuracy = correct / len(labels)
    print(f"accuracy       {accuracy:.2%}  ({correct} of {len(labels)})")
    print(f"time an image  {per_image(on_cpu)}")

    passed = [check(f"accuracy is at least {LEAST_ACCURACY:.0%}", holds=accuracy >= LEAST_ACCURACY)]
    passed += on_vulkan(model, graph, images, on_cpu)
    passed += in_c(model, graph, images, on_cpu, options.keep)
    return 0 if all(passed) else 1


def introduce(model: oi.Model, graph: oi.Graph) -> None:
    """Print a summary: where to find all of it, and no values."""
    heading("The model and the program")
    weights = sum(math.prod(info.shape) for info in model.tensors.values())
    print(f"digits.oinf    {len(model.tensors)} tensors of {weights:,} weights; `oinf inspect` shows them")
    print(f"digits.oi      {graph.counts()}; `openinfer graph` shows it")


def heading(text: str) -> None:
    print(f"\n== {text} ==")


def check(claim: str, *, holds: bool) -> bool:
    print(f"{'ok' if holds else 'FAILED':6} {claim}")
    return holds


def per_image(answers: Answers) -> str:
    return f"{answers.seconds / len(answers.digits) * 1e6:.1f} µs"


def simulate(model: oi.Model, graph: oi.Graph, device: str, images: npt.NDArray[np.float32]) -> Answers:
    with progress_bar(f"  preparing {device}"):
        executor = oi.Simulator(model, device=device).make_executor(graph)
    logits, digits, seconds = [], [], 0.0
    with progress_bar(f"  {device}"):
        expect(len(images))
        for image in images:
            start = time.perf_counter()
            executor.insert(image=image)
            executor.step()
            results = executor.outputs()
            seconds += time.perf_counter() - start
            logits.append(results["logits"][0])
            digits.append(results["digit"][0])
            advance(1)
    return Answers(np.array(logits), np.array(digits), seconds)


def on_vulkan(model: oi.Model, graph: oi.Graph, images: npt.NDArray[np.float32], expected: Answers) -> list[bool]:
    heading("Simulated on vulkan")
    try:
        answers = simulate(model, graph, "vulkan", images)
    except oi.DeviceError as error:
        print(f"skipped: {error}")
        return []
    detail = probe(oi.Environment.default().device("vulkan")).detail
    print(f"device         {detail}")
    print(f"time an image  {per_image(answers)}{SOFTWARE if is_software(detail) else ''}")
    return compare("vulkan", answers, expected)


def is_software(detail: str) -> bool:
    """Whether the first Vulkan device is a program on the processor, by the kind that follows its name."""
    return "(software," in detail.partition(";")[0]


def in_c(
    model: oi.Model, graph: oi.Graph, images: npt.NDArray[np.float32], expected: Answers, keep: Path | None
) -> list[bool]:
    heading("Synthesised to C")
    with progress_bar("  planning"):
        synthesis = oi.Synthesizer("c").synthesize(model, graph, sizes=model.sizevars)
    with tempfile.TemporaryDirectory(prefix="digits-") as scratch:
        folder = synthesis.emit(keep or Path(scratch) / "digits_c")
        for file in sorted(folder.iterdir()):
            print(f"  {file.name:20} {file.stat().st_size:>9,} bytes")
    heading("Memory map")
    print(synthesis.memory_map())
    heading("Compiled and run")
    try:
        with progress_bar("  compiling and running"):
            result = synthesis.run({"image": images}, steps=len(images))
    except oi.MissingDependencyError as error:
        print(f"skipped: {error}")
        return []
    answers = Answers(
        logits=result.outputs["logits"][:, 0].astype(np.float32),
        digits=result.outputs["digit"][:, 0].astype(np.int64),
        seconds=result.micros * 1e-6 * len(images),
    )
    print(f"time an image  {per_image(answers)}  (cpu simulator: {per_image(expected)})")
    return compare("C", answers, expected)


def compare(name: str, found: Answers, expected: Answers) -> list[bool]:
    difference = float(np.max(np.abs(found.logits - expected.logits)) / np.max(np.abs(expected.logits)))
    return [
        check(
            f"{name}: largest difference is {difference:.2e} of the largest logit", holds=difference <= MOST_DIFFERENCE
        ),
        check(f"{name}: identical predictions", holds=bool(np.array_equal(found.digits, expected.digits))),
    ]


def show(scans: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], digits: npt.NDArray[np.int64]) -> None:
    """Print as many scans as fit next to each other, a wrong answer among them if there is one."""
    width, gap, shades = 16, "   ", " .:-=+*#%@"
    room = max(1, (shutil.get_terminal_size().columns + len(gap)) // (width + len(gap)))
    wrong = np.flatnonzero(digits != labels)[:1]
    chosen = [*wrong, *range(6)][:room]
    for row in range(8):
        print(gap.join("".join(2 * shades[int(v) * 9 // 16] for v in scans[i][row]) for i in chosen))
    captions = [f"read {digits[i]}, is {labels[i]}" + ("  !" if digits[i] != labels[i] else "") for i in chosen]
    print(gap.join(f"{caption:{width}}" for caption in captions).rstrip())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except oi.OpenInferError as problem:
        sys.exit(f"{problem}")
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: end without a word
