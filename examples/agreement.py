"""What the examples with trained models have in common: run everywhere, compare, measure, draw.

An example imports this module from the folder above its own; the folder is not a package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import openinfer as oi

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.synthesizer import Synthesis

Array = npt.NDArray[np.generic]
Step = Mapping[str, Array]

DEVICES = ("cpu", "c", "vulkan")
TARGETS = ("c", "vulkan")
ROUNDS = 40


def stepped(executor: oi.Executor, steps: Sequence[Step], output: str) -> list[Array]:
    """Run the steps, one after the other, and return what `output` holds after each."""
    found: list[Array] = []
    for step in steps:
        executor.step(**step)
        found.append(executor.fetch(output))
    return found


def largest_difference(found: Array, expected: Array) -> float:
    """Return the largest absolute difference of two arrays of one shape.

    Raises:
        ValueError: their shapes differ.
    """
    if found.shape != expected.shape:
        message = f"expected an array of shape {expected.shape}, found {found.shape}"
        raise ValueError(message)
    return float(np.max(np.abs(found.astype(np.float64) - expected.astype(np.float64))))


@dataclass
class Claims:
    """Claims that were checked, printed as they are made."""

    failed: list[str] = field(default_factory=list)

    def check(self, claim: str, *, holds: bool) -> None:
        """Print a claim, and remember it if it does not hold."""
        print(f"{'ok' if holds else 'FAILED':6} {claim}")
        if not holds:
            self.failed.append(claim)

    def near(self, claim: str, found: Array, expected: Array, most: float) -> None:
        """Check that two arrays differ by at most `most`."""
        difference = largest_difference(found, expected)
        self.check(f"{claim}: largest difference {difference:.1e}, allowed {most:.0e}", holds=difference <= most)


def on_each_device(run: Callable[[str], None], devices: Sequence[str] = DEVICES) -> None:
    """Call `run` with the name of each device; one that is not available is reported with the reason."""
    for device in devices:
        try:
            run(device)
        except oi.DeviceError as error:
            print(f"{'':6} device {device} skipped: {error}")


def on_each_target(made: Callable[[str], Synthesis], inputs: Step, steps: int) -> Iterator[tuple[str, Step]]:
    """Build and run a program for each synth target; yield the target and the stacked outputs.

    What a target needs and is not installed is reported.

    Args:
        made: returns the program for a target.
        inputs: stacked, one item a step.
    """
    for target in TARGETS:
        try:
            outputs = made(target).run(inputs, steps=steps).outputs
        except (oi.MissingDependencyError, oi.DeviceError) as problem:
            print(f"{'':6} target {target} not run: {problem}")
        else:
            yield target, outputs


def shown_sizes(plan: ExecutionPlan) -> str:
    """Return the memory that a synthesised program takes, for people."""
    return f"arena {plan.arena_nbytes:,} B, state {plan.state_nbytes:,} B, weights {plan.weights_nbytes:,} B"


def fastest(calls: Mapping[str, Callable[[], object]], *, rounds: int = ROUNDS, repeat: int = 1) -> dict[str, float]:
    """Return microseconds of each call: the shortest of many rounds in which the calls take turns.

    Args:
        repeat: calls in a round, of which the mean counts.
    """
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            times[name] = min(times[name], (time.perf_counter() - start) / repeat * 1e6)
    return times


def onnxruntime_call(path: Path, inputs: Step) -> dict[str, Callable[[], object]]:
    """Return a call that runs an ONNX file on these inputs with one thread; none where onnxruntime is not installed."""
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed, and not measured")
        return {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return {"onnxruntime": lambda: session.run(None, dict(inputs))}


def print_times(times: Mapping[str, float]) -> None:
    """Print microseconds per step by what ran it."""
    for name, micros in times.items():
        print(f"{name:24} {micros:10.1f} µs a step")


WIDTH, HEIGHT = 720, 240
COLOURS = ("#888888", "#1f6feb", "#d1495b", "#2e8b57")


def write_chart(path: Path, title: str, lines: Mapping[str, npt.NDArray[np.floating]]) -> None:
    """Write lines over a common horizontal axis as an SVG picture, with a legend."""
    values = np.concatenate(list(lines.values()))
    low, high = float(values.min()), float(values.max())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="10" y="18" font-size="12">{title}</text>',
    ]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        across = np.linspace(10, WIDTH - 10, len(line))
        down = HEIGHT - 10 - (line - low) / (high - low) * (HEIGHT - 60)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        parts.append(f'<text x="{10 + 150 * number}" y="36" font-size="12" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
