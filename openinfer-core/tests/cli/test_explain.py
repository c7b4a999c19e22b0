"""Every code is explained: its example gets it, the golden files hold what is said, and the page is up to date.

`OPENINFER_UPDATE_GOLDEN=1` rewrites the golden files and the page.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from explained_examples import failure

import openinfer
from openinfer.cli import main
from openinfer.cli.commands import devices, lsp
from openinfer.cli.explanations import codes, explanation, format_codes
from openinfer.cli.explanations.examples import findings
from openinfer.cli.explanations.pages import error_index, messages
from openinfer.cli.failures import findings_of
from openinfer.cli.findings import as_json
from openinfer.diagnostics import render
from openinfer.errors import ExecutionError, ModelImportError, OpenInferError
from openinfer.ops.schema import InputSpec, OpSchema, Primitive
from openinfer.plugins import loader
from openinfer.plugins.environment import Environment
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.plugins.types import (
    API_VERSION,
    Availability,
    CodeSpec,
    CommandSpec,
    DeviceSpec,
    Fallback,
    ImporterSpec,
    KernelSpec,
    SynthTargetSpec,
)
from openinfer.synth.bundle import Bundle
from openinfer.synth.proof import Alarm, Proof
from openinfer.synth.target import RunResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.diagnostics import Diagnostic

GOLDEN = Path(__file__).parents[1] / "golden" / "diagnostics"
PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
SOURCES = sorted(Path(__file__).parents[3].glob("openinfer-*/src")) or [Path(openinfer.__file__).parent]
EXPLAINED = Path(openinfer.__file__).parent / "cli" / "explanations"
RUN = [code for code in codes() if explanation(code).host or explanation(code).command]
SHOWN = [code for code in codes() if code not in RUN]


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


def golden_texts(found: Sequence[Diagnostic]) -> dict[str, str]:
    """Return what the golden files of some findings hold, by ending."""
    document = json.dumps([as_json(finding) for finding in found], indent=2, ensure_ascii=False) + "\n"
    return {"txt": "".join(f"{render(finding)}\n" for finding in found), "json": document}


@pytest.mark.parametrize("code", SHOWN)
def test_what_is_said_is_the_golden_file(code: str) -> None:
    for ending, text in golden_texts(findings(explanation(code), explanation(code).wrong)).items():
        assert golden(f"{code}.{ending}", text) == text


def test_there_is_a_golden_file_for_each_code_and_no_other() -> None:
    wanted = {f"{code}.{ending}" for code in codes() for ending in ("txt", "json")}
    assert {file.name for file in GOLDEN.iterdir()} == wanted


def test_every_code_shows_a_message() -> None:
    assert [code for code in codes() if f"[{code}]" not in messages(explanation(code))] == []


@pytest.mark.rule("api.codes.1")
def test_every_code_has_an_example_that_runs_or_is_checked() -> None:
    assert [code for code in SHOWN if not explanation(code).wrong or explanation(code).said] == []
    assert [code for code in RUN if explanation(code).host and explanation(code).command] == []


class Plugin:
    """A plugin whose operators, device, target and commands fail in every way that examples show."""

    OPENINFER_API = API_VERSION

    @hookimpl
    def openinfer_ops(self) -> Iterator[OpSchema]:
        for name in ("f", "g"):
            yield OpSchema(
                name=name,
                summary="an operator of a plugin",
                category="example",
                inputs=(InputSpec(name="x"),),
                dtypes=frozenset({"f32"}),
                infer=lambda inputs, *_: (inputs[0],),
                definition=Primitive(),
            )

    @hookimpl
    def openinfer_kernels(self, target: str) -> Iterator[KernelSpec]:
        if target == "cpu":
            yield KernelSpec(op="f", kernel=lambda *_: give_up)

    @hookimpl
    def openinfer_devices(self) -> Iterator[DeviceSpec]:
        parts = {"probe": "example_plugin:probe", "backend": "example_plugin:Backend"}
        yield DeviceSpec(name="npu", summary="a device", expression_dtypes=frozenset({"f32"}), **parts)
        parts["probe"] = "example_plugin:probe_gpu"
        left = Fallback(device="cpu", dtypes=frozenset({"f64"}))
        types = frozenset({"f32"})
        yield DeviceSpec(name="gpu", summary="a device", expression_dtypes=types, fallback=left, **parts)

    @hookimpl
    def openinfer_synth_targets(self) -> Iterator[SynthTargetSpec]:
        types = frozenset({"f32"})
        yield SynthTargetSpec(name="hasty", summary="zeros", target="example_plugin:Hasty", expression_dtypes=types)

    @hookimpl
    def openinfer_importers(self) -> Iterator[ImporterSpec]:
        yield ImporterSpec(name="net", summary="an importer", suffixes=(".net",), load="example_plugin:import_net")

    @hookimpl
    def openinfer_commands(self) -> Iterator[CommandSpec]:
        yield CommandSpec(name="greet", summary="fails", command="example_plugin:greet")


def give_up() -> None:
    raise ExecutionError("the kernel gave up")


def probe() -> Availability:
    return Availability(available=False, detail="no driver for it was found; install npu-driver")


def probe_gpu() -> Availability:
    return Availability(available=True, detail="it is there")


class Hasty:
    """A synth target that yields zeros, whatever the program is."""

    epilogues = False

    def emit(self, plan: object) -> Bundle:
        del plan
        return Bundle({"main.c": b""})

    def build_and_run(self, plan: Any, *_: object, **__: object) -> RunResult:
        return RunResult({port.name: np.zeros(port.type.shape, np.float32) for port in plan.outputs}, 0.0)

    def prove(self, plan: object, *, timeout: float) -> tuple[Proof, Bundle]:
        del timeout
        alarm = Alarm(file="main.c", line=12, function="step", kind="mem_access", condition=r"\valid(y + i)")
        options = ("--fast",)
        proof = Proof(analyser="Hasty", version="1", options=options, form="c99", alarms=(alarm,), seconds=0.0)
        return proof, self.emit(plan)


@click.command
def greet() -> None:
    raise OpenInferError("there is nobody to greet")


def import_net(path: Path, *_: object) -> None:
    if "Reshape" in path.read_text(encoding="utf-8"):
        message = "node Reshape: the input `shape` has to be known: fix it with --set shape=VALUE"
        raise ModelImportError(message, code="import-value", inputs=["shape"])
    raise ModelImportError("node NonZero: no operator implements it", code="import-unsupported")


@pytest.fixture(scope="module")
def environment() -> Environment:
    """Our own plugins as far as they are installed, and the failing one; nobody else's."""
    return load_environment(allow=("oinf", "cpu", "c", "example"), extra=[("example", Plugin())], strict=True)


