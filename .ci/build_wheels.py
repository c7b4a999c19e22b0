"""Build an sdist, and from it the wheel, of every distribution in the workspace: `build_wheels.py DIST REPORTS`.

Both folders are emptied first, so that neither an old wheel nor an old test report outlives the sources it came from.
DIST/SHA256SUMS has the digest of each archive. Archives depend on the sources alone: with `--again`, all are built a
second time, from a copy of the sources in another folder, and have to have the same bytes.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = (".gitignore", "CHANGELOG.md")
"""Files outside of the projects that their sdists hold."""

SUMS = "SHA256SUMS"


def empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def build(project: Path, dist: Path) -> None:
    # The environment holds hatchling already: isolated build environments would cost more than the builds.
    # Hatchling writes the times of a fixed day unless this variable names another one.
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(project)]
    subprocess.run(command, check=True, env=environment)


def projects(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("openinfer-*/pyproject.toml"))


def digests(dist: Path) -> dict[str, str]:
    """The SHA-256 of each archive by its name."""
    archives = sorted((*dist.glob("*.whl"), *dist.glob("*.tar.gz")))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}


def differing(first: dict[str, str], second: dict[str, str]) -> Iterator[str]:
    """The names of archives that are in one of two builds only, or have other bytes there."""
    yield from (name for name in sorted({*first, *second}) if first.get(name) != second.get(name))


def built_again(folder: Path) -> dict[str, str]:
    """Build a copy of the sources in a folder; return the digests of its archives."""
    for project in projects(ROOT):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "dist", "build")
        shutil.copytree(project, folder / project.name, ignore=ignored, copy_function=shutil.copyfile)
    for name in SHARED:
        shutil.copyfile(ROOT / name, folder / name)
    for project in projects(folder):
        build(project, folder / "archives")
    return digests(folder / "archives")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()

    empty(arguments.dist)
    empty(arguments.reports)
    for project in projects(ROOT):
        build(project, arguments.dist)
    built = digests(arguments.dist)
    sums = "".join(f"{digest}  {name}\n" for name, digest in built.items())
    (arguments.dist / SUMS).write_text(sums, encoding="ascii")
    if arguments.again:
        with tempfile.TemporaryDirectory() as folder:
            wrong = list(differing(built, built_again(Path(folder))))
        if wrong:
            raise SystemExit(f"built a second time, these have other bytes: {', '.join(wrong)}")
        print(f"{len(built)} archives have the same bytes when they are built again")


if __name__ == "__main__":
    main()
