"""Files that build systems read, and how a bundle with them is built."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.errors import SynthesisError


@dataclass(frozen=True, slots=True)
class Build:
    """A build system.

    Attributes:
        templates: by the names of the files that it reads.
        command: what builds the program around the model.
        program: path of that program, in which ``{prefix}`` is the prefix.
        summary: what its first file does.
    """

    templates: tuple[tuple[str, str], ...]
    command: str
    program: str
    summary: str


BUILDS = {
    "make": Build((("Makefile", "Makefile.j2"),), "make", "./{prefix}", "builds the program: `make`"),
    "cmake": Build(
        (("CMakeLists.txt", "CMakeLists.txt.j2"),),
        "cmake -S . -B ../build && cmake --build ../build",
        "../build/{prefix}",
        "builds the model as a library and the program, and installs the library for `find_package`",
    ),
    "platformio": Build(
        (("platformio.ini", "platformio.ini.j2"), ("library.json", "library.json.j2")),
        "pio run",
        ".pio/build/native/program",
        "builds the program for this machine; `library.json` makes the directory a library for boards",
    ),
}
"""By the names that ``--project`` takes."""


def build_of(name: str) -> Build:
    """Return a build system.

    Raises:
        SynthesisError: there is none of that name.
    """
    if name not in BUILDS:
        raise SynthesisError(f"the project is {name!r}, expected one of {', '.join(BUILDS)}")
    return BUILDS[name]
