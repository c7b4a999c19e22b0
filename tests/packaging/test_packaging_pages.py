"""Architecture pages show the layers that the import contract holds."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_the_simulator_shows_its_layers_in_order() -> None:
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in workspace["tool"]["importlinter"]["contracts"] if c["id"] == "simulator-rooms")
    *layers, lowest = contract["layers"]
    page = (ROOT / "docs" / "architecture" / "simulator.md").read_text(encoding="utf-8")
    arrows = dict(re.findall(r"^  (\w+)\[.*\] --> (\w+)", page, re.MULTILINE))

    assert [arrows[layer] for layer in layers[:-1]] == layers[1:]
    assert all(module in page.split(f"{layers[-1]}[")[-1].split("```")[0] for module in lowest.split(" | "))
    packages = [
        f"`simulate.{layer}`" for layer in layers if (ROOT / "openinfer-core/src/openinfer/simulate" / layer).is_dir()
    ]
    assert re.findall(r"^\| (`simulate\.\w+`) \| ", page, re.MULTILINE)[: len(packages)] == packages
