"""Compiled objects on disk: private, whole, never taken from where others can write, and never in the way."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from openinfer.object_cache import ObjectCache, cache_base
from openinfer_oinf.staging import staging_name

CACHE = ObjectCache(name="openinfer-tests", suffix=".obj", holds="compiled tests")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where objects go, not made yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "openinfer-tests"


def test_what_was_kept_comes_back(directory: Path) -> None:
    assert CACHE.keep("ab", b"object") == directory / "ab.obj"

    assert CACHE.find("ab") == directory / "ab.obj"
    assert CACHE.read("ab") == b"object"
    assert (CACHE.find("cd"), CACHE.read("cd")) == (None, None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda kept: kept[:-1],
        lambda kept: kept + b"x",
        lambda kept: b"O" + kept[1:],
        lambda _: b"object",
    ],
)
def test_a_damaged_object_is_none(directory: Path, damage: Callable[[bytes], bytes]) -> None:
    file = CACHE.keep("ab", b"object")
    assert file is not None
    file.write_bytes(damage(file.read_bytes()))

    assert (CACHE.find("ab"), CACHE.read("ab")) == (None, None)


def names(directory: Path) -> list[str]:
    return sorted(file.stem for file in directory.iterdir())


def test_objects_that_were_used_least_recently_make_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_MIB", "3")
    for age, key in enumerate(("ab", "cd", "ef")):
        file = CACHE.keep(key, bytes(900_000))
        assert file is not None
        os.utime(file, (1000 + age, 1000 + age))
    assert CACHE.read("ab") is not None

    CACHE.keep("gh", bytes(900_000))

    assert names(directory) == ["ab", "ef", "gh"]


def test_an_object_above_the_limit_is_the_only_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_MIB", "1")
    CACHE.keep("ab", b"object")

    assert CACHE.keep("cd", bytes(2 << 20)) == directory / "cd.obj"

    assert names(directory) == ["cd"]


def test_nothing_is_kept_without_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_MIB", "0")

    assert CACHE.keep("ab", b"object") is None

    assert names(directory) == []


@pytest.mark.parametrize("given", ["much", "-1", "1.5", "٣"])
def test_a_limit_that_is_not_a_number_is_reported(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_MIB", given)

    assert CACHE.keep("ab", b"object") is not None

    assert f"OPENINFER_CACHE_MIB is {given!r}, expected a whole number of MiB" in caplog.text


def test_what_killed_processes_left_is_removed(directory: Path) -> None:
    CACHE.keep("ab", b"object")
    abandoned = directory / staging_name("cd")
    abandoned.write_bytes(b"obj")

    CACHE.keep("cd", b"object")

    assert names(directory) == ["ab", "cd"]


def test_the_directory_is_private_and_holds_finished_files_only(directory: Path) -> None:
    CACHE.keep("ab", b"object")

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in directory.iterdir()] == [("ab.obj", 0o600)]


def test_an_object_takes_the_place_of_a_damaged_one(directory: Path) -> None:
    CACHE.keep("ab", b"dama")

    CACHE.keep("ab", b"object")

    assert CACHE.read("ab") == b"object"


def test_caches_of_other_names_are_apart(directory: Path) -> None:
    CACHE.keep("ab", b"object")

    assert ObjectCache(name="openinfer-others", suffix=".obj", holds="others").find("ab") is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o702])
def test_a_directory_that_others_can_reach_is_not_used(
    directory: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    directory.mkdir()
    directory.chmod(mode)
    (directory / "ab.obj").write_bytes(b"foreign")

    with caplog.at_level(logging.WARNING):
        assert CACHE.find("ab") is CACHE.read("ab") is CACHE.keep("cd", b"object") is None

    assert [file.name for file in directory.iterdir()] == ["ab.obj"]
    reported = f"compiled tests are not kept in {directory}: its mode is {mode:04o}, expected 0700"
    assert [record.getMessage() for record in caplog.records] == [reported]


def test_a_link_in_place_of_the_directory_is_not_used(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = directory.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    directory.symlink_to(elsewhere)

    assert CACHE.keep("ab", b"object") is None

    assert list(elsewhere.iterdir()) == []
    assert "it is not a directory" in caplog.text


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners on this system")
def test_a_directory_of_another_user_is_not_used(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    assert CACHE.keep("ab", b"object") is None

    assert list(directory.iterdir()) == []
    assert "another user owns it" in caplog.text


@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_to_is_read(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    CACHE.keep("ab", b"object")
    directory.chmod(0o500)

    assert (CACHE.read("ab"), CACHE.keep("cd", b"object")) == (b"object", None)

    assert "Permission denied" in caplog.text


def test_a_failed_write_is_reported_once_and_leaves_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    assert CACHE.keep("ab", b"object") is CACHE.keep("cd", b"object") is None

    assert list(directory.iterdir()) == []
    assert [record.getMessage() for record in caplog.records] == [
        f"compiled tests are not kept in {directory}: No space left on device"
    ]


def test_a_base_that_cannot_hold_directories_is_reported(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = directory.with_name("file")
    file.write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))

    assert CACHE.keep("ab", b"object") is None

    assert f"compiled tests are not kept in {file / 'openinfer-tests'}: Not a directory" in caplog.text


@pytest.mark.parametrize("given", ["", "relative/path"])
def test_without_an_absolute_path_in_the_environment_caches_are_in_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", given)

    assert cache_base() == Path.home() / ".cache"


def test_without_a_home_directory_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)

    assert CACHE.keep("ab", b"object") is CACHE.find("ab") is None

    assert [record.getMessage() for record in caplog.records] == [
        "compiled tests are not kept: there is no home directory"
    ]
