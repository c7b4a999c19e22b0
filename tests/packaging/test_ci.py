"""The CI script and the README share one test command, and the closing report counts what happened."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / ".ci" / "run"


@pytest.fixture(scope="module")
def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_report", ROOT / ".ci" / "report.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["ci_report"] = module
    spec.loader.exec_module(module)
    return module


def readme_command(mark: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"<!-- {mark} -->\n```sh\n(.*?)```", text, re.DOTALL)
    return block


@pytest.mark.parametrize("mark", ["demo-command", "test-command"])
def test_each_readme_command_is_one_line(mark: str) -> None:
    assert readme_command(mark).count("\n") == 1


def test_both_commands_of_the_readme_leave_an_environment_with_pip() -> None:
    """Hints such as "install openinfer-core[onnx]" are for the pip of the environment, whichever command made it."""
    making = [
        re.match(r"python3 -m venv (.*?)\.venv && ", readme_command(f"{name}-command")) for name in ("demo", "test")
    ]

    assert [made and made[1] for made in making] == ["", "--without-pip "]
    assert re.search(r"python3 -m pip --python \.venv install (?:-q )?pip ", readme_command("test-command"))


@pytest.mark.parametrize("page", ["README.md", "examples/cortex-m4/README.md"])
def test_the_ci_script_installs_what_pages_name_for_tests_and_examples(page: str) -> None:
    (listed,) = re.findall(r"packages=\((.*?)\)", RUN.read_text(encoding="utf-8"), re.DOTALL)
    named = re.findall(r"Debian: `([^`]+)`", (ROOT / page).read_text(encoding="utf-8"))

    assert named
    assert {package for names in named for package in names.split()} <= set(listed.split())


def test_the_readme_names_every_package_that_the_ci_script_installs() -> None:
    (listed,) = re.findall(r"packages=\((.*?)\)", RUN.read_text(encoding="utf-8"), re.DOTALL)
    (named,) = re.findall(r"Debian: `([^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))

    assert sorted(named.split()) == sorted(listed.split())


def test_the_ci_script_runs_the_command_of_the_readme(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text(RUN.read_text(encoding="utf-8"), encoding="utf-8")
    readme = (
        "```sh\necho not this\n```\n<!-- test-command -->\n```sh\ntouch ran && false\n```\n```sh\ntouch too-much\n```\n"
    )
    (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    # Without apt-get on PATH nothing is installed; bash, awk and touch are all that the rest needs.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "awk", "touch", "dirname"):
        (tools / name).symlink_to(which(name))

    finished = subprocess.run(
        [which("bash"), str(tmp_path / ".ci" / "run")],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert "+ touch ran && false" in finished.stdout
    assert finished.returncode == 1
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "too-much").exists()


def which(name: str) -> str:
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    return str(next(folder / name for folder in folders if (folder / name).exists()))


def test_the_ci_script_is_executable_and_names_tox_nowhere_itself() -> None:
    assert RUN.stat().st_mode & 0o111 == 0o111
    assert "bin/tox" not in RUN.read_text(encoding="utf-8")
    assert "/tox run-parallel" in readme_command("test-command")


def test_the_demo_command_installs_all_five() -> None:
    folders = {path.parent.name for path in ROOT.glob("openinfer-*/src")}

    assert set(re.findall(r"\./(openinfer-[\w-]+)", readme_command("demo-command"))) == folders


JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="6" time="1.5">
<testcase classname="t.m" name="a" time="0.1"/>
<testcase classname="t.m" name="b" time="0.1"/>
<testcase classname="t.m" name="c" time="0.1"><failure message="no">trace</failure></testcase>
<testcase classname="t.m" name="d" time="0.1"><error message="no">trace</error></testcase>
<testcase classname="t.m" name="e" time="0.1"><skipped message="no driver">m.py:1</skipped></testcase>
<testcase classname="t.m" name="f" time="0.1"><skipped message="no driver">m.py:9</skipped></testcase>
</testsuite></testsuites>
"""


