"""Devices that target c knows by name, as documents of device files; ``host`` is asked of the compiler.

They differ in vector registers and in the flags of the compiler, never in results, save where the order of a sum is
free: more lanes then add in another order.
"""

from __future__ import annotations

import os
import platform
from functools import partial
from typing import TYPE_CHECKING, Any

from openinfer.scratch import scratch_directory
from openinfer_synth_c.native import native_flags
from openinfer_synth_c.toolchain import find_compiler, run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LONGEST_ANSWER = 20.0
"""Seconds that a compiler has to name its macros."""

_WIDE = "-mprefer-vector-width=512"
"""Without it compilers split vectors of 512 bits for some processors."""


def _document(
    name: str, processor: Mapping[str, Any], flags: Sequence[str] = (), *, dialect: str = "vector"
) -> dict[str, Any]:
    return {
        "version": 1,
        "device": {"type": "cpu", "api": "c", "name": name},
        "processor": dict(processor),
        "compiler": {"dialect": dialect, "flags": list(flags)},
    }


_GENERIC = {"vector_nbytes": 16, "registers": 16, "fma": False}
_AVX2 = {"vector_nbytes": 32, "registers": 16, "fma": True}
_AVX512 = {"vector_nbytes": 64, "registers": 32, "fma": True}
_NEON = {"vector_nbytes": 16, "registers": 32, "fma": True, "loads": 1, "l2_nbytes": 524288}


def host() -> dict[str, Any]:
    """Return the document of this machine: what the C compiler makes for it, and the sizes of its caches.

    Raises:
        EnvironmentLacksError: there is no C compiler.
        SynthesisError: it fails.
    """
    compiler = find_compiler()
    flags = native_flags(compiler)
    macros = _macros((*compiler, *flags))
    if "__AVX512F__" in macros:
        found: dict[str, Any] = {**_AVX512, "dot4": "__AVX512VNNI__" in macros}
        flags = (*flags, _WIDE)
    elif "__AVX__" in macros:
        found = {**_AVX2, "fma": "__FMA__" in macros, "dot4": "__AVXVNNI__" in macros}
    elif "__aarch64__" in macros:
        found = {**_NEON, "dot4": "__ARM_FEATURE_DOTPROD" in macros}
    else:
        found = {**_GENERIC, "fma": "__FMA__" in macros or "__ARM_FEATURE_FMA" in macros}
    return _document(f"host ({platform.machine()})", {**found, **_caches()}, flags)


def _macros(command: Sequence[str]) -> frozenset[str]:
    """Return the names of the macros that a compiler defines."""
    with scratch_directory() as directory:
        (directory / "empty.c").write_text("", encoding="ascii")
        said = run_tool([*command, "-dM", "-E", "empty.c"], directory, _LONGEST_ANSWER, "the C compiler")
    lines = [line.split() for line in said.splitlines()]
    return frozenset(words[1] for words in lines if len(words) > 1 and words[0] == "#define")


def _caches() -> dict[str, int]:
    """Return the sizes of caches in bytes, as far as the system names them."""
    names = {"l1_nbytes": "SC_LEVEL1_DCACHE_SIZE", "l2_nbytes": "SC_LEVEL2_CACHE_SIZE"}
    names["line_nbytes"] = "SC_LEVEL1_DCACHE_LINESIZE"
    known = getattr(os, "sysconf_names", {})
    sizes = {key: os.sysconf(name) for key, name in names.items() if name in known}
    return {key: size for key, size in sizes.items() if size > 0}


PROFILES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "generic": partial(_document, "generic", _GENERIC, dialect="c99"),
    "x86-64-v3": partial(_document, "x86-64-v3", _AVX2, ("-march=x86-64-v3",)),
    "x86-64-v4": partial(_document, "x86-64-v4", _AVX512, ("-march=x86-64-v4", _WIDE)),
    "cortex-a": partial(_document, "cortex-a", _NEON, ("-march=armv8-a",)),
    "host": host,
}
"""Functions that return the document of each profile, by name."""
