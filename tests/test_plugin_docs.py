"""docs/plugins.md says what is: every hook with its exact signature, every status and switch, every listing."""

import inspect
import re
from pathlib import Path

import pytest

from openinfer.cli import main
from openinfer.plugins import hookspecs, switches
from openinfer.plugins.environment import Status

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
HOOKS = [value for name, value in vars(hookspecs).items() if name.startswith("openinfer_")]
LISTINGS = re.findall(r"^`(tests/plugins/[^`]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_has_a_section_with_its_exact_signature(hook: object) -> None:
    signature = str(inspect.signature(hook)).replace("'", "")

    assert f"\n### `{hook.__name__}{signature}`\n" in PAGE


def test_no_section_speaks_of_a_hook_that_does_not_exist() -> None:
    assert len(re.findall(r"^### `openinfer_", PAGE, re.MULTILINE)) == len(HOOKS)


def test_every_status_is_explained() -> None:
    for status in Status:
        assert f"\n| {status.value} | " in PAGE


def test_every_switch_is_listed_with_its_option() -> None:
    rows = re.findall(r"^\| `(--[a-z-]+)[^`]*` \| `OPENINFER_", PAGE, re.MULTILINE)
    options = {option for parameter in main.params for option in parameter.opts if "plugins" in option}

    assert set(rows) == options
    for variable in (switches.BLOCK, switches.ALLOW, switches.AUTOLOAD, switches.STRICT):
        assert f"`{variable}=" in PAGE


def test_listings_are_the_files_that_they_name() -> None:
    assert LISTINGS
    for path, text in LISTINGS:
        assert text == (ROOT / path).read_text(encoding="utf-8"), path


def test_every_python_file_of_an_example_is_listed() -> None:
    sources = (ROOT / "tests" / "plugins").glob("openinfer-example-*/src/*/[a-z]*.py")

    listed = {path for path, _ in LISTINGS if path.endswith(".py")}
    assert {path.relative_to(ROOT).as_posix() for path in sources} == listed
