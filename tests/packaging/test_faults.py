"""`tests/faults.toml`: each fault can still be planted, and its test is there; `tox run -e dist,faults` plants them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = tomllib.loads((ROOT / "tests" / "faults.toml").read_text("utf-8"))["fault"]
FEWEST = 40


def test_there_are_as_many_as_promised_and_no_two_are_the_same() -> None:
    planted = {(fault["file"], fault["right"], fault["wrong"]) for fault in FAULTS}

    assert len(planted) == len(FAULTS) >= FEWEST


def test_each_of_them_changes_one_text_of_its_file() -> None:
    for fault in FAULTS:
        assert fault["wrong"] != fault["right"]
        assert (ROOT / fault["file"]).read_text("utf-8").count(fault["right"]) == 1, fault


def test_each_of_them_names_a_test() -> None:
    for fault in FAULTS:
        file, name = re.fullmatch(r"([^:]+\.py)::(?:Test\w+::)?(test_\w+)(?:\[.*\])?", fault["test"]).groups()
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), fault
