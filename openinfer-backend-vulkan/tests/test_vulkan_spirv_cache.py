"""Compiled shaders on disk: private, whole, and never in the way."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from openinfer.errors import EnvironmentLacksError, UnsupportedError
from openinfer_backend_vulkan import compiler, spirv_cache
from openinfer_backend_vulkan.compiler import ShaderCompiler, compile_shader, find_compiler, is_spirv

MODULE = (0x07230203).to_bytes(4, "little") + bytes(20)
GLSL = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def need_compiler() -> None:
    if find_compiler() is None:
        pytest.skip("no GLSL compiler on PATH")


def test_what_was_kept_comes_back(base: Path) -> None:
    spirv_cache.keep("ab", MODULE)

    assert spirv_cache.cached("ab") == MODULE
    assert spirv_cache.cached("cd") is None


def test_the_directory_is_private_and_holds_finished_files_only(base: Path) -> None:
    spirv_cache.keep("ab", MODULE)

    directory = base / "openinfer-spirv"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [file.name for file in directory.iterdir()] == ["ab.spv"]


def test_a_directory_that_others_can_write_to_is_not_used(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = base / "openinfer-spirv"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "ab.spv").write_bytes(MODULE)

    with caplog.at_level(logging.WARNING):
        assert spirv_cache.cached("ab") is None
        spirv_cache.keep("cd", MODULE)

    assert not (directory / "cd.spv").exists()
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["its mode is 0777, expected 0700"]


def test_a_link_in_place_of_the_directory_is_not_used(base: Path) -> None:
    elsewhere = base / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (base / "openinfer-spirv").symlink_to(elsewhere)

    spirv_cache.keep("ab", MODULE)

    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners on this system")
def test_a_directory_of_another_user_is_not_used(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "openinfer-spirv").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    spirv_cache.keep("ab", MODULE)

    assert list((base / "openinfer-spirv").iterdir()) == []


def test_a_shader_is_compiled_once(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_compiler()
    first = compile_shader(GLSL)
    monkeypatch.setattr(compiler, "_compiled", lambda *_: pytest.fail("compiled again"))

    assert compile_shader(GLSL) == first
    assert is_spirv(first)


def test_another_compiler_version_compiles_again(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def compiled(which: ShaderCompiler, source: str) -> bytes:
        made.append(which.version)
        return MODULE

    monkeypatch.setattr(compiler, "_compiled", compiled)
    for version in ("1", "2", "2"):
        monkeypatch.setattr(compiler, "find_compiler", lambda v=version: ShaderCompiler("glslang", v))
        compile_shader(GLSL)

    assert made == ["1", "2"]


@pytest.mark.parametrize("rubbish", [b"", b"\x03\x02\x23\x07", b"not a shader, but long enough....", MODULE + b"\0"])
def test_a_damaged_file_is_compiled_again(base: Path, monkeypatch: pytest.MonkeyPatch, rubbish: bytes) -> None:
    monkeypatch.setattr(compiler, "find_compiler", lambda: ShaderCompiler("glslang", "1"))
    monkeypatch.setattr(compiler, "_compiled", lambda *_: MODULE)
    compile_shader(GLSL)
    (file,) = (base / "openinfer-spirv").iterdir()
    file.write_bytes(rubbish)

    assert compile_shader(GLSL) == MODULE
    assert file.read_bytes() == MODULE


def test_refused_source_names_the_compilers_reason(base: Path) -> None:
    need_compiler()

    with pytest.raises(UnsupportedError, match=r"refuses a kernel: .*undeclared_name"):
        compile_shader(GLSL.replace("{}", "{ undeclared_name = 1; }"))


def test_without_a_compiler_the_advice_is_given(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(base))

    with pytest.raises(EnvironmentLacksError, match="apt install glslang-tools"):
        compile_shader(GLSL)
