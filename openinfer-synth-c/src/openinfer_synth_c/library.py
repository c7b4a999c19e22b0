"""Shared libraries from generated source, loaded into this process."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from openinfer.errors import DeviceError, OpenInferError
from openinfer_synth_c.library_cache import key_of, library_file
from openinfer_synth_c.native import native_flags, processor
from openinfer_synth_c.toolchain import find_compiler, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FLAGS = (
    *("-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared"),
)
"""Flags of the compiler, beside that for the processor at hand (`native`). None changes a result: contraction is off,
and nobody looks at errno or exception flags."""

LONGEST_BUILD = 300.0
"""Seconds that compiling may take."""


def load_library(files: Mapping[str, str]) -> ctypes.CDLL:
    """Return the library of some source files, from the cache or compiled; ``.c`` files are compiled together.

    Raises:
        DeviceError: there is no compiler, it fails, or what it makes cannot be loaded.
    """
    try:
        compiler, *arguments = find_compiler()
        # What CC has behind the compiler's name comes last, so that it can take the place of a flag: CC="gcc -O0".
        command, here = (compiler, *FLAGS, *arguments), processor()
        texts = [text for name in sorted(files) for text in (name, files[name])]
        # Whether the compiler takes the flag for this processor follows from what the key holds: asked only to build.
        key = key_of([*texts, "any processor" if here is None else here], command)
        with library_file(key, lambda work: _built(files, compiler, arguments, work)) as path:
            return ctypes.CDLL(str(path))
    except OpenInferError as error:
        raise DeviceError(f"device c: {error}", code=error.code) from error
    except OSError as error:
        raise DeviceError(f"device c cannot load what it compiled: {error}", code="tool-failed") from error


def _built(files: Mapping[str, str], compiler: str, arguments: Sequence[str], work: Path) -> Path:
    for name, text in files.items():
        (work / name).write_text(text, encoding="ascii")
    sources = sorted(name for name in files if name.endswith(".c"))
    native = () if processor() is None else native_flags((compiler, *arguments))
    command = (compiler, *FLAGS, *native, *arguments)
    run_tool([*command, "-o", "library.so", *sources, "-lm"], work, LONGEST_BUILD, "the C compiler")
    return work / "library.so"
