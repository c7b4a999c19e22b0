"""The reference pages of operators are those that the schemas make; ``OPENINFER_UPDATE_GOLDEN=1`` rewrites them."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from openinfer.builtin import openinfer_ops
from openinfer.cli.commands.ops import command

PAGES = Path(__file__).parents[3] / "docs" / "operators"
NAMES = sorted(schema.name for schema in openinfer_ops())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = PAGES if os.environ.get("OPENINFER_UPDATE_GOLDEN") else tmp_path_factory.mktemp("pages")
    result = CliRunner().invoke(command, ["--markdown", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0
    return folder


@pytest.mark.parametrize("name", ["README", *NAMES])
def test_a_page_is_up_to_date(written: Path, name: str) -> None:
    path = PAGES / f"{name}.md"

    assert path.is_file(), "write the pages with OPENINFER_UPDATE_GOLDEN=1"
    assert path.read_text(encoding="utf-8") == (written / f"{name}.md").read_text(encoding="utf-8")


def test_there_is_a_page_for_each_operator_and_no_other() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted(["README", *NAMES])


def test_every_page_is_named_in_the_index(written: Path) -> None:
    index = (written / "README.md").read_text(encoding="utf-8")

    assert [name for name in NAMES if f"[{name}]({name}.md)" not in index] == []
