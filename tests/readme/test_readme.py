"""README.md is executed: every python block, and every console block that is marked `console runnable`.

Python blocks of one `##` section share a namespace, as a reader would type them one after the other. In a runnable
console block, `$ ` starts a command, and the lines below it are its output, where `...` stands for anything.
"""

import doctest
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "sh", "text", "c", "oi", "json", "toml"}


@dataclass(frozen=True, kw_only=True)
class Block:
    info: str
    body: str
    line: int
    section: str


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        headings = re.findall(r"^## (.+)$", before, re.MULTILINE)
        line = before.count("\n") + 2
        section = headings[-1] if headings else "opening"
        found.append(Block(info=match["info"].strip(), body=match["body"], line=line, section=section))
    return found


def python_sections(blocks: list[Block]) -> dict[str, str]:
    """Source per section, padded so that tracebacks show the README's line numbers."""
    sections: dict[str, str] = {}
    for block in blocks:
        if block.info == "python":
            source = sections.get(block.section, "")
            sections[block.section] = source + "\n" * (block.line - 1 - source.count("\n")) + block.body
    return sections


def commands_of(block: Block) -> list[tuple[str, str]]:
    """(command, expected output) pairs of a console block."""
    pairs: list[tuple[str, str]] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], ""))
        else:
            command, output = pairs.pop()
            pairs.append((command, output + line + "\n"))
    return pairs


BLOCKS = blocks_of(README.read_text(encoding="utf-8"))
SECTIONS = python_sections(BLOCKS)
RUNNABLE = [block for block in BLOCKS if block.info == "console runnable"]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with a copy of examples/, so that a snippet finds files and leaves none in the repository."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def run(command: list[str], workplace: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=workplace, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("section", SECTIONS)
def test_python_blocks_run(section: str, workplace: Path) -> None:
    program = f"exec(compile({SECTIONS[section]!r}, 'README.md', 'exec'), {{'__name__': '__main__'}})"

    finished = run([sys.executable, "-W", "error", "-c", program], workplace)

    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_console_blocks_run(workplace: Path) -> None:
    checker = doctest.OutputChecker()
    for block in RUNNABLE:
        for command, expected in commands_of(block):
            name, *arguments = shlex.split(command)
            program = str(Path(sysconfig.get_path("scripts"), name))
            finished = run([program, *arguments], workplace)
            place = f"README.md:{block.line}: $ {command}\n{finished.stdout}{finished.stderr}"
            assert finished.returncode == 0, place
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert not expected or checker.check_output(expected, finished.stdout, flags), place


def test_every_block_names_a_known_language() -> None:
    languages = {block.line: block.info.partition(" ")[0] for block in BLOCKS}

    unknown = {line: language for line, language in languages.items() if language not in LANGUAGES}

    assert unknown == {}


def test_a_failing_snippet_is_reported_with_its_line_in_the_readme(workplace: Path) -> None:
    text = "# Title\n\n## Part\n\n```python\nx = 1\n```\n\n```python\nraise LookupError(x)\n```\n"
    source = python_sections(blocks_of(text))["Part"]

    finished = run([sys.executable, "-c", f"exec(compile({source!r}, 'README.md', 'exec'))"], workplace)

    assert finished.returncode == 1
    assert '"README.md", line 10' in finished.stderr
    assert "LookupError: 1" in finished.stderr


def test_console_output_belongs_to_the_command_above_it() -> None:
    block = Block(info="console runnable", body="$ a b\none\ntwo\n$ c\n", line=1, section="")

    assert commands_of(block) == [("a b", "one\ntwo\n"), ("c", "")]
