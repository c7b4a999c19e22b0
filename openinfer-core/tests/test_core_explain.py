"""Every code is explained: its example gets it, the golden files hold what is said, and the page is up to date.

`OPENINFER_UPDATE_GOLDEN=1` writes the golden files and the page anew.
"""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import openinfer
from openinfer.cli import main
from openinfer.cli.explanations import codes, explanation
from openinfer.cli.explanations.examples import findings, host_error
from openinfer.cli.explanations.pages import error_index, messages
from openinfer.cli.failures import told
from openinfer.cli.findings import as_json
from openinfer.diagnostics import render
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden" / "diagnostics"
PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
SOURCES = sorted(Path(__file__).parents[2].glob("openinfer-*/src")) or [Path(openinfer.__file__).parent]
SHOWN = [code for code in codes() if explanation(code).wrong and not explanation(code).said]
HOSTED = [code for code in codes() if explanation(code).host]

NO_CODES = {"utf-8", "utf-8-sig", "6f1b6a52-93c4-5c0e-9d2f-0b7d8f1f6a11"}
"""Strings of the checkers that look like codes."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def golden(name: str, text: str) -> str:
    """Return the golden file of that name, writing it first when asked to."""
    file = GOLDEN / name
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", SHOWN)
def test_the_wrong_example_gets_the_code_and_nothing_else(code: str) -> None:
    explained = explanation(code)
    found = findings(explained, explained.wrong)
    assert [finding.code for finding in found] == [code]


@pytest.mark.parametrize("code", [code for code in SHOWN if explanation(code).right])
def test_the_right_example_gets_no_finding(code: str) -> None:
    explained = explanation(code)
    assert findings(explained, explained.right) == ()


@pytest.mark.parametrize("code", SHOWN)
def test_what_is_said_is_the_golden_file(code: str) -> None:
    found = findings(explanation(code), explanation(code).wrong)
    text = "".join(f"{render(finding)}\n" for finding in found)
    document = json.dumps([as_json(finding) for finding in found], indent=2, ensure_ascii=False) + "\n"
    assert golden(f"{code}.txt", text) == text
    assert golden(f"{code}.json", document) == document


def test_there_is_a_golden_file_for_each_code_and_no_other() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{code}.{kind}" for code in SHOWN for kind in ("txt", "json")}


def test_every_code_shows_a_message() -> None:
    assert [code for code in codes() if f"[{code}]" not in messages(explanation(code))] == []


@pytest.mark.parametrize("code", HOSTED)
def test_the_host_of_an_example_gets_the_code_and_the_message(code: str) -> None:
    if "cpu" not in Environment.default().devices:
        pytest.skip("no device is installed to run examples on")
    error = host_error(explanation(code))
    assert error is not None
    assert (error.code, told(error)) == (code, explanation(code).said.rstrip())


def test_only_examples_that_checks_find_or_hosts_run_have_programs() -> None:
    assert [code for code in codes() if explanation(code).wrong and code not in {*SHOWN, *HOSTED}] == []


def test_every_code_of_the_checkers_is_explained() -> None:
    package = Path(openinfer.__file__).parent
    modules = [file for part in ("dsl", "ir", "serialize", "validate") for file in (package / part).rglob("*.py")]
    words = {
        node.value
        for module in modules
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    kebab = {word for word in words if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", word)}
    assert kebab - set(codes()) == NO_CODES


def literal_codes(module: Path) -> Iterator[str]:
    """Yield the codes that a module gives to errors: defaults of classes, ``code=`` arguments, and first arguments."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Assign([ast.Name("default_code" | "MISMATCH" | "DEVICE_UNAVAILABLE")], ast.Constant(str(code))):
                yield code
            case ast.keyword("code", ast.Constant(str(code))):
                yield code
            case ast.Call(ast.Name("about" | "at_node" | "_line"), [ast.Constant(str(code)), *_]):
                yield code
            case _:
                pass


def test_every_code_of_an_error_is_explained() -> None:
    found = {code for source in SOURCES for module in source.rglob("*.py") for code in literal_codes(module)}
    assert {"execution", "insert-mismatch", "large-arena", "no-outputs", "internal"} <= found
    assert {code for code in found if code.islower()} - set(codes()) == set()


def test_the_error_index_is_up_to_date() -> None:
    if not PAGE.parent.is_dir():
        pytest.skip("the documentation is not beside the tests")
    page = error_index()
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8", newline="\n")
    assert PAGE.read_text(encoding="utf-8") == page


def test_explain_shows_meaning_message_and_remedy() -> None:
    result = run("explain", "missing-entry")
    assert result.exit_code == 0
    assert result.output == (
        "missing-entry: found when the structure is checked\n\n"
        "A step starts at the block `entry`, and the program has none.\n\n"
        "For example:\n\n    block main { return; }\n\n"
        "error[missing-entry]: there is no block `entry`\n"
        "  help: a step starts at `block entry { … }`\n\n"
        "Right is:\n\n    block entry {\n      return;\n    }\n"
    )


def test_explain_as_json_is_the_source_of_the_entry() -> None:
    document = json.loads(run("explain", "--json", "unbound").output)
    assert (document["code"], document["phase"], document["kind"]) == ("unbound", "V", "program")
    assert document["wrong"].startswith("constant { w: f32[4]; }")


def test_explain_lists_all_codes() -> None:
    assert {row["code"] for row in json.loads(run("explain", "--list", "--json").output)} == set(codes())
    assert "missing-entry" in run("explain", "--list").output


def test_an_unknown_code_gets_a_near_one() -> None:
    result = run("explain", "unknown-variabel")
    assert result.exit_code == 1
    assert "did you mean `unknown-variable`" in result.output


@pytest.mark.parametrize("arguments", [[], ["syntax", "--list"]])
def test_one_thing_is_asked_for(arguments: list[str]) -> None:
    assert run("explain", *arguments).exit_code == 2
