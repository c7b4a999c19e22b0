"""Devices that target c knows by name, as documents of device files; for ``host`` the compiler says.

They differ in vector registers and in the flags of the compiler, never in results, save where the order of a sum is
free: more lanes then add in another order.
"""

from __future__ import annotations

import os
import platform
from functools import partial
from typing import TYPE_CHECKING, Any

from openinfer.scratch import scratch_directory
from openinfer.synth.c_host.toolchain import compiler_command, run_tool
from openinfer_synth_c.native import native_flags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LONGEST_ANSWER = 20.0
"""Seconds that a compiler has to name its macros."""

_WIDE = "-mprefer-vector-width=512"
"""Without it compilers split vectors of 512 bits for some processors."""


def _document(
    name: str,
    target: Mapping[str, Any],
    flags: Sequence[str] = (),
    *,
    dialect: str = "vector",
    memories: Sequence[tuple[str, int, str]] = (),
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "version": 2,
        "device": {"type": "cpu", "api": "c", "name": name},
        "target": {**target, "dialect": dialect, "flags": list(flags)},
    }
    if memories:
        document["memories"] = [{"name": bank, "bytes": nbytes, "kind": kind} for bank, nbytes, kind in memories]
    return document


_GENERIC = {"lanes": 4, "registers": 16, "fma": False}
_AVX2 = {"lanes": 8, "registers": 16, "fma": True}
_AVX512 = {"lanes": 16, "registers": 32, "fma": True}
_NEON = {"lanes": 4, "registers": 32, "fma": True, "loads": 1, "caches": [32768, 524288]}
_SCALAR = {"lanes": 1, "multiply_adds": 1, "loads": 1, "line": 32}
# Of the 14 core registers two hold addresses, as long as GCC's first scheduler (12.2) is off: it moves loads ahead
# until totals are spilled. Quantised networks take 7 to 30 % more instructions with it, networks of floats as many.
# -fno-predictive-commoning: it keeps what the next iteration loads again on the stack. -fno-tree-reassoc: it adds up
# products before the total, by one addition more than MLA and SMLAD take.
_ONE_TOTAL = ("-fno-schedule-insns", "-fno-predictive-commoning", "-fno-tree-reassoc")
_CORTEX_M = (*_ONE_TOTAL, "-fno-ipa-cp")
"""With constant addresses in place of parameters GCC 12 has fewer registers for totals, and loads the address of each
vector."""

# Arm's manual of the Cortex-M4: loads that follow another take one cycle. The Cortex-M33 is taken to be the same.
_M4_CYCLES = {"fma_f32": 3, "div": 14, "load_pair": 3}
_M3_CYCLES = {"mac": 2, "load_pair": 3}
# Arm's manual of the Cortex-M0+, with the multiplier of one cycle: product and sum are two instructions, and a quotient
# is a call of GCC's library.
_M0_CYCLES = {"mac": 2, "div": 50, "load": 2, "load_pair": 3, "branch": 2}

_INTEGER = {**_SCALAR, "integer_registers": 12, "fpu": "single", "dsp": True}
_SOFT = {**_SCALAR, "registers": 8, "fma": False, "fpu": "none"}
_KIB = 1024


def _cortex_m(
    name: str, target: Mapping[str, Any], memories: Sequence[tuple[str, int, str]], *, fpu: str = ""
) -> dict[str, Any]:
    """Return the document of a microcontroller without vectors; ``fpu`` is the name by which GCC knows its unit."""
    unit = ("-mfloat-abi=hard", f"-mfpu={fpu}") if fpu else ()
    flags = (f"-mcpu={name}", "-mthumb", *unit, *_CORTEX_M)
    return _document(name, target, flags, dialect="c99", memories=memories)


def _risc_v(name: str, isa: str, sram: int, flash: int) -> dict[str, Any]:
    """Return the document of a core without floats: functions of the compiler's library compute these in its 32 integer
    registers."""
    return _document(
        name,
        {**_SOFT, "registers": 16, "integer_registers": 22},
        (f"-march={isa}", "-mabi=ilp32", *_ONE_TOTAL),
        dialect="c99",
        memories=(("sram", sram, "sram"), ("flash", flash, "flash")),
    )


def host() -> dict[str, Any]:
    """Return the document of this machine: what the C compiler makes for it, and the sizes of its caches.

    Raises:
        MissingDependencyError: no C compiler is installed.
        SynthesisError: it fails.
    """
    flags = native_flags(compiler_command())
    macros = _macros(compiler_command(flags))
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


def _caches() -> dict[str, Any]:
    """Return the sizes of caches and their lines in bytes, as far as the system names them."""
    known = getattr(os, "sysconf_names", {})
    names = ("SC_LEVEL1_DCACHE_LINESIZE", "SC_LEVEL1_DCACHE_SIZE", "SC_LEVEL2_CACHE_SIZE")
    line, *sizes = (os.sysconf(name) if name in known else 0 for name in names)
    found: dict[str, Any] = {"line": line} if line > 0 else {}
    return {**found, "caches": sizes} if min(sizes) > 0 else found


