"""Device architecture files."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from openinfer.arch import Compiler, Cycles, DeviceArch, DeviceCustom, Limits, MemoryBank, TargetInfo
from openinfer.diagnostics import Diagnostic
from openinfer.dtypes import F32, I32
from openinfer.errors import SerializationError

GPU: dict[str, Any] = {
    "device": {"type": "gpu", "api": "vulkan", "vendor": "acme", "name": "Mock", "driver": "555.xx"},
    "limits": {
        "max_workgroup_size": [1024, 1024, 64],
        "max_shared_memory_bytes": 65536,
        "max_push_constants_bytes": 256,
        "max_storage_buffer_range_bytes": 2147483647,
    },
    "features": {"fp16": True, "subgroup_ops": True},
    "memory": {"global_bytes": 17179869184, "shared_bytes_per_sm": 65536},
    "preferences": {"default_precision": "fp16", "max_kernel_ops": 12},
}
CPU: dict[str, Any] = {"device": {"type": "cpu", "api": "c"}}
V2: dict[str, Any] = {**CPU, "version": 2}


def bank(name: str, nbytes: int = 1, kind: str = "sram") -> dict[str, Any]:
    return {"name": name, "bytes": nbytes, "kind": kind}


def changed(document: dict[str, Any], *path: str, value: object) -> dict[str, Any]:
    result = copy.deepcopy(document)
    place = result
    for part in path[:-1]:
        place = place.setdefault(part, {})
    place[path[-1]] = value
    return result


@pytest.mark.rule("json.devices.1")
def test_a_gpu_file_is_read_whole(tmp_path) -> None:
    file = tmp_path / "mock.json"
    file.write_text(json.dumps(GPU), encoding="utf-8")
    arch = DeviceArch.load(file)
    assert (arch.type, arch.api, arch.vendor, arch.architecture) == ("gpu", "vulkan", "acme", "")
    assert arch.limits.max_workgroup_size == (1024, 1024, 64)
    assert arch.features.fp16
    assert not arch.features.int8
    assert arch.memory.global_bytes == 2**34
    assert (arch.preferences.default_precision, arch.preferences.max_kernel_ops) == ("f16", 12)
    assert arch.warnings == ()
    assert DeviceCustom.load(str(file)) == arch


@pytest.mark.rule("json.devices.1")
def test_a_cpu_file_has_defaults() -> None:
    arch = DeviceArch.load(CPU)
    assert arch.limits == Limits(
        max_workgroup_size=(1, 1, 1),
        max_shared_memory_bytes=0,
        max_push_constants_bytes=128,
        max_storage_buffer_range_bytes=134217728,
    )
    assert (arch.preferences.default_precision, arch.preferences.prefer_fusion) == ("f32", True)
    assert arch.preferences.max_kernel_ops is None
    assert arch.memories == ()


def test_cycles_of_instructions_and_waits_for_flash_have_defaults_each() -> None:
    flash = [{**bank("rom", 1048576, "flash"), "wait_states": 5}, bank("slow", 1048576, "flash")]
    arch = DeviceArch.load({**V2, "target": {"lanes": 1, "cycles": {"load": 2}}, "memories": [bank("ram"), *flash]})

    assert arch.processor.cycles == Cycles(load=2)
    assert arch.flash_wait_states == 5
    assert DeviceArch.load(V2).processor.cycles == Cycles()
    assert DeviceArch.load(V2).flash_wait_states == 0


def test_memories_keep_the_order_of_the_file() -> None:
    arch = DeviceArch.load({**V2, "memories": [bank("dtcm", 65536, "tcm"), bank("rom", 1048576, "flash")]})
    assert arch.memories == (
        MemoryBank(name="dtcm", nbytes=65536, kind="tcm"),
        MemoryBank(name="rom", nbytes=1048576, kind="flash"),
    )


@pytest.mark.rule("json.devices.3")
@pytest.mark.parametrize("document", [GPU, CPU, changed(GPU, "limits", "lanes", value=[1])])
def test_a_file_is_given_back_as_written(document: dict[str, Any]) -> None:
    assert DeviceArch.load(document).to_json() == document


WRONG = {
    "no device": ({"limits": {}}, "/device", "is missing"),
    "no api": ({"device": {"type": "cpu"}}, "/device/api", "is missing"),
    "gpu without limits": ({"device": GPU["device"]}, "/limits", "states its limits"),
    "gpu without one limit": (
        {**GPU, "limits": {"max_workgroup_size": [1, 1, 1]}},
        "/limits/max_shared_memory_bytes",
        "is missing",
    ),
    "two axes": (changed(GPU, "limits", "max_workgroup_size", value=[1, 2]), "/limits/max_workgroup_size", "found 2"),
    "empty axis": (
        changed(CPU, "limits", "max_workgroup_size", value=[1, 0, 1]),
        "/limits/max_workgroup_size/1",
        "range",
    ),
    "negative": (changed(CPU, "memory", "l2_bytes", value=-1), "/memory/l2_bytes", "out of range"),
    "truth value": (
        changed(CPU, "memory", "l2_bytes", value=True),
        "/memory/l2_bytes",
        "expected an integer, found true",
    ),
    "number": (changed(CPU, "features", "fp16", value=1), "/features/fp16", "expected true or false"),
    "unknown feature": (changed(CPU, "features", "dp4a", value="yes"), "/features/dp4a", "expected true or false"),
    "precision": (
        changed(CPU, "preferences", "default_precision", value="i8"),
        "/preferences/default_precision",
        "float",
    ),
    "no operators": (changed(CPU, "preferences", "max_kernel_ops", value=0), "/preferences/max_kernel_ops", "range"),
    "section": (changed(CPU, "memory", value=[]), "/memory", "expected an object"),
    "odd vectors": (changed(V2, "target", "lanes", value=12), "/target/lanes", "power of two"),
    "vectors of no machine": (changed(V2, "target", "lanes", value=4096), "/target/lanes", "expected 1 to 2048"),
    "no registers": (changed(V2, "target", "registers", value=0), "/target/registers", "out of range"),
    "dialect": (changed(V2, "target", "dialect", value="c89"), "/target/dialect", "one of c99, vector, mve"),
    "flag": (changed(V2, "target", "flags", value=["-O2", "$(shell id)"]), "/target/flags/1", "such as -march"),
    "two flags": (changed(V2, "target", "flags", value=["-O2 -g"]), "/target/flags/0", "found '-O2 -g'"),
    "no cache": (changed(V2, "target", "caches", value=[]), "/target/caches", "at least 1"),
    "too many caches": (
        changed(V2, "target", "caches", value=[1, 2, 3, 4]),
        "/target/caches",
        "at most 3 caches, found 4",
    ),
    "memory without kind": (
        changed(V2, "memories", value=[{"name": "a", "bytes": 1}]),
        "/memories/0/kind",
        "is missing",
    ),
    "kind of memory": (changed(V2, "memories", value=[bank("a", kind="rom")]), "/memories/0/kind", "one of tcm, sram"),
    "waits of another memory": (
        changed(V2, "memories", value=[{**bank("ram", kind="sram"), "wait_states": 2}]),
        "/memories/0/wait_states",
        "'ram' is sram, not flash",
    ),
    "empty memory": (changed(V2, "memories", value=[bank("a", nbytes=0)]), "/memories/0/bytes", "out of range"),
    "name of a memory": (
        changed(V2, "memories", value=[bank("a b")]),
        "/memories/0/name",
        "letters, digits and single underscores",
    ),
    "underscores of a memory": (changed(V2, "memories", value=[bank("a__b")]), "/memories/0/name", "such as dtcm"),
    "long name of a memory": (changed(V2, "memories", value=[bank("a" * 32)]), "/memories/0/name", "at most 31"),
    "two memories": (
        changed(V2, "memories", value=[bank("a"), bank("A")]),
        "/memories/1/name",
        "another memory has the name 'A'",
    ),
    "key of a memory": (changed(V2, "memories", value=[bank("a") | {"at": 1}]), "/memories/0/at", "unknown field"),
    "target in version 1": (changed(CPU, "target", value={"lanes": 4}), "/target", 'needs "version": 2'),
    "memories in version 1": (changed(CPU, "memories", value=[]), "/memories", 'needs "version": 2'),
    "version": (changed(CPU, "version", value=3), "/version", "knows versions up to 2"),
}


@pytest.mark.rule("json.devices.2")
@pytest.mark.parametrize(("document", "pointer", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_part_is_refused_where_it_is(document: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(SerializationError) as caught:
        DeviceArch.load(document)
    assert any(found.path == pointer and message in found.message for found in caught.value.diagnostics)


WARNED = {
    "section": (changed(CPU, "vendor_tuning", value={"a": 1}), "unknown-field", "/vendor_tuning"),
    "limit": (changed(CPU, "limits", "lanes", value=32), "unknown-field", "/limits/lanes"),
    "feature": (changed(CPU, "features", "dp4a", value=True), "unknown-field", "/features/dp4a"),
    "target": (changed(V2, "target", "cores", value=4), "unknown-field", "/target/cores"),
    "identity": (changed(CPU, "device", "serial", value="1"), "unknown-field", "/device/serial"),
    "little shared memory": (
        changed(GPU, "memory", "shared_bytes_per_sm", value=1024),
        "shared-memory",
        "/memory/shared_bytes_per_sm",
    ),
    "precision": (
        changed(GPU, "features", "fp16", value=False),
        "default-precision",
        "/preferences/default_precision",
    ),
}


@pytest.mark.rule("json.devices.2")
@pytest.mark.parametrize(("document", "code", "pointer"), WARNED.values(), ids=WARNED)
def test_what_a_target_may_need_is_kept_with_a_warning(document: dict[str, Any], code: str, pointer: str) -> None:
    arch = DeviceArch.load(document)
    assert [(found.code, found.path) for found in arch.warnings] == [(code, pointer)]
    with pytest.raises(SerializationError):
        DeviceArch.load(document, strict=True)


@pytest.mark.rule("json.devices.2")
def test_extra_keys_reach_the_target() -> None:
    arch = DeviceArch.load(changed(changed(CPU, "limits", "lanes", value=32), "tuning", value={"a": 1}))
    assert arch.limits.extra == {"lanes": 32}
    assert arch.extra == {"tuning": {"a": 1}}


def test_what_schedules_are_chosen_by_and_what_compiles() -> None:
    machine = {"lanes": 8, "registers": 32, "fma": True, "caches": [49152, 1048576], "line": 32, "dot4": True}
    compiler = {"dialect": "vector", "flags": ["-march=x86-64-v3", "-mtune=native"]}

    arch = DeviceArch.load({**V2, "target": {**machine, "multiply_adds": 1, "loads": 3, **compiler}})

    assert arch.processor == TargetInfo(
        vector_nbytes=32, registers=32, fma=True, l1_nbytes=49152, line_nbytes=32, dot4=True, multiply_adds=1, loads=3
    )
    assert (arch.compiler.dialect, arch.compiler.flags) == ("vector", ("-march=x86-64-v3", "-mtune=native"))
    assert (arch.processor.lanes(4), arch.warnings) == (8, ())


def test_a_microcontroller_has_registers_for_integers_and_a_price_for_floats() -> None:
    processor = {"lanes": 1, "registers": 32, "integer_registers": 12, "fpu": "single", "dsp": True}

    plain, vector = (
        DeviceArch.load({**V2, "target": {**processor, "dialect": dialect}}).machine for dialect in ("c99", "vector")
    )

    assert (plain.fpu, plain.dsp, vector.dsp) == ("single", True, False)
    assert (plain.for_totals(I32).registers, plain.for_totals(F32).registers) == (12, 32)
    assert TargetInfo().for_totals(I32) == TargetInfo()


def test_without_a_word_about_the_processor_little_is_assumed() -> None:
    arch = DeviceArch.load(CPU)
    assert (arch.processor, arch.compiler) == (TargetInfo(), Compiler(dialect="c99", flags=()))
    assert (arch.processor.vector_nbytes, arch.processor.fma) == (16, False)


def test_a_precision_that_the_device_does_not_support_falls_back() -> None:
    assert DeviceArch.load(changed(GPU, "features", "fp16", value=False)).preferences.default_precision == "f32"


@pytest.mark.parametrize(
    ("section", "value", "path", "code", "message"),
    [
        ("memory", 3, "/memory", "wrong-type", "expected an object"),
        ("memory", {"l2_bytes": "x, one of many"}, "/memory/l2_bytes", "wrong-type", "expected an integer, found"),
        ("memory", {"l2_bytes": -1}, "/memory/l2_bytes", "wrong-value", "-1 is out of range"),
        ("target", {"cycles": {"brnch": 3}}, "/target/cycles/brnch", "unknown-field", "unknown field"),
        ("target", {"cycles": {"mac": 0}}, "/target/cycles/mac", "wrong-value", "0 is out of range"),
        ("memories", [{"bytes": 8, "kind": "sram"}], "/memories/0/name", "missing-field", "`name` is missing"),
        (
            "memories",
            [{"name": None, "bytes": 8, "kind": "sram"}],
            "/memories/0/name",
            "wrong-type",
            "must not be null",
        ),
        (
            "memories",
            [{"name": "a", "bytes": 8, "kind": "sram", "of": 1}],
            "/memories/0/of",
            "unknown-field",
            "unknown field",
        ),
    ],
)
def test_a_mistake_in_a_section_has_the_code_of_its_kind(
    section: str, value: object, path: str, code: str, message: str
) -> None:
    with pytest.raises(SerializationError) as caught:
        DeviceArch.load({"version": 2, "device": {"type": "cpu", "api": "c"}, section: value})
    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert (found.path, found.code) == (path, code)
    assert message in found.message
