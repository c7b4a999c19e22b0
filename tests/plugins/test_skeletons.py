"""What `openinfer plugins new` writes is built, installed and passes its own tests."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer.cli.skeletons import kinds
from openinfer.testing.waiting import limit_s

if find_spec("hatchling") is None:
    pytest.skip("hatchling, which builds packages, is not installed here", allow_module_level=True)


def python(*arguments: str | Path, folder: Path, **variables: str) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=limit_s(240),
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_a_package_of_all_kinds_is_built_installed_and_passes_its_tests(tmp_path: Path) -> None:
    chosen = [word for kind in kinds() for word in ("--kind", kind)]
    assert CliRunner().invoke(main, ["plugins", "new", "acme-tools", *chosen, "-o", str(tmp_path)]).exit_code == 0
    folder, site = tmp_path / "acme-tools", tmp_path / "site"

    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", site, ".")
    python(*install, folder=folder)
    # The broken plugins of this folder stay out: the tests of a package run where it is installed with what it needs.
    variables = {"PYTHONPATH": str(site), "OPENINFER_PLUGINS": "acme_tools,cpu,oinf"}
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", folder=folder, **variables)

    written = sum(path.read_text().count("def test_") for path in folder.glob("tests/*.py"))
    passed = re.search(r"^(\d+) passed in", said, re.MULTILINE)
    assert passed is not None, said
    assert int(passed[1]) > written
