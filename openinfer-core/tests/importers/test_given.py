"""What people give to an import is checked, and its two files are written together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_models import INT64, info, model, node, saved, weights

from openinfer import ModelImportError, ModelLoader
from openinfer.cli import main
from openinfer.importers import load, verify
from openinfer.plugins.environment import Environment
from openinfer_oinf.atomicfile import AtomicFile

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")


def adding(folder: Path) -> Path:
    """Write a model that adds an integer and a weight to its input."""
    nodes = [node("Add", "x s", "t"), node("Cast", "t", "f", to=1), node("Mul", "f w", "y")]
    inputs = [info("x", ["a"], INT64), info("s", [2], INT64)]
    return saved(model(nodes, inputs, [info("y", None)], weights(w=np.ones(2, np.float32))), folder)


def test_a_container_is_not_replaced_where_the_program_cannot_be(tmp_path: Path) -> None:
    imported = load(adding(tmp_path), values={"a": 2})
    (tmp_path / "old.oinf").write_bytes(b"before")
    (tmp_path / "old.oi").mkdir()
    with pytest.raises(IsADirectoryError):
        imported.save(tmp_path, "old")
    assert (tmp_path / "old.oinf").read_bytes() == b"before"


def test_a_program_is_not_replaced_where_the_container_cannot_be(tmp_path: Path) -> None:
    imported = load(adding(tmp_path), values={"a": 2})
    (tmp_path / "old.oi").write_text("before", encoding="utf-8")
    (tmp_path / "old.oinf").mkdir()
    with pytest.raises(Exception, match=r"old\.oinf"):
        imported.save(tmp_path, "old")
    assert (tmp_path / "old.oi").read_text(encoding="utf-8") == "before"
    (tmp_path / "old.oinf").rmdir()
    program, container = imported.save(tmp_path, "old")
    assert program.read_text(encoding="utf-8") == imported.text
    assert set(ModelLoader.open(container).tensors) == set(imported.model.tensors)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "s=empty.npy"], "'empty.npy' is not an array file (.npy): it is empty"),
        (
            ["--set", "s=random"],
            "the value for input 's' is 'random', expected a number, true, false, numbers with commas",
        ),
        (["--verify", "--input", "s=empty.npy"], "'empty.npy' is not an array file (.npy): it is empty"),
        (["--verify", "--input", "s=one"], "`s`: expected a file ending in .npy, random, zeros, a number, true"),
        (["--verify", "--input", "s"], "expected NAME=FILE.npy, NAME=random, NAME=zeros or NAME=VALUE, found 's'"),
        (
            ["--set", "a=true"],
            "dimension 'a' is set to True, expected a whole number from 0 on, or the name of another dimension among",
        ),
        (["--set", "s=2.7,2"], "the value for input 's' has the element 2.7, which its type i64 cannot hold"),
        (["--name", "../evil"], "expected a name without a folder, found '../evil'"),
    ],
)
def test_what_an_option_cannot_be_is_said(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = adding(tmp_path)
    (tmp_path / "empty.npy").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["import", str(path), "-o", "build", *options])
    assert result.exit_code != 0
    assert said in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "evil.oi").exists()


@pytest.mark.parametrize("value", [[2.5, 1], [1e30, 0], [1 << 70, 0], [float("nan"), 0]])
def test_values_that_a_type_cannot_hold_are_refused_as_constants_and_as_inputs(value: Any, tmp_path: Path) -> None:
    path = adding(tmp_path)
    with pytest.raises(ModelImportError, match="the value for input 's'"):
        load(path, values={"s": value})
    with pytest.raises(ModelImportError, match="the value for input 's'"):
        verify(path, load(path, values={"a": 2}), values={"a": 2}, inputs={"s": value})


@pytest.mark.parametrize("name", ["", "..", "in/side", "in\\side", "/absolute"])
def test_a_name_with_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    imported = load(adding(tmp_path), values={"a": 2})
    with pytest.raises(ValueError, match="expected a name without a folder"):
        imported.save(tmp_path / "out", name)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_container_is_as_before_where_its_program_cannot_follow(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = load(adding(tmp_path), values={"a": 2})
    folder = tmp_path / "out"
    if is_there:
        imported.save(folder, "m")
        (folder / "m.oinf").write_bytes(b"before")
    commit = AtomicFile.commit

    def failing(file: AtomicFile) -> None:
        if list(folder.glob("m.oinf")) and (folder / "m.oinf").read_bytes() != b"before":
            file.discard()
            raise OSError("no room")
        commit(file)

    monkeypatch.setattr(AtomicFile, "commit", failing)
    with pytest.raises(OSError, match="no room"):
        imported.save(folder, "m")
    monkeypatch.undo()
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert left.get("m.oinf") == (b"before" if is_there else None)
    assert set(left) == ({"m.oi", "m.oinf"} if is_there else set())
