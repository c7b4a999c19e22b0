"""README.md, those of the packages, and the pages of docs/ are executed, so that what they show is what happens.

A page runs section by section (`##`), in one folder with a copy of examples/. In a section, blocks that follow a
line "`path`:" are written to that file; then its python blocks run, which share a namespace, as a reader would type
them one after the other; then its console blocks that are marked `console runnable`, in which `$ ` starts a command and
the lines below it are its output, where `...` stands for anything. `console runnable exit=1` says that commands exit
with 1. A block `text printed` is what the python blocks of its section print.

Programs (`oi`) run for two steps on cpu, with the `model` that the page's block `python model` makes. Other words after
`oi` say what becomes of a program: see `JUDGES`.
"""

import doctest
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from forked_commands import run_forked

import openinfer as oi
from openinfer.ir.graph import MemoryKind
from openinfer.testing.waiting import limit_s

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "docs/plugins.md": "tests/documentation/test_plugin_pages.py",
    "docs/plugins-tutorials.md": "tests/documentation/test_plugin_pages.py",
    "docs/plugins-devices.md": "tests/documentation/test_plugin_pages.py",
    "docs/vulkan-interop.md": "tests/vulkan/test_interop.py",
    "docs/oinf.md": "openinfer-oinf/tests/test_docs.py",
    "openinfer-oinf/README.md": "openinfer-oinf/tests/test_readme.py",
    "docs/architecture/targets.md": "tests/documentation/test_plugin_pages.py",
}
"""Pages whose snippets another test runs."""

FENCE = re.compile(
    r"(?:^`(?P<path>[\w./-]+)`:\n\n)?^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
LANGUAGES = {
    *(
        "python",
        "javascript",
        "console",
        "sh",
        "text",
        "c",
        "cpp",
        "cmake",
        "oi",
        "json",
        "toml",
        "bash",
        "lua",
        "html",
        "mermaid",
        "dot",
    )
}


@dataclass(frozen=True, kw_only=True)
class Block:
    info: str
    body: str
    line: int
    section: str
    path: str | None = None

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]


@dataclass(frozen=True)
class Page:
    name: str
    blocks: tuple[Block, ...]

    def sections(self) -> dict[str, list[Block]]:
        found: dict[str, list[Block]] = {}
        for block in self.blocks:
            found.setdefault(block.section, []).append(block)
        return found