def without_pygls(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(lsp, "find_spec", lambda _: None)
    # As in an active environment; another one names the path of its interpreter.
    patch.setattr(lsp, "install_command", lambda requirement: f'python -m pip install "{requirement}"')


def with_a_mistake(patch: pytest.MonkeyPatch, _: Path) -> None:
    def mistaken(*_: object) -> None:
        raise KeyError("y")

    patch.setattr(devices, "_row", mistaken)


def without_compiler(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.delenv("CC", raising=False)
    patch.setenv("PATH", "")


def with_compiler(script: str) -> Callable[[pytest.MonkeyPatch, Path], None]:
    def make_true(patch: pytest.MonkeyPatch, folder: Path) -> None:
        file = folder / "compiler.sh"
        file.write_text(script, encoding="ascii")
        patch.setenv("CC", shlex.join(("sh", str(file))))

    return make_true


GIVEN: dict[str, Callable[[pytest.MonkeyPatch, Path], None]] = {
    "environment": without_pygls,
    "internal": with_a_mistake,
    "no-analyser": without_compiler,
    "no-compiler": without_compiler,
    "tool-failed": with_compiler("echo cannot write objects >&2; exit 4"),
    "tool-timeout": with_compiler("sleep 60"),
}
"""How to set up the condition that an example is `given`, in addition to the plugin."""


@pytest.mark.parametrize("code", RUN)
def test_the_host_or_command_of_an_example_gets_the_code_and_the_message(
    code: str, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained = explanation(code)
    if not {"cpu", "npu"} <= set(environment.devices) or "c" not in environment.targets:
        pytest.skip("the device cpu and the target c are not installed to run examples with")
    parts = {"probe": probe, "probe_gpu": probe_gpu, "Hasty": Hasty, "greet": greet, "import_net": import_net}
    monkeypatch.setitem(sys.modules, "example_plugin", SimpleNamespace(**parts))
    monkeypatch.setattr(loader, "default_environment", lambda: environment)
    for make_true in [GIVEN[code]] if code in GIVEN else []:
        make_true(monkeypatch, tmp_path)
    error = failure(explained, tmp_path)
    assert error is not None
    for ending, text in golden_texts(findings_of(error)).items():
        assert golden(f"{code}.{ending}", text) == text
    assert said(code, "\n".join(render(found) for found in findings_of(error))).startswith(f"error[{code}]")


def said(code: str, text: str) -> str:
    """Compare the message that an explanation shows, writing it first when asked to."""
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        file = EXPLAINED / f"{code}.toml"
        head, _, _ = file.read_text(encoding="utf-8").partition("said = '''\n")
        file.write_text(f"{head}said = '''\n{text}\n'''\n", encoding="utf-8", newline="\n")
    assert explanation(code).said.rstrip("\n") == text
    return text


def _parameters(function: ast.FunctionDef) -> list[str]:
    """Return the names of parameters; that of one that is C text under construction is empty."""
    return ["" if _is_c_text(argument.annotation) else argument.arg for argument in function.args.args]


def _is_c_text(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Code"


class CodeScan(ast.NodeVisitor):
    """Finds the codes that a package gives to findings and errors.

    These are `default_code` of classes, ``code=`` arguments, and what is where a function or a class has a
    parameter `code`; names are looked up among the constants of the package.
    """

    def __init__(self, modules: Sequence[ast.Module]) -> None:
        self.found: set[str] = set()
        self._constants: dict[str, set[str]] = {}
        self._places: dict[str, set[int]] = {}
        for module in modules:
            for node in ast.walk(module):
                self._learn(node)
        for module in modules:
            self.visit(module)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant(str(value))):
                self._constants.setdefault(name, set()).add(value)
            case ast.FunctionDef() if node.name != "__init__":
                self._learn_parameters(node.name, _parameters(node))
            case ast.ClassDef():
                fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
                self._learn_parameters(node.name, [name.id for name in fields if isinstance(name, ast.Name)])
                for made in node.body:
                    if isinstance(made, ast.FunctionDef) and made.name == "__init__":
                        self._learn_parameters(node.name, _parameters(made))
            case _:
                pass

    def _learn_parameters(self, name: str, parameters: Sequence[str]) -> None:
        given = [parameter for parameter in parameters if parameter not in ("self", "cls")]
        if "code" in given:
            self._places.setdefault(name, set()).add(given.index("code"))

    def _take(self, value: ast.expr) -> None:
        match value:
            case ast.Constant(str(code)):
                self.found.add(code)
            case ast.IfExp():
                self._take(value.body)
                self._take(value.orelse)
            case ast.BoolOp():
                for part in value.values:
                    self._take(part)
            case ast.Name(name) if name.isupper():
                self.found |= self._constants.get(name, set())
            case _:
                pass

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in ("code", "default_code"):
            self._take(node.value)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        named = [*node.args.posonlyargs, *node.args.args]
        pairs = [*zip(reversed(named), reversed(node.args.defaults), strict=False)]
        pairs += [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
        for argument, default in pairs:
            if argument.arg == "code" and default is not None:
                self._take(default)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        for place in self._places.get(name, ()):
            if place < len(node.args):
                self._take(node.args[place])
        for keyword in node.keywords:
            if keyword.arg == "code":
                self._take(keyword.value)
        self.generic_visit(node)


def raised() -> set[str]:
    """Return the codes that all packages raise, but for the container's own (`W_` and `E_`).

    Checkers also hand pairs of a code and a message around: every word with hyphens in them counts.
    """
    found: set[str] = set()
    for source in SOURCES:
        trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(source.rglob("*.py"))}
        found |= CodeScan([*trees.values()]).found
        checkers = (tree for file, tree in trees.items() if {"dsl", "ir", "validate"} & set(file.parts))
        texts = (node.value for tree in checkers for node in ast.walk(tree) if isinstance(node, ast.Constant))
        found |= {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+(-[a-z]+)+", text)}
    return {code for code in found if re.fullmatch(r"[a-z0-9-]+", code)}


@pytest.mark.rule("api.codes.1")
def test_the_codes_that_are_raised_are_those_that_are_explained() -> None:
    if len(SOURCES) < 5:
        pytest.skip("the sources of the other packages are not next to the tests")
    assert raised() - {"utf-8-sig"} == set(codes())


def test_the_error_index_is_up_to_date() -> None:
    if not PAGE.parent.is_dir():
        pytest.skip("the documentation is not next to the tests")
    page = error_index()
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8", newline="\n")
    assert PAGE.read_text(encoding="utf-8") == page


def test_explain_shows_meaning_message_and_remedy() -> None:
    result = run("explain", "missing-entry")
    assert result.exit_code == 0
    assert result.output == (
        "missing-entry: found when the structure is checked\n\n"
        "A step starts at the block `entry`, but the program has none.\n\n"
        "For example:\n\n    block main { return; }\n\n"
        "error[missing-entry]: there is no block `entry`\n"
        "  help: a step starts at `block entry { … }`: call the block `main` `entry`?\n\n"
        "Right is:\n\n    block entry {\n      return;\n    }\n"
    )


def test_explain_as_json_is_the_source_of_the_entry() -> None:
    document = json.loads(run("explain", "--json", "unbound").output)
    assert (document["code"], document["phase"], document["kind"]) == ("unbound", "V", "program")
    assert document["wrong"].startswith("constant { w: f32[4]; }")


def test_explain_lists_all_codes() -> None:
    listed = {row["code"] for row in json.loads(run("explain", "--list", "--json").output)}
    assert listed == {*codes(), *format_codes()}
    assert "missing-entry" in run("explain", "--list").output


def test_codes_of_model_formats_are_explained_by_their_packages() -> None:
    if "oinf" not in Environment.default().model_formats:
        pytest.skip("the container's package is not installed")
    result = run("explain", "E_MAGIC")
    assert result.exit_code == 0
    assert result.output.startswith("E_MAGIC: found when a model file is read or written\n\nThe file does not start")
    assert "did you mean `E_MAGIC`" in run("explain", "e_magic").output


def test_codes_of_plugins_are_explained_and_do_not_replace_those_of_openinfer(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = {name: CodeSpec(name=name, text="It is theirs.") for name in ("acme-shape", "syntax")}
    environment = replace(Environment.default(), codes=offered)
    monkeypatch.setattr(Environment, "default", staticmethod(lambda: environment))

    assert run("explain", "acme-shape").output == "acme-shape: found by a plugin\n\nIt is theirs.\n"
    assert "It is theirs." not in run("explain", "syntax").output
    assert "acme-shape" in run("explain", "--list").output


def test_a_code_of_a_plugin_and_of_a_format_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = next(iter(format_codes()), None)
    if shared is None:
        pytest.skip("no model format is installed")
    environment = replace(Environment.default(), codes={shared: CodeSpec(name=shared, text="It is theirs.")})
    monkeypatch.setattr(Environment, "default", staticmethod(lambda: environment))

    listed = [row["code"] for row in json.loads(run("explain", "--list", "--json").output)]
    assert listed.count(shared) == 1


def test_an_unknown_code_gets_a_near_one() -> None:
    result = run("explain", "unknown-variabel")
    assert result.exit_code == 1
    assert "did you mean `unknown-variable`" in result.output


@pytest.mark.parametrize("arguments", [[], ["syntax", "--list"]])
def test_exactly_one_code_is_requested(arguments: list[str]) -> None:
    assert run("explain", *arguments).exit_code == 2
