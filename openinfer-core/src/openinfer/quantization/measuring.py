"""How far a quantised program is from the one before: layer by layer, output by output, in right answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import CalibrationError
from openinfer.quantization.observing import MADE, observed
from openinfer.quantization.report import Accuracy
from openinfer.simulate import Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    import numpy.typing as npt

    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment
    from openinfer.quantization.observing import Run
    from openinfer.simulate import Executor

    Array = npt.NDArray[Any]
    Samples = Sequence[Mapping[str, Array]]
    Pair = tuple[tuple[Graph, Model], tuple[Graph, Model]]


@dataclass(frozen=True, slots=True)
class LayerRatios:
    """How far layers are from those before.

    Attributes:
        decibels: by number of a layer; of those that samples reach.
        apart: samples that are left out, by number: they run other layers than before.
    """

    decibels: Mapping[int, float]
    apart: frozenset[int]


@dataclass(slots=True)
class Power:
    """Powers of finite values; infinities and NaN that only one program computes are an infinite error."""

    signal: float = 0.0
    error: float = 0.0

    def add(self, wanted: Array, found: Array) -> None:
        wide, other = wanted.astype(np.float64), found.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(other)
        self.signal += float(np.sum(wide[finite] ** 2))
        self.error += float(np.sum((other[finite] - wide[finite]) ** 2))
        if not np.array_equal(wide[~finite], other[~finite], equal_nan=True):
            self.error = math.inf

    def include(self, other: Power) -> None:
        self.signal += other.signal
        self.error += other.error

    def decibels(self) -> float:
        if self.error == 0:
            return math.inf
        if not self.signal or math.isinf(self.error):
            return -math.inf
        return 10 * (math.log10(self.signal) - math.log10(self.error))


def ratios_of_layers(
    before: tuple[str, Model], after: tuple[str, Model], samples: Samples, environment: Environment
) -> LayerRatios:
    """Return decibels by layer, from two programs that copy what their layers make.

    Raises:
        CalibrationError: no sample runs the same layers in both.
    """
    found: dict[int, Power] = {}
    apart: set[int] = set()
    runs = (observed(text, model, samples, MADE, environment) for text, model in (before, after))
    for sample, (first, second) in enumerate(zip(*runs, strict=True)):
        powers = _powers(first, second)
        if powers is None:
            apart.add(sample)
            continue
        for number, power in powers.items():
            found.setdefault(number, Power()).include(power)
    if len(apart) == len(samples):
        message = "on every sample, the quantised program takes other branches or loop iterations than the original"
        raise CalibrationError(f"{message}; exclude the weights that determine the conditions")
    return LayerRatios({number: power.decibels() for number, power in found.items()}, frozenset(apart))


def _powers(before: Iterator[Run], after: Iterator[Run]) -> dict[int, Power] | None:
    """Return powers by layer, of one sample; None where the two run other layers."""
    found: dict[int, Power] = {}
    for first, second in zip_longest(before, after):
        if first is None or second is None or first[0] != second[0]:
            return None
        found.setdefault(first[0], Power()).add(first[2], second[2])
    return found


def output_ratios(
    pair: Pair, samples: Samples, environment: Environment, *, apart: Set[int] = frozenset()
) -> Mapping[str, float]:
    """Return decibels by output, of those that are floats, without the samples that are ``apart``."""
    found: dict[str, Power] = {}
    for sample, (before, after) in enumerate(zip(*_outputs(pair, samples, environment), strict=True)):
        for name, wanted in before.items() if sample not in apart else ():
            if np.asarray(wanted).dtype.kind not in "biu":
                found.setdefault(name, Power()).add(np.asarray(wanted), np.asarray(after[name]))
    return {name: power.decibels() for name, power in found.items()}


def accuracy_of(pair: Pair, samples: Samples, labels: Array, output: str | None, environment: Environment) -> Accuracy:
    """Return how many samples get the class that their label says.

    Raises:
        CalibrationError: there is not one label for each sample, or the output is unknown.
    """
    if labels.shape != (len(samples),) or labels.dtype.kind not in "iu":
        message = f"expected {len(samples)} integers as labels, found {labels.dtype} {list(labels.shape)}"
        raise CalibrationError(message)
    before, after = ([_class(outputs, output) for outputs in each] for each in _outputs(pair, samples, environment))
    name = before[0][0]
    right = [
        sum(found == label for (_, found), label in zip(each, labels.tolist(), strict=True)) for each in (before, after)
    ]
    return Accuracy(name, len(samples), *right)


def _outputs(pair: Pair, samples: Samples, environment: Environment) -> list[list[Mapping[str, Any]]]:
    found: list[list[Mapping[str, Any]]] = []
    for graph, model in pair:
        with Simulator(model, graph, environment=environment).make_executor() as executor:
            found.append([_after_step(executor, sample) for sample in samples])
    return found


def _after_step(executor: Executor, sample: Mapping[str, Array]) -> Mapping[str, Any]:
    executor.insert(sample)
    executor.step()
    return executor.outputs()


def _class(outputs: Mapping[str, Any], output: str | None) -> tuple[str, int]:
    """Return the name of an output, and the class that it gives: an integer, or the place of the largest number."""
    name = output if output is not None else next(iter(outputs), "")
    if name not in outputs or (output is None and len(outputs) > 1):
        raise CalibrationError(f"which output is compared with the labels? The outputs are {', '.join(outputs)}")
    value = np.asarray(outputs[name])
    return name, int(value.reshape(-1)[0]) if value.dtype.kind in "iu" else int(np.argmax(value))
