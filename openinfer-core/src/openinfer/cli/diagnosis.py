"""What `openinfer doctor` checks, from versions to switches, and what is wrong there."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from openinfer.boundary import DEBUG
from openinfer.diagnostics import did_you_mean
from openinfer.errors import MissingDependencyError
from openinfer.object_cache import cache_base, unsafe_reason
from openinfer.plugins import switches
from openinfer.plugins.environment import Status
from openinfer.plugins.probing import probe
from openinfer.synth.c_host.toolchain import compiler_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import DeviceSpec

LIBRARIES = ("numpy", "ml_dtypes", "click", "pluggy", "marshmallow", "parsimonious")

GLSL_COMPILERS = ("glslangValidator", "glslang", "glslc")

SWITCHES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(switches.VARIABLES, ()),
    DEBUG: (),
    "OPENINFER_TRACE": ("1", "full"),
    "OPENINFER_VULKAN_TRACE": ("1", "full"),
}
"""Our environment variables, with the values that have an effect where others have none."""

OTHER_VARIABLES = ("CC", "NO_COLOR", "XDG_CACHE_HOME", "VK_ICD_FILENAMES", "VK_DRIVER_FILES", "PYTHONPATH")
"""Variables of others that change what we do."""

SECONDS = 5
"""Time that a compiler has for telling its version."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was checked.

    Attributes:
        state: one word: ``ok``, ``missing``, ``wrong``, or the status of a plugin.
        problem: what is wrong and what to do about it; ``""`` where nothing is.
    """

    name: str
    state: str
    detail: str
    problem: str = ""


def versions() -> Iterator[Fact]:
    """Yield this program, the interpreter, the machine, and the libraries."""
    yield Fact("openinfer", "ok", version("openinfer-core"))
    yield Fact("python", "ok", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}")
    yield Fact("machine", "ok", f"{platform.platform()}, {os.cpu_count() or 1} cores")
    for name in LIBRARIES:
        try:
            yield Fact(name, "ok", version(name))
        except PackageNotFoundError:
            yield Fact(name, "missing", "", f"{name} is not installed: reinstall openinfer-core")


def plugins(environment: Environment) -> Iterator[Fact]:
    """Yield the installed plugins; those that do not work are problems, blocked ones are not."""
    for each in environment.plugins:
        works = each.status in (Status.OK, Status.BLOCKED)
        advice = f"plugin {each.name} of {each.distribution} is {each.status.value}: {each.reason}"
        problem = "" if works else f"{advice}; --plugins-block {each.name} keeps it out"
        detail = f"{each.distribution} {each.version}" + (f": {each.reason}" if each.reason else "")
        yield Fact(each.name, each.status.value, detail, problem)


def devices(environment: Environment) -> Iterator[Fact]:
    """Yield the devices, with what is missing for those that cannot be used here."""
    for name, spec in sorted(environment.devices.items()):
        found = probe(spec, environment.owner("device", name))
        yield Fact(name, "ok" if found.available else "missing", found.detail + left_to_another(spec, environment))
    if not environment.devices:
        problem = "no plugin offers a device: install openinfer-backend-cpu"
        yield Fact("none", "missing", "", problem)


def left_to_another(spec: DeviceSpec, environment: Environment) -> str:
    """Return the text after a device that names the element types which it leaves to another."""
    if spec.fallback is None:
        return ""
    types = spec.fallback.dtypes
    what = "" if types is None else f" for {', '.join(sorted(types))}"
    text = f"; leaves what it does not support{what} to {spec.fallback.device}"
    other = environment.devices.get(spec.fallback.device)
    if other is None:
        return f"{text}, which no loaded plugin offers"
    return (
        text
        if probe(other, environment.owner("device", other.name)).available
        else f"{text}, which cannot be used here"
    )


def targets(environment: Environment) -> Iterator[Fact]:
    """Yield the synth targets."""
    for name, spec in sorted(environment.targets.items()):
        tools = probe(spec, environment.owner("synth target", name))
        detail = "; ".join(part for part in (spec.summary, tools.detail) if part)
        yield Fact(name, "ok" if tools.available else "missing", detail)


def compilers() -> Iterator[Fact]:
    """Yield the compilers that are found, with their versions."""
    try:
        yield _compiler("C", compiler_command())
    except MissingDependencyError as error:
        named = os.environ.get("CC", "")
        if named:
            yield Fact("CC", "wrong", named, f"{error}; give CC a compiler, or unset it")
        yield Fact("C", "missing", str(error))
    found = next((path for path in map(shutil.which, GLSL_COMPILERS) if path is not None), None)
    if found is not None:
        yield _compiler("GLSL", [found])
    else:
        advice = "the device vulkan needs one: install glslang-tools"
        yield Fact("GLSL", "missing", f"none of {', '.join(GLSL_COMPILERS)} is on PATH: {advice}")


def _compiler(language: str, command: Sequence[str]) -> Fact:
    """Return a compiler by its command, which may begin with a launcher such as ccache, and its version."""
    return Fact(language, "ok", f"{' '.join(command)}: {_version(command)}")


def _version(command: Sequence[str]) -> str:
    try:
        finished = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not print its version ({type(error).__name__})"
    lines = (finished.stdout or finished.stderr).strip().splitlines()
    return lines[0].strip() if lines else "it prints no version"


def caches() -> Iterator[Fact]:
    """Yield the directories in which compiled shaders and libraries are kept, and whether others may write there."""
    base = cache_base()
    if base is None:
        yield Fact("cache", "wrong", "", "there is no home directory to keep compiled objects in: set XDG_CACHE_HOME")
        return
    found = sorted(base.glob("openinfer-*"))
    if not found:
        yield Fact("cache", "ok", f"nothing is kept in {base} yet")
    yield from map(_cache, found)


def _cache(directory: Path) -> Fact:
    reason = unsafe_reason(directory)
    if reason is not None:
        problem = f"{directory} is not used, since {reason}: remove it, or chmod 700 it if it is yours"
        return Fact(directory.name, "wrong", f"{directory}: {reason}", problem)
    files = [each for each in directory.iterdir() if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    mode = stat.S_IMODE(directory.stat().st_mode)
    return Fact(directory.name, "ok", f"{directory}: {len(files)} files, {size:,} bytes, mode {mode:04o}")


def variables(environment: Environment) -> Iterator[Fact]:
    """Yield the environment variables in force that change what we do."""
    for name, value in sorted(os.environ.items()):
        if name in OTHER_VARIABLES:
            yield Fact(name, "ok", value)
        elif name.startswith("OPENINFER_"):
            doubt = _doubt(name, value)
            yield Fact(name, "wrong" if doubt else "ok", value, doubt)
    for name, problem in switches.unmatched(switches.from_variables(os.environ), environment).items():
        yield Fact(name, "missing", "", problem)


def _doubt(name: str, value: str) -> str:
    if name not in SWITCHES:
        hint = did_you_mean(name, SWITCHES)
        return f"{name} is not a variable of ours" + (f": {hint}" if hint else ": it has no effect")
    effective = SWITCHES[name]
    if effective and value.strip().lower() not in (*effective, "", "0"):
        return f"{name}={value} has no effect: expected {' or '.join(effective)}"
    return ""
