"""Shared libraries from generated source, loaded into this process."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, finalize

from openinfer.errors import DeviceError, OpenInferError
from openinfer.object_cache import ObjectCache
from openinfer.scratch import scratch_directory
from openinfer.synth.c_host.toolchain import compiler_command, run_tool
from openinfer_synth_c.native import native_flags, processor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FLAGS = (
    *("-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared"),
)
"""Flags of the compiler, in addition to that for the processor of this machine (`native`). None changes a result:
contraction is off, and nobody reads errno or exception flags."""

LONGEST_BUILD = 300.0
"""Seconds that compiling may take."""

_LOCKS: WeakValueDictionary[int, Lock] = WeakValueDictionary()

_CACHE = ObjectCache(name="openinfer-c", suffix=".so", holds="compiled programs")


def load_library(files: Mapping[str, str], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return the library of some source files, from the cache or compiled; ``.c`` files are compiled together.

    It is unloaded when neither it nor one of its functions is referenced. Get functions by ``library[name]``: functions
    that are attributes would be cached by the library and refer to it, so it would never be unloaded.

    Args:
        flags: of the compiler, for what the files use of the processor.

    Raises:
        DeviceError: there is no compiler, it fails, or its output cannot be loaded.
    """
    try:
        command, here = compiler_command((*FLAGS, *flags)), processor()
        texts = [text for name in sorted(files) for text in (name, files[name])]
        # Whether the compiler takes the flag for this processor follows from what the key holds: asked only to build.
        key = _key([*texts, "any processor" if here is None else here], command)
        kept = _CACHE.find(key)
        if kept is not None:
            with contextlib.suppress(OSError):  # Another process may have removed it: it is compiled again.
                return _loaded(kept)
        with scratch_directory() as work:
            built = _built(files, flags, work)
            return _loaded(_CACHE.keep(key, built.read_bytes()) or built)
    except OpenInferError as error:
        raise DeviceError(f"device c: {error}", code=error.code) from error
    except OSError as error:
        raise DeviceError(f"device c cannot load what it compiled: {error}", code="tool-failed") from error


def _loaded(file: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(file))
    finalize(library, _unloader(), library._handle).atexit = False  # noqa: SLF001 - ctypes names it so
    return library


@cache
def _unloader() -> Callable[[int], object]:
    """Return the function that takes a reference to a library from this process, which ctypes never does."""
    unload: Any = ctypes.CDLL(None)["dlclose"]
    unload.argtypes = (ctypes.c_void_p,)
    return unload


def lock_of(library: ctypes.CDLL) -> Lock:
    """Return the lock for the static memory of a library: one that is loaded twice is the same.

    Whoever calls the functions of the library holds on to it.
    """
    return _LOCKS.setdefault(library._handle, Lock())  # noqa: SLF001 - ctypes names it so


def _key(sources: Sequence[str], command: Sequence[str]) -> str:
    """Return the name of what a compiler makes of sources: a hash of them, the compiler and its flags."""
    compiler = Path(command[0]).resolve()
    found = compiler.stat()
    digest = hashlib.sha256()
    for part in (*sources, *command, str(compiler), str(found.st_size), str(found.st_mtime_ns)):
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _built(files: Mapping[str, str], flags: Sequence[str], work: Path) -> Path:
    for name, text in files.items():
        (work / name).write_text(text, encoding="ascii")
    sources = sorted(name for name in files if name.endswith(".c"))
    native = () if processor() is None else native_flags(compiler_command(flags))
    command = compiler_command((*FLAGS, *native, *flags))
    run_tool([*command, "-o", "library.so", *sources, "-lm"], work, LONGEST_BUILD, "the C compiler")
    return work / "library.so"
