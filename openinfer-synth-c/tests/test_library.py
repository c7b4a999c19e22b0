"""Compiled libraries: for the processor and compiler at hand, and kept."""

from __future__ import annotations

import ctypes
import gc
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import DeviceError
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer_synth_c import library
from openinfer_synth_c.library import load_library, lock_of
from openinfer_synth_c.native import processor

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

SOURCE = 'int answer(void);\n__attribute__((visibility("default"))) int answer(void) {{ return {}; }}\n'


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def builds(monkeypatch):
    """Note how often the compiler is called."""
    calls = []
    run_tool = library.run_tool
    monkeypatch.setattr(library, "run_tool", lambda *given: calls.append(given[0]) or run_tool(*given))
    return calls


def answer(number):
    function = load_library({"answer.c": SOURCE.format(number)})["answer"]
    function.restype = ctypes.c_int
    return function()


def test_a_library_is_compiled_once_and_kept(caches, builds):
    assert [answer(41), answer(41), answer(42)] == [41, 41, 42]

    assert len(builds) == 2
    assert sorted(path.suffix for path in (caches / "openinfer-c").iterdir()) == [".so", ".so"]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda _: b"no library", id="something else"),
        pytest.param(lambda kept: kept[:-1], id="a byte less"),
        pytest.param(lambda kept: kept[: len(kept) // 2], id="cut off"),
        pytest.param(lambda kept: kept[:4096], id="one page"),
        pytest.param(lambda kept: kept[:9000] + bytes([kept[9000] ^ 1]) + kept[9001:], id="another bit"),
    ],
)
def test_a_damaged_library_is_compiled_again(caches, builds, damage):
    answer(51)
    (file,) = (caches / "openinfer-c").iterdir()
    kept = file.read_bytes()
    file.unlink()
    file.write_bytes(damage(kept))

    assert answer(51) == 51

    assert len(builds) == 2
    assert file.read_bytes() == kept


def loaded(caches):
    """Return the libraries in the memory of this process."""
    maps = Path("/proc/self/maps").read_text()
    return {line.split()[-1] for line in maps.splitlines() if str(caches) in line}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is in memory")
def test_libraries_that_nobody_uses_are_unloaded(caches):
    used = load_library({"answer.c": SOURCE.format(60)})
    function, other = used["answer"], load_library({"answer.c": SOURCE.format(60)})
    assert len(loaded(caches)) == 1
    lock = lock_of(used)
    assert lock is lock_of(other)

    del used, other
    gc.collect()
    assert (len(loaded(caches)), function()) == (1, 60)

    del function
    gc.collect()
    assert loaded(caches) == set()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is in memory")
def test_libraries_of_dropped_executors_are_unloaded(caches):
    program = graph("dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op add(x, x) >> y; return y; }")
    executor = Simulator(Model.from_arrays({}), program, device="c").make_executor()
    executor.step(x=np.ones(2, np.float32))
    executor.insert(x=np.ones(2, np.float32))
    list(executor.iterate())
    assert len(loaded(caches)) == 2

    executor.close()
    del executor
    gc.collect()

    assert loaded(caches) == set()


def test_other_flags_or_another_compiler_are_another_library(monkeypatch, builds, tmp_path):
    answer(43)
    monkeypatch.setattr(library, "FLAGS", (*library.FLAGS, "-O1"))
    answer(43)
    wrapper = tmp_path / "mycc"
    wrapper.write_text('#!/bin/sh\nexec gcc "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv("CC", str(wrapper))
    answer(43)

    assert len(builds) == 3


def test_code_is_for_the_processor_at_hand_and_kept_apart_from_that_of_others(monkeypatch, builds):
    monkeypatch.setattr(library, "processor", lambda: "one")
    assert answer(48) == answer(48) == 48
    monkeypatch.setattr(library, "processor", lambda: "another")
    assert answer(48) == 48

    assert len(builds) == 2
    assert all(library.native_flags((build[0],)) == ("-march=native",) for build in builds)
    assert all("-march=native" in build for build in builds)


def test_a_processor_that_nothing_is_known_of_gets_portable_code(monkeypatch, builds):
    monkeypatch.setattr(library, "processor", lambda: None)

    assert answer(49) == 49

    assert "-march=native" not in builds[0]


def test_a_compiler_that_does_not_know_the_processor_makes_portable_code(monkeypatch, builds, tmp_path):
    wrapper = tmp_path / "oldcc"
    wrapper.write_text('#!/bin/sh\ncase "$*" in *native*) exit 1;; esac\nexec gcc "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setattr(library, "processor", lambda: "one")

    assert answer(50) == 50

    assert "-march=native" not in builds[0]


def test_the_processor_is_identified_by_its_instructions():
    reported = processor()

    if reported is None:
        pytest.skip("the system does not describe its processor in /proc/cpuinfo")
    assert "MHz" not in reported
    assert reported == processor()
    assert re.search(r"^(flags|Features|isa|cpu)\b", reported, re.MULTILINE)


def test_arguments_in_cc_take_the_place_of_flags(monkeypatch, builds):
    monkeypatch.setenv("CC", "gcc -O0")

    assert answer(47) == 47

    assert builds[0].index("-O3") < builds[0].index("-O0")


def test_a_launcher_in_cc_comes_before_the_compiler_and_both_before_flags(monkeypatch, builds, tmp_path):
    launcher = tmp_path / "launcher"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o700)
    monkeypatch.setenv("CC", f"{launcher} gcc -O0")

    assert answer(51) == 51

    assert builds[0][:2] == [str(launcher), "gcc"]
    assert builds[0].index("-O3") < builds[0].index("-O0")


def test_where_nothing_can_be_kept_a_library_is_loaded_all_the_same(caches, caplog):
    (caches / "openinfer-c").symlink_to(caches)

    assert answer(44) == 44

    assert f"compiled programs are not kept in {caches / 'openinfer-c'}: it is not a directory" in caplog.text


def test_the_output_of_the_compiler_is_reported(builds):
    with pytest.raises(DeviceError, match=r"device c: the C compiler failed with status 1: wrong\.c:1:1: error"):
        load_library({"wrong.c": "nonsense"})


def test_a_failed_build_leaves_no_files(caches):
    with pytest.raises(DeviceError):
        load_library({"wrong.c": "nonsense"})

    assert not list(caches.rglob("*.so"))
