"""Generated C compared with ONNX Runtime: random weights, one thread, batch 1; ratios above 1 are slower than it.

Each form is a device file and a compiler with its flags. Results are compared first. The forms and ONNX Runtime then
take turns in one process, in many short rounds; printed are the median of each and the median of the rounds' ratios.
With ``--runs`` everything is repeated several times, and ratios are medians of the runs. ``--layers`` prints the time
of each step of the program and its share of the machine's peak instead, ``--json`` prints documents.

The time that the multiply-adds of a network in f32 alone take at the peak of the machine follows them, measured in the
same run, as a part of ONNX Runtime's least time: no schedule that carries them all out is quicker. Products with the
zeros around an image are among them, so a schedule that leaves those out may be. An idle EPYC core of the Zen 4 kind
does 118 Gop/s (12 registers of 16 lanes that advance together, `peaks.py`):

    network                   Mop at the peak, µs   ONNX Runtime, least µs   floor
    MobileNetV1 1.0 224²   1137.5            9640                    10836   0.890
    MobileNetV1 0.25 96²     15.0             127                      197   0.644
    ResNet-8                 25.0             212                      225   0.943
    DS-CNN                    5.3              45                       62   0.730

ResNet-8 takes 0.896 of ONNX Runtime's least time there, below its floor by what it leaves out at borders.

Nets of `imported_nets.py` come through the importer; `magika` is a file that `benchmarks/trained_files.py` fetches.

Run: python benchmarks/c/beside_onnxruntime.py [NET ...] [--form FORM ...] [--rounds N] [--runs N] [--layers] [--json]
(packages onnx and onnxruntime)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from forms import DEFAULT_FORMS, FORMS
from generated import Generated
from layers import print_layers
from nets import NETS, Net
from peaks import peak
from runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUND_S = 0.05
"""Seconds that one form runs before the next has its turn."""

LARGEST = {"source_nbytes": 120 * 1024, "compile_s": 5.0, "text_nbytes": 150 * 1024}
"""What a program should stay below; more is marked with an exclamation mark."""


@dataclass(frozen=True)
class Result:
    """A form of a network in one run.

    Attributes:
        median, least: microseconds of a step.
        ratio: median over the rounds of the time of a step in that of ONNX Runtime; ``least_ratio`` that of minima.
        text_nbytes: machine code without constants.
        source_nbytes: source without the numbers of weights.
    """

    form: str
    median: float
    least: float
    ratio: float
    least_ratio: float
    arena_nbytes: int
    source_nbytes: int
    text_nbytes: int
    plan_s: float
    compile_s: float


def measured(net: Net, forms: Sequence[str], rounds: int) -> list[Result]:
    """Return what one run finds: ONNX Runtime first, then each form."""
    with tempfile.TemporaryDirectory() as scratch:
        runtime = Runtime(net)
        programs = {name: Generated(net, FORMS[name], Path(scratch) / name) for name in forms}
    for name, program in programs.items():
        _check(net, program.outputs, runtime.outputs, name)
    runners: dict[str, Runtime | Generated] = {"onnxruntime": runtime, **programs}
    counts = {name: max(3, int(ROUND_S * 1e6 / min(r.run(5)))) for name, r in runners.items()}
    medians: dict[str, list[float]] = {name: [] for name in runners}
    minima = dict.fromkeys(runners, float("inf"))
    for number in range(rounds):
        for name in list(runners) if number % 2 else list(runners)[::-1]:
            times = runners[name].run(counts[name])
            medians[name].append(statistics.median(times))
            minima[name] = min(minima[name], *times)
    return [_result(name, programs.get(name), medians, minima) for name in runners]


def _result(
    name: str, program: Generated | None, medians: Mapping[str, list[float]], minima: Mapping[str, float]
) -> Result:
    return Result(
        form=name,
        median=statistics.median(medians[name]),
        least=minima[name],
        ratio=statistics.median(a / b for a, b in zip(medians[name], medians["onnxruntime"], strict=True)),
        least_ratio=minima[name] / minima["onnxruntime"],
        arena_nbytes=program.plan.arena_nbytes if program else 0,
        source_nbytes=program.source_nbytes if program else 0,
        text_nbytes=program.text_nbytes if program else 0,
        plan_s=program.plan_s if program else 0.0,
        compile_s=program.compile_s if program else 0.0,
    )


def _check(net: Net, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], form: str) -> None:
    for name, right in expected.items():
        scale = float(np.abs(right).max())
        error = float(np.abs(found[name] - right.reshape(found[name].shape)).max()) / scale
        if not error <= net.tolerance:
            raise SystemExit(f"{net.name}, {form}: {name} differs by {error:.1e} of its largest element")


def print_runs(net: Net, runs: Sequence[Sequence[Result]]) -> None:
    """Print one line per form of a network; figures other than ratios are those of the last run."""
    runtime = runs[-1][0]
    floor = f" ({_floor_us(net) / runtime.least:.3f} at the peak)" if "int" not in net.name else ""
    print(
        f"{net.name}: onnxruntime {runtime.median:.1f} µs (least {runtime.least:.1f}),"
        f" {net.multiply_adds} multiply-adds{floor}"
    )
    for number, last in enumerate(runs[-1][1:], 1):
        every = sorted(run[number].ratio for run in runs)
        span = f", runs {every[0]:.3f} to {every[-1]:.3f}" if len(runs) > 1 else ""
        print(
            f"  {last.form:9} {last.median:9.1f} µs (least {last.least:.1f})"
            f"  ratio {statistics.median(every):.3f} (of the least {last.least_ratio:.3f}{span})"
            f"  arena {last.arena_nbytes}  source {last.source_nbytes / 1024:.0f} KB{_large(last, 'source_nbytes')}"
            f"  text {last.text_nbytes / 1024:.0f} KB{_large(last, 'text_nbytes')}"
            f"  plan {last.plan_s:.2f} s  cc {last.compile_s:.1f} s{_large(last, 'compile_s')}",
            flush=True,
        )


def _floor_us(net: Net) -> float:
    """Return the microseconds that the multiply-adds of a network take in f32 at the peak of this machine."""
    with tempfile.TemporaryDirectory() as scratch:
        return 2 * net.multiply_adds / peak(Path(scratch) / "peaks", 4096).operations


def _large(result: Result, key: str) -> str:
    return "!" if getattr(result, key) > LARGEST[key] else ""


def _document(net: Net, runs: Sequence[Sequence[Result]]) -> dict[str, object]:
    ratios = {
        result.form: statistics.median(run[number].ratio for run in runs) for number, result in enumerate(runs[0])
    }
    every = [[asdict(result) for result in run] for run in runs]
    return {"net": net.name, "multiply_adds": net.multiply_adds, "ratios": ratios, "runs": every}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("nets", nargs="*", metavar="NET", help=f"of {', '.join(NETS)}; all by default")
    parser.add_argument("--form", action="append", choices=FORMS, help=f"by default {', '.join(DEFAULT_FORMS)}")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--runs", type=int, default=1, help="measure everything anew so often; ratios are medians")
    parser.add_argument("--layers", action="store_true", help="the time of each step instead")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    for name in given.nets:
        if name not in NETS:
            parser.error(f"no network {name!r}: there are {', '.join(NETS)}")
    documents: list[object] = []
    # Text goes elsewhere where the document is the output.
    with contextlib.redirect_stdout(sys.stderr if given.json else sys.stdout):
        print(f"{_processor()}, {os.cpu_count()} cores")
        for name in given.nets or NETS:
            net = NETS[name]()
            if given.layers:
                for form in given.form or ("vector",):
                    with tempfile.TemporaryDirectory() as scratch:
                        documents.append(print_layers(net, form, FORMS[form], Path(scratch)))
                continue
            runs = [measured(net, given.form or DEFAULT_FORMS, given.rounds) for _ in range(given.runs)]
            print_runs(net, runs)
            documents.append(_document(net, runs))
    if given.json:
        print(json.dumps({"processor": _processor(), "nets": documents}, indent=1))


if __name__ == "__main__":
    main()
