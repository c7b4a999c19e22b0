"""Plant each fault of `tests/faults.toml` in a copy of the tree, and check that the test named there fails.

`python .ci/faults.py [WORDS]` does so for all faults, or those whose file or test has one of the words in its name. The
five distributions have to be installed with what their tests need; the modules that run are those of the copy.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = "tests/faults.toml"
LIMIT_S = 600
"""Seconds of one test, on busy machines too; a fault that lets it run forever is caught."""

PASSED, FAILED = 0, 1
"""Exit codes of pytest; others say that nothing was tested."""


def main(words: Sequence[str]) -> int:
    faults = [
        fault
        for fault in tomllib.loads((ROOT / LIST).read_text("utf-8"))["fault"]
        if not words or any(word in fault["file"] + fault["test"] for word in words)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        copy_tree(tree)
        code, printed = tested(tree, sorted({fault["test"] for fault in faults}))
        if code != PASSED:
            print(f"without any fault, tests end with {code}:\n{printed}")
            return 1
        missed = [fault for fault in faults if not is_caught(tree, fault)]
    print(f"{len(faults)} faults, {len(faults) - len(missed)} caught")
    return 1 if missed else 0


def copy_tree(tree: Path) -> None:
    """Copy what git tracks, with the changes of the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())


def is_caught(tree: Path, fault: Mapping[str, str]) -> bool:
    """Plant a fault, run its test, and take the fault out again."""
    file = tree / fault["file"]
    right = file.read_text("utf-8")
    if right.count(fault["right"]) != 1:
        message = f"{LIST}: {fault['right']!r} is not in {fault['file']} once"
        raise ValueError(message)
    file.write_text(right.replace(fault["right"], fault["wrong"]), "utf-8")
    code, printed = tested(tree, [fault["test"]])
    file.write_text(right, "utf-8")
    caught = code == FAILED
    print(f"{'caught' if caught else 'MISSED'}  {fault['file']}: {fault['wrong']}", flush=True)
    if code not in (PASSED, FAILED):
        print(f"{fault['test']} ends with {code}:\n{printed}")
    return caught


def tested(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of pytest, and what it printed."""
    sources = [str(folder) for folder in sorted(tree.glob("*/src"))]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--hypothesis-profile=ci", "-qx", *tests]
    try:
        finished = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sources), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"took more than {LIMIT_S} s"
    return finished.returncode, finished.stdout[-3000:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
