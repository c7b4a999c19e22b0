"""Shaders: compiled once, again where what was kept is damaged, and with the compiler's reasons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from openinfer.errors import MissingDependencyError, UnsupportedError
from openinfer_backend_vulkan.spirv import compiler
from openinfer_backend_vulkan.spirv.compiler import ShaderCompiler, compile_shader, find_compiler

MODULE = (0x07230203).to_bytes(4, "little") + bytes(20)
GLSL = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def need_compiler() -> None:
    if find_compiler() is None:
        pytest.skip("no GLSL compiler on PATH")


def test_a_shader_is_compiled_once(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_compiler()
    first = compile_shader(GLSL)
    monkeypatch.setattr(compiler, "_compiled", lambda *_: pytest.fail("compiled again"))

    assert compile_shader(GLSL) == first


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


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda _: b"not a shader, but longer than a digest is", id="something-else"),
        pytest.param(lambda _: MODULE, id="without-digest"),
        pytest.param(lambda kept: kept[:-4], id="a-word-less"),
        pytest.param(lambda kept: kept + bytes(4), id="a-word-more"),
        pytest.param(lambda kept: kept[:-1] + b"\1", id="another-bit"),
    ],
)
def test_a_damaged_file_is_compiled_again(
    base: Path, monkeypatch: pytest.MonkeyPatch, damaged: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(compiler, "find_compiler", lambda: ShaderCompiler("glslang", "1"))
    monkeypatch.setattr(compiler, "_compiled", lambda *_: MODULE)
    compile_shader(GLSL)
    (file,) = (base / "openinfer-spirv").iterdir()
    kept = file.read_bytes()
    file.write_bytes(damaged(kept))

    assert compile_shader(GLSL) == MODULE
    assert file.read_bytes() == kept


def test_refused_source_names_the_compilers_reason(base: Path) -> None:
    need_compiler()

    with pytest.raises(UnsupportedError, match=r"refuses a kernel: .*undeclared_name"):
        compile_shader(GLSL.replace("{}", "{ undeclared_name = 1; }"))


def test_without_a_compiler_the_advice_is_given(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(base))

    with pytest.raises(MissingDependencyError, match="apt install glslang-tools"):
        compile_shader(GLSL)
