"""Files that build systems read, and how a bundle with them is built."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.synth.c_host.ports import is_needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.execution_plan import ExecutionPlan

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*")
"""Names that no shell reads otherwise."""


@dataclass(frozen=True, slots=True)
class Build:
    """A build system.

    Attributes:
        templates: by the names of the files that it reads.
        command: what builds the program around the model.
        program: path of that program, in which ``{prefix}`` is the prefix.
        summary: what its first file does.
        targets: names that its targets cannot have.
        is_hosted: whether the bundle has the program that reads and writes ``.npy`` files, which needs an operating
            system.
        unrun: the tools that these files were never given to; "" where tests run them.
    """

    templates: tuple[tuple[str, str], ...]
    command: str
    program: str
    summary: str
    targets: frozenset[str] = frozenset()
    is_hosted: bool = True
    unrun: str = ""


CMAKE_TARGETS = """
all clean depend edit_cache help install m package package_source preinstall rebuild_cache test zero_check
"""
"""Targets that CMake makes or reserves, and the library of mathematics that the model links to."""

BUILDS = {
    "make": Build(
        (("Makefile", "Makefile.j2"),),
        "make",
        "./{prefix}",
        "builds the program: `make`",
        frozenset({"clean"}),
    ),
    "cmake": Build(
        (("CMakeLists.txt", "CMakeLists.txt.j2"),),
        "cmake -S . -B ../build && cmake --build ../build",
        "../build/{prefix}",
        "builds the model as a library and the program, and installs the library for `find_package`",
        frozenset(CMAKE_TARGETS.split()),
    ),
    "platformio": Build(
        (("platformio.ini", "platformio.ini.j2"), ("library.json", "library.json.j2")),
        "pio run",
        ".pio/build/native/program",
        "builds the program for this machine; `library.json` makes the directory a library for boards",
    ),
}
"""By the names that ``--project`` takes."""


def build_of(name: str, prefix: str, builds: Mapping[str, Build] = BUILDS) -> Build:
    """Return a build system whose targets are named after a prefix.

    Args:
        builds: those that there are, by name.

    Raises:
        SynthesisError: there is none of that name, or its targets cannot have that of the prefix.
    """
    if name not in builds:
        raise SynthesisError(f"the project is {name!r}, expected one of {', '.join(builds)}")
    build = builds[name]
    if prefix in build.targets:
        raise SynthesisError(
            f"the prefix {prefix!r} has a meaning for {name}, which names a target after it: choose another"
        )
    return build


def example_command(plan: ExecutionPlan, build: Build) -> str:
    """Return a command that runs the program; names that a shell may read otherwise are left as ``NAME``."""
    options = [("--input", port.name) for port in plan.inputs if is_needed(port)]
    options += [("--output", port.name) for port in plan.outputs]
    if not options or not all(_PLAIN.fullmatch(name) for _, name in options):
        options = [("--input", "NAME"), ("--output", "NAME")]
    arguments = " ".join(f"{option} {name}={name}.npy" for option, name in options)
    program = build.program.format(prefix=plan.options.prefix)
    return f"{program} {arguments.replace('NAME.npy', 'FILE.npy')}"
