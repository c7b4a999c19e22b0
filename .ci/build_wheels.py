"""Build an sdist, and from it the wheel, of every distribution in the workspace: `build_wheels.py DIST REPORTS`.

Both folders are emptied first, so that neither an old wheel nor an old test report outlives the sources it came from.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def build(project: Path, dist: Path) -> None:
    # The environment holds hatchling already: five isolated build environments would cost more than the builds.
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(project)], check=True)


def main() -> None:
    dist, reports = (Path(argument) for argument in sys.argv[1:])
    empty(dist)
    empty(reports)
    for pyproject in sorted(ROOT.glob("openinfer-*/pyproject.toml")):
        build(pyproject.parent, dist)


if __name__ == "__main__":
    main()
