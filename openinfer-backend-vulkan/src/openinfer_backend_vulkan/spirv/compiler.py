"""GLSL to SPIR-V through the compiler found on the machine; results are kept in a private directory on disk."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from openinfer.errors import MissingDependencyError, UnsupportedError
from openinfer.object_cache import ObjectCache
from openinfer.scratch import scratch_directory
from openinfer_backend_vulkan.spirv.matrices import with_portable_matrices

NAMES = ("glslangValidator", "glslang")
"""Names under which distributions install the compiler."""

ADVICE = "install it (Debian: apt install glslang-tools)"
FLAGS = ("-V", "--target-env", "vulkan1.1", "-S", "comp")
_TIME_LIMIT_S = 60.0

_CACHE = ObjectCache(name="openinfer-spirv", suffix=".spv", holds="compiled shaders")


@dataclass(frozen=True, slots=True)
class ShaderCompiler:
    """A GLSL compiler: its path and what it says of its version."""

    path: str
    version: str


def find_compiler() -> ShaderCompiler | None:
    """Return the compiler on the search path, or None if there is no working one."""
    path = next((program for program in map(shutil.which, NAMES) if program), None)
    return None if path is None else _described(path)


@cache
def _described(path: str) -> ShaderCompiler | None:
    try:
        finished = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = finished.stdout.partition("\n")[0].strip()
    return ShaderCompiler(path, first.removeprefix("Glslang Version:").strip() or "unknown version")


def compile_shader(source: str) -> bytes:
    """Return the SPIR-V of a compute shader.

    Raises:
        MissingDependencyError: there is no compiler.
        UnsupportedError: the compiler refuses the source; its message is included.
    """
    compiler = find_compiler()
    if compiler is None:
        message = f"no GLSL compiler ({' or '.join(NAMES)}) on PATH: {ADVICE}"
        raise MissingDependencyError(message)
    key = hashlib.sha256("\0".join([compiler.version, *FLAGS, source]).encode()).hexdigest()
    cached = _CACHE.read(key)
    if cached is not None:
        return with_portable_matrices(cached)
    code = _compiled(compiler, source)
    _CACHE.keep(key, code)
    return with_portable_matrices(code)


def _compiled(compiler: ShaderCompiler, source: str) -> bytes:
    with scratch_directory() as directory:
        source_file, made = directory / "kernel.comp", directory / "kernel.spv"
        source_file.write_text(source, encoding="utf-8")
        command = [compiler.path, *FLAGS, "-o", str(made), str(source_file)]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise UnsupportedError(f"{compiler.path} did not finish within {_TIME_LIMIT_S:.0f} s") from error
        if finished.returncode or not made.is_file():
            said = "; ".join(line for line in finished.stdout.splitlines() if "ERROR" in line) or finished.stderr
            raise UnsupportedError(f"{compiler.path} refuses a kernel: {said.strip() or 'no reason given'}")
        return made.read_bytes()
