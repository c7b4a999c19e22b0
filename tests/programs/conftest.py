"""The fuzzer of random programs, which is in the repository and in no package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def fuzzer() -> Path:
    """The script that runs random programs."""
    script = Path(__file__).resolve().parents[2] / "openinfer-core" / "fuzz" / "fuzz_programs.py"
    if not script.is_file():
        pytest.skip("the fuzzer is not in this tree")
    return script


@pytest.fixture
def programs(fuzzer: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the fuzzer by name, and those that ship with the conformance kit."""
    monkeypatch.syspath_prepend(str(fuzzer.parent))

    def imported(name: str) -> Any:
        is_shipped = not (fuzzer.parent / "random_programs" / f"{name}.py").is_file()
        return importlib.import_module(f"{'openinfer.testing.' if is_shipped else ''}random_programs.{name}")

    return imported
