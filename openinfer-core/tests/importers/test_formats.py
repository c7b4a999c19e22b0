"""Which importer reads a file: claimed suffixes, recognised contents, and core's own advice, in this order."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from given_plugins import load

import openinfer as oi
from openinfer import importers
from openinfer.errors import ModelImportError, PluginError
from openinfer.importers.formats import is_for_importers
from openinfer.plugin import Environment, ImportedModel, ImporterSpec, ImportReport, hookimpl
from openinfer.plugins.crossing import PluginWarning

ZIP, HDF5, TFLITE, PICKLE = b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"\x1c\0\0\0TFL3", b"\x80\x04"
PROGRAM = "dynamic { x: f32[3]; }\nblock entry { op neg(x) >> y; return y; }"


class Negated:
    """The original: what another program computes."""

    runner = "NumPy"

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"b": -inputs["a"]}

    values = run


def named_importer(name: str, sniff: Callable[[Path], object] | None = None, **fields: Any) -> tuple[str, ModuleType]:
    """Return a plugin of a name whose importer says in its report that it read the file."""
    module = ModuleType(name)
    module.OPENINFER_API = 1

    def read(*_: object) -> ImportedModel:
        names = {"inputs": {"a": "x"}, "outputs": {"b": "y"}, "values": {}}
        report = ImportReport(format=name, nodes=1, statements=1, folded=0, **names)
        return ImportedModel(graph=oi.graph(PROGRAM), text=PROGRAM, model=oi.Model.from_arrays({}), report=report)

    @hookimpl
    def openinfer_importers() -> Iterator[ImporterSpec]:
        sniffing = {} if sniff is None else {"sniff": f"{name}:sniff"}
        original = f"{name}:original"
        yield ImporterSpec(name=name, summary="s", load=f"{name}:read", original=original, **sniffing, **fields)

    vars(module).update(read=read, sniff=sniff, original=lambda *_: Negated(), openinfer_importers=openinfer_importers)
    return name, module


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Environment]:
    def install(*plugins: tuple[str, ModuleType], **switches: Any) -> Environment:
        for name, module in plugins:
            monkeypatch.setitem(sys.modules, name, module)
        return load(*plugins, **switches)

    return install


def reader_of(path: Path, data: bytes, environment: Environment) -> str:
    path.write_bytes(data)
    return importers.load(path, environment=environment).report.format


@pytest.mark.parametrize(
    ("suffix", "head"), [(".tflite", TFLITE), (".pt", ZIP), (".h5", HDF5), (".keras", ZIP), (".pkl", PICKLE)]
)
def test_a_claimed_suffix_comes_before_advice_and_importers_of_core(
    suffix: str, head: bytes, installed: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = installed(named_importer("acme", suffixes=(suffix,)))

    assert reader_of(tmp_path / f"m{suffix}", head, environment) == "acme"


def test_a_suffix_that_one_importer_claims_decides_between_equal_contents(
    installed: Callable[..., Environment], tmp_path: Path
) -> None:
    first, second = (named_importer(name, suffixes=(f".{name}",), magic=ZIP) for name in ("foo", "bar"))
    environment = installed(first, second)

    assert reader_of(tmp_path / "m.foo", ZIP, environment) == "foo"
    assert reader_of(tmp_path / "m.bar", ZIP, environment) == "bar"
    assert reader_of(tmp_path / "m.zip", ZIP, environment) == "foo"


def test_contents_decide_between_importers_of_one_suffix_and_then_the_order_of_loading(
    installed: Callable[..., Environment], tmp_path: Path
) -> None:
    deep = named_importer("deep", suffixes=(".net",), sniff=lambda path: path.read_bytes().endswith(b"deep"))
    wide = named_importer("wide", suffixes=(".net",), magic=b"wide")
    environment = installed(named_importer("any", suffixes=(".net",)), deep, wide)

    assert reader_of(tmp_path / "a.net", b"is deep", environment) == "deep"
    assert reader_of(tmp_path / "b.net", b"wide", environment) == "wide"
    assert reader_of(tmp_path / "c.net", b"neither", environment) == "any"


def test_a_sniff_function_recognises_folders_and_files_without_a_suffix(
    installed: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = installed(named_importer("folders", suffixes=(), sniff=lambda path: (path / "graph.json").is_file()))
    (tmp_path / "model").mkdir()

    assert not is_for_importers(tmp_path / "model", environment)
    with pytest.raises(ModelImportError, match="Is a directory"):
        importers.load(tmp_path / "model", environment=environment)

    (tmp_path / "model" / "graph.json").write_text("{}", encoding="utf-8")
    assert is_for_importers(tmp_path / "model", environment)
    assert importers.load(tmp_path / "model", environment=environment).report.format == "folders"


def test_files_that_no_plugin_claims_get_the_advice_of_core(
    installed: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = installed(named_importer("acme", suffixes=(".net",), sniff=lambda _: False))

    with pytest.raises(ModelImportError, match="an HDF5 file"):
        reader_of(tmp_path / "m.h5", HDF5, environment)


@pytest.mark.parametrize(("answer", "said"), [("yes", "returned 'yes' .str., expected a bool"), (None, "KeyError")])
def test_a_sniff_function_that_fails_is_named_with_its_plugin(
    answer: str | None, said: str, installed: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = installed(named_importer("acme", suffixes=(), sniff=lambda path: answer or {}[path]))

    with pytest.raises(PluginError, match=said) as raised:
        reader_of(tmp_path / "m.net", b"", environment)
    assert raised.value.plugin == "acme"
    with pytest.warns(PluginWarning, match=said):
        assert not is_for_importers(tmp_path / "m.net", environment)


def test_outputs_of_an_import_need_no_declaration(installed: Callable[..., Environment], tmp_path: Path) -> None:
    pytest.importorskip("openinfer_backend_cpu")
    environment = installed(named_importer("acme", suffixes=(".net",)), allow=["cpu"])
    path = tmp_path / "m.net"
    path.write_bytes(b"")

    imported = importers.load(path, environment=environment)
    checked = importers.verify(path, imported, inputs={"a": lambda *_: np.ones(3, np.float32)}, environment=environment)

    assert "y" not in imported.graph.vars
    assert checked.agrees
