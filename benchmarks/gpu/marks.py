"""Steps of single operators on device vulkan: wall clock of the public API, compared with another checkout and PyTorch.

    python benchmarks/gpu/marks.py
    python benchmarks/gpu/marks.py --small --against ../other-checkout

Every round takes each side in turn, so that all meet the same machine; times are the least of the rounds, ratios are
of those. ``--small`` takes sizes for a software device. PyTorch is compared with where it has a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cases import Step, cases, moving, on_torch, on_vulkan

ROUNDS, SHORTEST_S = 9, 0.02
PACKAGES = ("oinf", "core", "backend-cpu", "backend-vulkan", "synth-c")


def rounds_of(step: Step) -> Callable[[], float]:
    """Return a function that takes the mean time of a step over at least `SHORTEST_S`; the first steps are taken."""
    for _ in range(3):
        start = time.perf_counter()
        step()
        took = time.perf_counter() - start
    count = max(1, round(SHORTEST_S / took))

    def once() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            step()
        return (time.perf_counter() - begin) / count

    return once


def steps_of(name: str, device: str, *, small: bool) -> Step:
    """Return a step by the name that the tables have."""
    if name.startswith(("insert", "fetch")):
        what, _, size = name.rpartition(" of ")
        return moving(device, int(size))[what]
    return on_vulkan(cases(small=small)[name], device)


def names(*, small: bool) -> list[str]:
    """Return the names of everything that is measured."""
    large = 8 << 20 if small else 256 << 20
    return [*cases(small=small), f"insert of {large}", f"fetch of {large}", f"insert, add, fetch of {16 << 10}"]


def serve(device: str, *, small: bool) -> None:
    """Answer names and empty lines: a name makes the case ready, an empty line takes one round of it."""
    once: Callable[[], float] | None = None
    for line in sys.stdin:
        name = line.strip()
        if name:
            once = rounds_of(steps_of(name, device, small=small))
        print(json.dumps(None if name or once is None else once()), flush=True)


@contextmanager
def other(checkout: Path, arguments: list[str]) -> Iterator[Callable[[str], float | None]]:
    """Run this script on the packages of another checkout; `serve` says what it does."""
    folders = os.pathsep.join(str(checkout.resolve() / f"openinfer-{name}" / "src") for name in PACKAGES)
    command = [sys.executable, __file__, "--serve", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folders, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("the other checkout has no pipes")

        def ask(line: str) -> float | None:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def sides_of(
    name: str, given: argparse.Namespace, ask: Callable[[str], float | None] | None
) -> dict[str, Callable[[], float | None]]:
    """Return a round of each side of a case."""
    found: dict[str, Callable[[], float | None]] = {
        "vulkan": rounds_of(steps_of(name, given.device, small=given.small))
    }
    if ask is not None:
        ask(name)
        found["other"] = lambda: ask("")
    case = cases(small=given.small).get(name)
    peer = None if case is None else on_torch(case)
    if peer is not None:
        found["torch"] = rounds_of(peer)
    return found


def shown(name: str, least: dict[str, float], given: argparse.Namespace) -> str:
    """Return the line of a case."""
    case = cases(small=given.small).get(name)
    nbytes = int(name.rpartition(" of ")[2]) if case is None else case.nbytes
    took = least["vulkan"]
    rate = (
        f"{case.operations / took / 1e12:7.2f} TFLOP/s"
        if case and case.operations
        else f"{nbytes / took / 1e9:7.1f} GB/s"
    )
    ratios = "".join(f"   {took / peer:6.2f} of {side}" for side, peer in least.items() if side != "vulkan")
    return f"{name:28}{took * 1e6:12.1f} us {rate}{ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--small", action="store_true", help="sizes for a software device")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--against", type=Path, help="another checkout to take turns with")
    parser.add_argument("--json", type=Path, help="where to write the least times")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.device, small=given.small)
        return
    arguments = ["--device", given.device, *(["--small"] if given.small else [])]
    found: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        ask = None if given.against is None else stack.enter_context(other(given.against, arguments))
        for name in (each for each in names(small=given.small) if given.only in each):
            sides = sides_of(name, given, ask)
            times = [{side: once() for side, once in sides.items()} for _ in range(given.rounds)]
            found[name] = {side: min(t[side] or float("inf") for t in times) for side in sides}
            print(shown(name, found[name], given), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
