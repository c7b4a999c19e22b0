"""Install distributions of the workspace from built wheels: `install_wheels.py DIST NAME... [--plugins FOLDER]`.

A name is installed by the path of its wheel, and what it requires of the others comes from the same folder.
Everything of ours is removed first, because the version stays while the sources change.
"""

import argparse
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

DISTRIBUTIONS = [
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]
    for path in sorted(Path(__file__).resolve().parent.parent.glob("openinfer-*/pyproject.toml"))
]


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def wheel_of(name: str, dist: Path) -> str:
    wheels = sorted(dist.glob(f"{name.replace('-', '_')}-*.whl"))
    if len(wheels) != 1:
        message = f"{len(wheels)} wheels of {name} in {dist}, expected 1: run `tox run -e dist` first"
        raise SystemExit(message)
    return str(wheels[0])


def plugin_projects(folder: Path) -> list[str]:
    return [str(pyproject.parent) for pyproject in sorted(folder.glob("*/pyproject.toml"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--plugins", type=Path)
    arguments = parser.parse_args()

    wheels = [wheel_of(name, arguments.dist) for name in arguments.names]
    installed = [name for name in DISTRIBUTIONS if is_installed(name)]
    if installed:
        pip("uninstall", "-qq", "--yes", *installed)
    pip("install", "--quiet", "--find-links", str(arguments.dist), *wheels)
    projects = plugin_projects(arguments.plugins) if arguments.plugins else []
    if projects:
        pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall", *projects)


if __name__ == "__main__":
    main()
