"""How long `openinfer plugins` takes, and how much of it the interpreter and click take.

Run where openinfer-core is installed: `python benchmarks/startup.py [RUNS]`. Prints medians in seconds of whole
processes, after one unmeasured run of each, and the ratio to `python -c "import click"`, which says more than seconds
when machines differ.
"""

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import click'": ["-c", "import click"],
    "python -c 'import openinfer'": ["-c", "import openinfer"],
    "openinfer plugins": ["-m", "openinfer", "plugins"],
}


def seconds_of(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    samples: dict[str, list[float]] = {name: [] for name in COMMANDS}
    # Interleaved, so that a busy moment of the machine falls on every command alike.
    for turn in range(runs + 1):
        for name, arguments in COMMANDS.items():
            seconds = seconds_of(arguments)
            if turn:
                samples[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, median in medians.items():
        ratio = median / medians["python -c 'import click'"]
        print(f"{name:<30} {median:7.3f} s   {ratio:5.2f} x click")


if __name__ == "__main__":
    main()