def mock() -> dict[str, Any]:
    """Return the document of an invented graphics card, as a device file shows all that it may say of one.

    C follows its memory and its preferences; what it says of workgroups and of features is for targets that write for
    GPUs.
    """
    identity = {"vendor": "nvidia", "name": "Mock RTX", "architecture": "ada_lovelace", "driver": "555.xx"}
    return {
        "version": 2,
        "device": {"type": "gpu", "api": "c", **identity},
        "limits": {
            "max_workgroup_size": [1024, 1024, 64],
            "max_shared_memory_bytes": 65536,
            "max_push_constants_bytes": 256,
            "max_storage_buffer_range_bytes": 2147483647,
        },
        "features": {"fp16": True, "int8": True, "subgroup_ops": True, "cooperative_matrix": False},
        "memory": {"global_bytes": 17179869184, "shared_bytes_per_sm": 65536, "l2_bytes": 67108864},
        "preferences": {
            "default_precision": "fp16",
            "prefer_fusion": True,
            "prefer_persistent_kv": True,
            "max_kernel_ops": 12,
        },
    }


PROFILES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "generic": partial(_document, "generic", _GENERIC, dialect="c99"),
    "x86-64-v3": partial(_document, "x86-64-v3", _AVX2, ("-march=x86-64-v3",)),
    "x86-64-v4": partial(_document, "x86-64-v4", _AVX512, ("-march=x86-64-v4", _WIDE)),
    # Cortex-A55 and A75, and later ones; dot products of bytes.
    "cortex-a": partial(_document, "cortex-a", {**_NEON, "dot4": True}, ("-march=armv8.2-a+dotprod",)),
    "host": host,
    "mock": mock,
    # Arm's manuals: f32 in 32 registers of the FPv4-SP unit, one multiply-add a cycle; memories of an STM32F405.
    "cortex-m4": partial(
        _cortex_m,
        "cortex-m4",
        {**_INTEGER, "registers": 32, "fma": True, "cycles": _M4_CYCLES},
        (("sram", 128 * _KIB, "sram"), ("ccm", 64 * _KIB, "tcm"), ("flash", 1024 * _KIB, "flash")),
        fpu="fpv4-sp-d16",
    ),
    # Two instructions a cycle, of which one loads; memories of an STM32F746.
    "cortex-m7": partial(
        _cortex_m,
        "cortex-m7",
        {**_INTEGER, "registers": 32, "fma": True, "caches": [4 * _KIB]},
        (("dtcm", 64 * _KIB, "tcm"), ("sram", 256 * _KIB, "sram"), ("flash", 1024 * _KIB, "flash")),
        fpu="fpv5-sp-d16",
    ),
    # As a Cortex-M4 with the security extension; memories of an LPC55S69.
    "cortex-m33": partial(
        _cortex_m,
        "cortex-m33",
        {**_INTEGER, "registers": 32, "fma": True, "cycles": _M4_CYCLES},
        (("sram", 272 * _KIB, "sram"), ("flash", 630 * _KIB, "flash")),
        fpu="fpv5-sp-d16",
    ),
    # No floats; one cycle for a multiply-add; memories of an STM32F103.
    "cortex-m3": partial(
        _cortex_m,
        "cortex-m3",
        {**_SOFT, "integer_registers": 12, "cycles": _M3_CYCLES},
        (("sram", 64 * _KIB, "sram"), ("flash", 512 * _KIB, "flash")),
    ),
    # No floats, no multiply-add, and most instructions reach 8 registers only; memories of an RP2040.
    "cortex-m0plus": partial(
        _cortex_m,
        "cortex-m0plus",
        {**_SOFT, "integer_registers": 6, "cycles": _M0_CYCLES},
        (("sram", 264 * _KIB, "sram"), ("flash", 2048 * _KIB, "flash")),
    ),
    # A Cortex-M33 with vectors of 16 bytes, for loops that GCC 12 does not pass through memory. Memories of a
    # Corstone-300.
    "cortex-m55": partial(
        _document,
        "cortex-m55",
        {**_INTEGER, "registers": 32, "fma": True, "mve": True},
        ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", *_CORTEX_M),
        dialect="mve",
        memories=(("dtcm", 512 * _KIB, "tcm"), ("sram", 2048 * _KIB, "sram"), ("flash", 8192 * _KIB, "flash")),
    ),
    "rv32imc": partial(_risc_v, "rv32imc", "rv32imc", 320 * _KIB, 4096 * _KIB),
    "rv32imac": partial(_risc_v, "rv32imac", "rv32imac", 320 * _KIB, 4096 * _KIB),
    # 400 KiB of SRAM less the cache of flash and what its ROM takes; a core without atomics.
    "esp32-c3": partial(_risc_v, "esp32-c3", "rv32imc", 320 * _KIB, 4096 * _KIB),
}
"""Functions that return the document of each profile, by name."""
