"""In every combination the installed packages are found as plugins, and finding them stays light."""

import json
import os
import subprocess
import sys

import pytest

from openinfer.testing.waiting import limit_s

if "OPENINFER_COMBINATION" not in os.environ:
    pytest.skip("OPENINFER_COMBINATION is set by tox only", allow_module_level=True)

COMBINATION = os.environ["OPENINFER_COMBINATION"].split()
HEAVY = {"numpy", "ml_dtypes", "marshmallow", "parsimonious", "vulkan", "cffi", "jinja2"}

LIST_PLUGINS = """
import sys
from openinfer.cli import main
sys.argv = ["openinfer", "plugins"]
try:
    main()
except SystemExit as ending:
    assert not ending.code, ending.code
"""
IMPORT_ALONE = "import openinfer"
PRINT_MODULES = "import sys; print('loaded:', *sys.modules)"


def python(*arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=limit_s(60), check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_every_distribution_of_the_combination_is_a_working_plugin() -> None:
    plugins = json.loads(python("-m", "openinfer", "plugins", "--json"))

    assert sorted(plugin["distribution"] for plugin in plugins) == sorted(COMBINATION)
    assert {plugin["name"]: plugin["reason"] for plugin in plugins if plugin["status"] != "ok"} == {}


@pytest.mark.rule("api.plugins.3")
@pytest.mark.parametrize("program", [IMPORT_ALONE, LIST_PLUGINS], ids=["import", "list plugins"])
def test_no_heavy_module_is_loaded(program: str) -> None:
    output = python("-c", f"{program}\n{PRINT_MODULES}")
    loaded = set(output.rpartition("loaded: ")[2].split())

    assert "openinfer" in loaded
    assert loaded & HEAVY == set()
