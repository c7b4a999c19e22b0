"""Import damaged TFLite models: `python openinfer-core/fuzz/fuzz_tflite.py [--count N]`.

Each is one of the models of the tests, one for each operator and some with subgraphs and variables, with a few bytes
changed, cut off or repeated. It has to be imported, or refused by an error of ours, within a minute and some GiB. It
depends on the seed and its number alone: `--seed S --start K --count 1` repeats number K. Exit codes: 0 all went well,
1 something is wrong, or it ended early.
"""

from __future__ import annotations

import argparse
import collections
import random
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from openinfer import ModelImportError
from openinfer.importers import load

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "importers")]

from test_tflite_operators import CASES, built  # noqa: E402
from test_tflite_reading import mutated, small, with_code, with_subgraphs  # noqa: E402

LIMIT_S = 60
LIMIT_NBYTES = 24 << 30
"""Of address space, 16 GiB of which the reader asks for, as the largest file has them."""


def models() -> list[bytes]:
    """Return models that are whole; the last ones are drawn as often as all others."""
    cases = [built(case, Path(), scaled=scaled)[0] for case in CASES for scaled in (False, True)[: 1 + case.codes]]
    others = [small(), with_code(22)(small()), with_subgraphs()]
    return cases + others * (len(cases) // len(others))


def outcome(data: bytes, path: Path) -> str:
    """Return the code of the error that a file is refused by, or "imported".

    Raises:
        Exception: the importer failed.
    """
    path.write_bytes(data)
    try:
        load(path)
    except ModelImportError as error:
        if not str(error):
            raise
        return error.code
    return "imported"


def _late(*_: Any) -> None:
    raise TimeoutError(f"an import took more than {LIMIT_S} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_NBYTES, LIMIT_NBYTES))
    signal.signal(signal.SIGALRM, _late)
    whole, tally = models(), collections.Counter[str]()
    with tempfile.TemporaryDirectory(prefix="openinfer-") as folder:
        for number in range(options.start, options.start + options.count):
            numbers = random.Random(f"tflite/{options.seed}/{number}")  # noqa: S311 - the same files every time
            data = mutated(numbers.choice(whole), numbers, whole)
            signal.alarm(LIMIT_S)
            try:
                tally[outcome(data, Path(folder) / "damaged.tflite")] += 1
            except KeyboardInterrupt:
                print(f"ended; go on with --seed {options.seed} --start {number}")
                return 1
            except Exception:  # noqa: BLE001 - whatever it is, it is what the fuzzer looks for
                tally["wrong"] += 1
                traceback.print_exc()
                print(f"repeat with: fuzz_tflite.py --seed {options.seed} --start {number} --count 1", flush=True)
            finally:
                signal.alarm(0)
    print(", ".join(f"{count} {name}" for name, count in sorted(tally.items())))
    return int(tally["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
