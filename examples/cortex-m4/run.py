"""Runs keyword.tflite and person.tflite on a Cortex-M4 that QEMU emulates, on inputs that training never saw.

    python run.py [COUNT]

Every output is compared with that of device cpu, bit for bit. The script needs the packages openinfer-core[tflite],
openinfer-backend-cpu and openinfer-synth-c, and Debian's gcc-arm-none-eabi, libnewlib-arm-none-eabi and
qemu-system-arm.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import openinfer as oi
from openinfer import importers

HERE = Path(__file__).parent


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    for name in ("keyword", "person"):
        imported = importers.load(HERE / f"{name}.tflite")
        drawn = np.load(HERE / f"{name}.npz")
        inputs, labels = drawn["inputs"][:count], drawn["labels"][:count]
        stacked = inputs[:, None]
        synthesis = oi.Synthesizer("c", arch="cortex-m4").synthesize(imported.model, imported.graph)
        result = synthesis.run({"input": stacked}, steps=len(inputs))
        if result.board is None:
            print(f"skipped: {result.instead}")
            return
        with oi.Simulator(imported.model, imported.graph).make_executor() as executor:
            for image, output in zip(stacked, result.outputs["output"], strict=True):
                executor.step(input=image)
                if not np.array_equal(np.asarray(executor.fetch("output")), output):
                    raise SystemExit(f"{name}: the board and device cpu differ")
        board = result.board
        right = int((result.outputs["output"][:, 0].argmax(1) == labels).sum())
        ram = sum(use.linked_nbytes for use in board.memories if use.name != "weights") + board.stack_nbytes
        print(
            f"{name}: {right} of {len(labels)} right, equal to device cpu; {board.instructions:,.0f} instructions, "
            f"{ram:,} bytes of RAM ({board.stack_nbytes} of stack), {board.code_nbytes:,} of code, "
            f"{synthesis.plan.weights_nbytes:,} of weights; {board.board}, {board.compiler}"
        )


if __name__ == "__main__":
    main()
