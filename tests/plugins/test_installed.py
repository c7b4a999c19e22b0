"""Every project in this folder is a real package: installed from its own metadata, with an entry point of ours."""

import tomllib
from importlib.metadata import distribution
from pathlib import Path

PROJECTS = sorted(Path(__file__).resolve().parent.glob("*/pyproject.toml"))


def test_every_project_is_installed_with_its_entry_points() -> None:
    assert PROJECTS

    for path in PROJECTS:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        declared = project["entry-points"]["openinfer"]

        installed = distribution(project["name"]).entry_points.select(group="openinfer")

        assert {entry.name: entry.value for entry in installed} == declared
