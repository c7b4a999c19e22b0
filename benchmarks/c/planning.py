"""How long planning and emission of generated C take: ResNet-8, MobileNetV1, and a graph of 10,000 operators.

Each is planned for the default device and for this machine. Printed are the processor's seconds of the first time in
this process and the least of the repeats, for planning and for emission, and the size of the source. The aims are 0.3 s
for ResNet-8 and 8 s for the large graph.

Run: python benchmarks/c/planning.py [--repeats N] (package onnx)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from nets import autoencoder, mobilenet, resnet8

import openinfer as oi

NODES = 10_000
OPERATORS = (
    "op add(y, x) >> y;",
    "op mul(y, x) >> y;",
    "op softmax(y) >> y;",
    "op linear(y, w) >> y;",
    "op gelu(y) >> y;",
)

Program = tuple[oi.Model, str]


def large() -> Program:
    """Return a chain of operators, each of which reads the result of the one before."""
    statements = " ".join(OPERATORS[number % len(OPERATORS)] for number in range(NODES))
    variables = "dynamic { x: f32[1, 4]; } volatile { y: f32[1, 4]; w: f32[4, 4]; }"
    return oi.Model.from_arrays({}), f"{variables} block entry {{ {statements} return y; }}"


def of_net(net: Callable[..., object]) -> Callable[[], Program]:
    def program() -> Program:
        made = net()
        return oi.Model.from_arrays(made.weights), made.program

    return program


PROGRAMS: dict[str, Callable[[], Program]] = {
    "ResNet-8": of_net(resnet8),
    "MobileNetV1": of_net(mobilenet),
    f"{NODES} operators": large,
}


def timed(synthesizer: oi.Synthesizer, program: Program) -> tuple[float, int]:
    started = time.process_time()
    synthesis = synthesizer.synthesize(*program)
    return time.process_time() - started, len(synthesis.bundle.files["model.c"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    for arch in (None, "host"):
        synthesizer = oi.Synthesizer("c", arch=arch)
        # What a process imports once is not part of any figure.
        warm = autoencoder()
        synthesizer.synthesize(oi.Model.from_arrays(warm.weights), warm.program)
        for name, make in PROGRAMS.items():
            program = make()
            first, nbytes = timed(synthesizer, program)
            least = min(timed(synthesizer, program)[0] for _ in range(repeats))
            print(
                f"{name:16} {arch or 'default':8} first {first:6.2f} s  least {least:6.2f} s  {nbytes / 1024:8.0f} KB",
                flush=True,
            )


if __name__ == "__main__":
    main()
