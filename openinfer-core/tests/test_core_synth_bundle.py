"""Bundles are written all at once or not at all, and never over anything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openinfer.errors import SynthesisError
from openinfer.synth.bundle import MARKER, Bundle, write_bundle

BUNDLE = Bundle({"model.c": b"int x;\n", "Makefile": b"all:\n"}, products=("model",))


def contents(directory: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.name != MARKER}


def test_files_are_written_with_parents(tmp_path):
    target = write_bundle(BUNDLE, tmp_path / "a" / "b")

    assert target == tmp_path / "a" / "b"
    assert contents(target) == dict(BUNDLE.files)
    assert [entry.name for entry in target.parent.iterdir()] == ["b"]


def test_an_empty_directory_is_taken(tmp_path):
    (tmp_path / "out").mkdir()

    assert contents(write_bundle(BUNDLE, tmp_path / "out")) == dict(BUNDLE.files)


@pytest.mark.parametrize("spelled", [".", "..", "inner/..", "../out"])
def test_the_current_directory_is_not_replaced(tmp_path, monkeypatch, spelled):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    if spelled == "..":
        (tmp_path / "out" / "deep").mkdir()
        monkeypatch.chdir(tmp_path / "out" / "deep")

    with pytest.raises(SynthesisError) as caught:
        write_bundle(BUNDLE, spelled)

    assert caught.value.code == "output-directory"
    assert spelled == ".." or "is the current directory or one around it" in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_directory_may_be_named_with_dots(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    assert contents(write_bundle(BUNDLE, "../here/./out")) == dict(BUNDLE.files)


def test_an_earlier_bundle_is_replaced_with_what_was_built_in_it(tmp_path):
    target = write_bundle(Bundle({"old.c": b"", "model.c": b""}, products=("model",)), tmp_path / "out")
    (target / "model").write_bytes(b"\x7fELF")

    write_bundle(BUNDLE, target)

    assert contents(target) == dict(BUNDLE.files)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_directory_with_something_else_is_left_alone(tmp_path):
    target = write_bundle(BUNDLE, tmp_path / "out")
    (target / "notes.txt").write_text("mine")

    with pytest.raises(SynthesisError, match=r"holds 'notes\.txt', which is no part of a bundle") as caught:
        write_bundle(BUNDLE, target)

    assert caught.value.code == "output-directory"
    assert (target / "notes.txt").read_text() == "mine"


def test_a_marker_cannot_name_files_elsewhere(tmp_path):
    target = tmp_path / "out"
    (target / "sub").mkdir(parents=True)
    (target / MARKER).write_text("../sub\nsub/x.c\n")

    with pytest.raises(SynthesisError, match="holds 'sub'"):
        write_bundle(BUNDLE, target)


def test_a_file_in_the_place_of_the_directory_is_left_alone(tmp_path):
    (tmp_path / "out").write_text("mine")

    with pytest.raises(SynthesisError, match="exists and is no directory"):
        write_bundle(BUNDLE, tmp_path / "out")

    assert (tmp_path / "out").read_text() == "mine"


def test_a_link_in_the_place_of_the_directory_is_left_alone(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")

    with pytest.raises(SynthesisError, match="exists and is no directory"):
        write_bundle(BUNDLE, tmp_path / "out")


def test_a_parent_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SynthesisError, match=r"cannot write the bundle to .*: ") as caught:
        write_bundle(BUNDLE, tmp_path / "file" / "out")

    assert caught.value.code == "output-directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory_is_one_clear_error(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.raises(SynthesisError, match="Permission denied"):
        write_bundle(BUNDLE, tmp_path / "out")


def test_a_failure_leaves_nothing_half_written(tmp_path, monkeypatch):
    target = write_bundle(BUNDLE, tmp_path / "out")
    opened = Path.open

    def fail_on_c(self, mode="r", *arguments, **named):
        if self.suffix == ".c" and "x" in mode:
            raise OSError(28, "No space left on device")
        return opened(self, mode, *arguments, **named)

    monkeypatch.setattr(Path, "open", fail_on_c)
    with pytest.raises(SynthesisError, match="No space left on device"):
        write_bundle(Bundle({"model.c": b"new"}), target)
    monkeypatch.undo()

    assert contents(target) == dict(BUNDLE.files)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["../x.c", "a/b.c", "", ".hidden", "x", "con:.c", "x.c\n"])
def test_only_plain_file_names_are_taken(name):
    with pytest.raises(SynthesisError, match="no plain file name"):
        Bundle({name: b""})


def test_files_come_in_order_of_name():
    assert list(Bundle({"b.c": b"", "a.c": b""}).files) == ["a.c", "b.c"]