def blocks_of(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        before = text[: match.start("info")]
        headings = re.findall(r"^## (.+)$", before, re.MULTILINE)
        yield Block(
            info=match["info"].strip(),
            body=match["body"],
            line=before.count("\n") + 2,
            section=headings[-1] if headings else "opening",
            path=match["path"],
        )


def read_pages() -> list[Page]:
    folders = [ROOT / "docs" / name for name in (".", "architecture", "architecture/life", "specification")]
    packages = sorted(ROOT.glob("openinfer-*/README.md"))
    files = [ROOT / "README.md", *packages, *sorted(file for folder in folders for file in folder.glob("*.md"))]
    return [Page(str(file.relative_to(ROOT)), tuple(blocks_of(file.read_text(encoding="utf-8")))) for file in files]


PAGES = read_pages()
RUNNABLE = {"python", "console", "oi"}
EXECUTED = [
    page for page in PAGES if page.name not in ELSEWHERE and any(block.language in RUNNABLE for block in page.blocks)
]
PROGRAMS = [
    pytest.param(page, block, id=f"{page.name}:{block.line}")
    for page in EXECUTED
    for block in page.blocks
    if block.language == "oi"
]


def python_source(blocks: list[Block]) -> str:
    """The python blocks of a section, padded so that tracebacks show the page's line numbers."""
    source = ""
    for block in blocks:
        if block.language == "python" and block.path is None:
            source += "\n" * (block.line - 1 - source.count("\n")) + block.body
    return source


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


def program_of(name: str, workplace: Path) -> str | None:
    """The file of a command; None when this machine has none."""
    if name == "python":
        return sys.executable
    installed = Path(sysconfig.get_path("scripts"), name)
    if installed.is_file():
        return str(installed)
    return str(workplace / name) if name.startswith("./") else shutil.which(name)


ENTRY_POINTS = {"openinfer": "openinfer", "oinf": "openinfer_oinf"}
"""The modules that are run as commands."""


def run(command: list[str], workplace: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=workplace,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s(120),
        check=False,
    )


def run_python(page: Page, source: str, workplace: Path) -> str:
    program = f"exec(compile({source!r}, {page.name!r}, 'exec'), {{'__name__': '__main__'}})"
    finished = run_forked(["-W", "error", "-c", program], workplace, merged=True, timeout=limit_s(120))
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


def run_console(page: Page, block: Block, workplace: Path) -> str | None:
    """Run the commands of a block; return the name of one that this machine does not have, and run none then."""
    commands = [(shlex.split(command), expected) for command, expected in commands_of(block)]
    missing = [words[0] for words, _ in commands if program_of(words[0], workplace) is None]
    if missing:
        return missing[0]
    exit_code = re.search(r"exit=(\d+)", block.info)
    for words, expected in commands:
        if words[0] in ENTRY_POINTS:
            arguments = ["-m", ENTRY_POINTS[words[0]], *words[1:]]
            finished = run_forked(arguments, workplace, merged=True, timeout=limit_s(120))
        else:
            finished = run([program_of(words[0], workplace) or "", *words[1:]], workplace)
        place = f"{page.name}:{block.line}: $ {shlex.join(words)}\n{finished.stdout}"
        assert finished.returncode == (int(exit_code[1]) if exit_code else 0), place
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert not expected or doctest.OutputChecker().check_output(expected, finished.stdout, flags), place
    return None


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with a copy of examples/, so that a snippet finds files and leaves none in the repository."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.name)
def test_pages_run_from_top_to_bottom(page: Page, workplace: Path) -> None:
    missing: list[str] = []
    for blocks in page.sections().values():
        for block in blocks:
            if block.path is not None:
                (workplace / block.path).write_text(block.body, encoding="utf-8")
        source = python_source(blocks)
        if source:
            printed = run_python(page, source, workplace)
            shown = [block.body for block in blocks if block.info == "text printed"]
            assert not shown or "".join(printed.split()) == "".join("".join(shown).split()), printed
        for block in blocks:
            if block.info.startswith("console runnable"):
                absent = run_console(page, block, workplace)
                missing += [] if absent is None else [absent]
    if missing:
        pytest.skip(f"{page.name} ran in part: this machine does not have {', '.join(missing)}")


def model_of(page: Page) -> oi.Model:
    """What the page's block `python model` calls so."""
    namespace: dict[str, object] = {}
    for block in page.blocks:
        if block.info == "python model":
            exec(compile(block.body, page.name, "exec"), namespace)
    model = namespace.get("model", oi.Model.from_arrays({}))
    assert isinstance(model, oi.Model)
    return model


def simulate(page: Page, text: str) -> None:
    """Run two steps on random inputs from 0 to 1: integers may be bounds of loops."""
    graph = oi.graph(text, check=True)
    executor = oi.Simulator(model_of(page)).make_executor(graph)
    dynamic = [decl.name for decl in graph.vars.values() if decl.kind is MemoryKind.DYNAMIC]
    for seed in range(2):
        for name in dynamic:
            wanted = executor.input_type(name)
            executor.insert({name: oi.Random.generate(dtype=wanted.dtype, shape=wanted.shape, range=(0, 1), seed=seed)})
        executor.step()
    executor.outputs()


def is_checked(page: Page, text: str, _: str) -> None:
    del page
    oi.graph(text, check=True)


def is_run_and_synthesised(page: Page, text: str, _: str) -> None:
    simulate(page, text)
    model = model_of(page)
    oi.Synthesizer("c").synthesize(model, oi.graph(text), sizes=model.sizevars)


def is_run_but_not_synthesised(page: Page, text: str, _: str) -> None:
    simulate(page, text)
    model = model_of(page)
    with pytest.raises(oi.SynthesisError):
        oi.Synthesizer("c").synthesize(model, oi.graph(text), sizes=model.sizevars)


def is_refused_as_unsupported(page: Page, text: str, _: str) -> None:
    graph = oi.graph(text, check=True)
    with pytest.raises(oi.UnsupportedError):
        oi.Simulator(model_of(page)).make_executor(graph)


def is_refused(page: Page, text: str, code: str) -> None:
    with pytest.raises(oi.OpenInferError) as caught:
        oi.Simulator(model_of(page)).make_executor(oi.graph(text, check=True))
    assert caught.value.code == code


def is_strictly_refused(page: Page, text: str, code: str) -> None:
    simulate(page, text)
    with pytest.raises(oi.OpenInferError) as caught:
        oi.Simulator(model_of(page), strict=True).make_executor(oi.graph(text, check=True, strict=True))
    assert caught.value.code == code


def are_statements(page: Page, text: str, _: str) -> None:
    del page
    oi.graph(f"block b {{\n{text}}}")


def are_declarations(page: Page, text: str, section: str) -> None:
    del page
    oi.graph(f"{section} {{\n{text}}}")


JUDGES: dict[str, Callable[[Page, str, str], None]] = {
    "": is_run_and_synthesised,
    "check": is_checked,
    "statements": are_statements,
    "declarations": are_declarations,
    "simulator": is_run_but_not_synthesised,
    "unsupported": is_refused_as_unsupported,
    "wrong": is_refused,
    "strict": is_strictly_refused,
}
"""What becomes of a program, by the word after `oi`.

`wrong` and `strict` are followed by the code of the error, `declarations` by their section.
"""


@pytest.mark.parametrize(("page", "block"), PROGRAMS)
def test_programs_are_what_they_are_marked_as(page: Page, block: Block) -> None:
    _, _, words = block.info.partition(" ")
    judge, _, code = words.partition(" ")

    JUDGES[judge or ("" if block.path is None else "check")](page, block.body, code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_names_a_known_language(page: Page) -> None:
    unknown = {block.line: block.language for block in page.blocks if block.language not in LANGUAGES}

    assert unknown == {}


def written_pages() -> list[str]:
    """Every Markdown page of the repository but those of the third-party packages of the tests."""
    patterns = ("*.md", "benchmarks/*.md", "changelog.d/*.md", "docs/**/*.md", "examples/**/*.md", "openinfer-*/*.md")
    return sorted(str(file.relative_to(ROOT)) for pattern in patterns for file in ROOT.glob(pattern))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+?)\s*$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.append(anchor if anchor not in found else f"{anchor}-{found.count(anchor)}")
    return frozenset(found)


@pytest.mark.parametrize("page", written_pages())
def test_links_lead_to_files_and_headings(page: str) -> None:
    file = ROOT / page
    links = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", file.read_text(encoding="utf-8")))
    broken: list[str] = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        if "://" in link:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_another_test_names_the_pages_that_it_runs(page: str, test: str) -> None:
    assert (ROOT / page).is_file()
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_a_failing_snippet_is_reported_with_its_line_in_the_page(workplace: Path) -> None:
    text = "# Title\n\n## Part\n\n```python\nx = 1\n```\n\n```python\nraise LookupError(x)\n```\n"
    page = Page("README.md", tuple(blocks_of(text)))

    with pytest.raises(AssertionError) as caught:
        run_python(page, python_source(page.sections()["Part"]), workplace)

    assert '"README.md", line 10' in str(caught.value)
    assert "LookupError: 1" in str(caught.value)


def test_console_output_belongs_to_the_command_above_it() -> None:
    block = Block(info="console runnable", body="$ a b\none\ntwo\n$ c\n", line=1, section="")

    assert commands_of(block) == [("a b", "one\ntwo\n"), ("c", "")]


def test_wrong_console_output_and_exit_codes_are_reported(workplace: Path) -> None:
    page = Page("README.md", ())
    wrong_output = Block(info="console runnable", body='$ python -c "print(1)"\n2\n', line=1, section="")
    wrong_exit = Block(info="console runnable exit=1", body='$ python -c ""\n', line=1, section="")

    for block in (wrong_output, wrong_exit):
        with pytest.raises(AssertionError, match=r"README\.md:1: \$ python"):
            run_console(page, block, workplace)


def test_a_block_below_a_path_is_a_file() -> None:
    blocks = list(blocks_of("`a/b.oi`:\n\n```oi\nblock entry {}\n```\n\nText:\n\n```text\nx\n```\n"))

    assert [(block.path, block.line) for block in blocks] == [("a/b.oi", 4), (None, 10)]
