"""A slice of the conformance kit on bundles of target vulkan; `tox -e kit` runs all of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from generated_vulkan import needs_headers

from openinfer.testing.waiting import limit_s

pytestmark = [needs_headers, pytest.mark.usefixtures("vulkan")]


def test_the_cells_of_an_operator_that_may_fail_pass(tmp_path: Path) -> None:
    kit = ["--pyargs", "openinfer.testing.conformance", "--openinfer-target", "vulkan", "--openinfer-sample", "200"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *kit, "--openinfer-op", "gather"],
        capture_output=True,
        text=True,
        timeout=limit_s(300),
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert finished.returncode == 0, finished.stdout[-3000:]
    assert re.search(r"^\d+ passed", finished.stdout, re.MULTILINE), finished.stdout[-300:]