def test_a_report_counts_each_outcome(report: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "py311.xml").write_text(JUNIT, encoding="utf-8")

    found = report.read_report(tmp_path / "py311.xml")

    assert (found.environment, found.passed, found.failed, found.seconds) == ("py311", 2, 2, 1.5)
    assert found.skips == (("t.m::e", "no driver"), ("t.m::f", "no driver"))
    assert found.summary() == "2 failed, 2 passed, 2 skipped in 1.50s"


def test_the_lines_name_reasons_absent_interpreters_and_the_total(report: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "py311.xml").write_text(JUNIT, encoding="utf-8")
    (tmp_path / "core.xml").write_text(JUNIT, encoding="utf-8")
    reports = [report.read_report(path) for path in sorted(tmp_path.glob("*.xml"))]

    lines = report.describe(reports, ["py311", "py399"])

    assert "skipped x4: no driver [core, py311]" in lines
    assert any(line.startswith("py399 ") and "no results" in line for line in lines)
    assert lines[-1] == "==== 4 failed, 4 passed, 4 skipped in 3.00s (1 of 2 interpreters) ===="


def recorded(environment: str, digest: str, folder: Path) -> None:
    kept = f'<properties><property name="same in every environment: bundle" value="{digest}"/></properties>'
    text = f'<testsuites><testsuite time="1">{kept}<testcase classname="t" name="a"/></testsuite></testsuites>'
    (folder / f"{environment}.xml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("newest", "code"), [("abc", 0), ("abd", 1)])
def test_what_is_to_be_the_same_in_every_environment_is_compared(newest: str, code: int, tmp_path: Path) -> None:
    recorded("py311", "abc", tmp_path)
    recorded("py312", "abc", tmp_path)
    recorded("py313", newest, tmp_path)
    (tmp_path / "tox.ini").write_text(
        "[tox]\nenv_list = py311 py312 py313\n[testenv]\ncommands = {[testenv]pytest}\n", encoding="utf-8"
    )

    finished = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "report.py"), str(tmp_path), str(tmp_path / "tox.ini")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    line = "bundle differs: abc [py311, py312]; abd [py313]" if code else "bundle is the same [py311, py312, py313]"
    assert line in finished.stdout.splitlines()
    assert finished.returncode == code


def test_every_environment_that_runs_pytest_is_expected(report: ModuleType) -> None:
    expected = "all py313 core py311 core-cpu readme core-cpu-c plugins py312 conformance oinf"

    assert report.test_environments(ROOT / "tox.ini") == expected.split()


def test_no_line_of_the_environments_makes_one_by_accident() -> None:
    """tox takes words before a colon at the start of a line, or of a value, for environments."""
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    names = {
        *re.findall(r"^\[testenv:([\w-]+)\]", text, re.MULTILINE),
        *re.findall(r"^    (py3\d+)$", text, re.MULTILINE),
    }
    words = re.findall(r"^(?:\w+ = |    )([\w.,!-]+): ", text, re.MULTILINE)

    assert words
    # A factor is a part of a name, such as `cpu` of `core-cpu`.
    factors = {part for name in names for part in (name, *name.split("-"))}
    assert {name for word in words for name in word.split(",")} <= factors


def test_archives_that_differ_are_named() -> None:
    spec = importlib.util.spec_from_file_location("ci_build_wheels", ROOT / ".ci" / "build_wheels.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    assert list(script.differing({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"})) == ["b", "c", "d"]
    assert [path.name for path in script.projects(ROOT)] == sorted(
        path.parent.name for path in ROOT.glob("*/pyproject.toml")
    )


def test_an_environment_without_results_fails_the_report(tmp_path: Path) -> None:
    passing = JUNIT.replace('<failure message="no">trace</failure>', "").replace(
        '<error message="no">trace</error>', ""
    )
    (tmp_path / "py311.xml").write_text(passing, encoding="utf-8")

    finished = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "report.py"), str(tmp_path), str(ROOT / "tox.ini")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert finished.returncode == 1
    assert "core         no results: it failed to start" in finished.stdout


@pytest.mark.parametrize("content", [JUNIT, None], ids=["failures", "no reports"])
def test_the_report_exits_1(content: str | None, tmp_path: Path) -> None:
    if content:
        (tmp_path / "py311.xml").write_text(content, encoding="utf-8")

    finished = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "report.py"), str(tmp_path), str(ROOT / "tox.ini")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert finished.returncode == 1
