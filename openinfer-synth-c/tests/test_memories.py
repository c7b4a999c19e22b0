"""Memories of a device: values are spread over them by capacity, and each is an array of the generated source."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.diagnostics import Diagnostic
from openinfer.plan.picture import arena_svg
from openinfer.plan.values import ArenaMemory

if TYPE_CHECKING:
    from openinfer.synth import Synthesis

# a is read by two steps, b and c by one: 400 bytes each, in places of 448.
TEXT = """
dynamic { x: f32[100]; }
volatile { w: f32[100]; y: f32[100]; }
block entry {
  op cumsum(x, axis=0) >> a;
  op flip(a, axes=[0]) >> b with { fuse = false };
  op cumsum(b, axis=0) >> c;
  op mul(c, w) >> d with { fuse = false };
  op flip(d, axes=[0]) >> e with { fuse = false };
  op add(e, a) >> y with { fuse = false };
  return y;
}
"""
MODEL = oi.Model.from_arrays({"w": np.arange(100, dtype=np.float32)})


def synthesis(*memories: tuple[str, int, str], text: str = TEXT) -> Synthesis:
    banks = [{"name": name, "bytes": nbytes, "kind": kind} for name, nbytes, kind in memories]
    document: dict[str, Any] = {"version": 2, "device": {"type": "cpu", "api": "c"}, "memories": banks}
    return oi.Synthesizer(arch=document).synthesize(MODEL, text)


def places(made: Synthesis) -> dict[str, tuple[str, int]]:
    """Return the memory and the offset of each value in the arena."""
    values = [(value.name, value.memory) for value in made.plan.values]
    return {n: (made.plan.banks[m.bank].name, m.offset) for n, m in values if isinstance(m, ArenaMemory)}


def test_what_fits_lies_in_the_memory_next_to_the_core_wherever_that_is_in_the_file() -> None:
    made = synthesis(("ram", 65536, "sram"), ("dtcm", 4096, "tcm"))

    assert {bank for bank, _ in places(made).values()} == {"dtcm"}
    assert [(bank.name, bank.nbytes) for bank in made.plan.banks] == [("dtcm", made.plan.arena_nbytes), ("ram", 0)]


def test_the_value_that_is_used_most_gets_the_small_memory() -> None:
    made = synthesis(("dtcm", 448, "tcm"), ("ram", 65536, "sram"))

    assert places(made)["a"] == ("dtcm", 0)
    assert {bank for name, (bank, _) in places(made).items() if name != "a"} == {"ram"}
    assert sum(bank.nbytes for bank in made.plan.banks) == made.plan.arena_nbytes


def test_each_memory_is_given_to_an_instance_and_an_array_of_the_program_around_it() -> None:
    files = synthesis(("dtcm", 448, "tcm"), ("ram", 65536, "sram")).bundle.files

    header, main = files["model.h"].decode(), files["main.c"].decode()
    assert "#define MODEL_ARENA_DTCM_BYTES 448\n" in header
    assert "enum model_status model_init(struct model *model, void *arena_dtcm, void *arena_ram);" in header
    assert "unsigned char arena[" not in header
    assert "OPENINFER_MEMORY(dtcm) MODEL_ALIGNED static unsigned char arena_dtcm[MODEL_ARENA_DTCM_BYTES];" in main
    assert "(model->arena_ram.bytes + 0)" in files["model.c"].decode()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_programs_in_several_memories_compute_the_same() -> None:
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    alone = oi.Synthesizer("c").synthesize(MODEL, TEXT).run({"x": x})

    spread = synthesis(("dtcm", 448, "tcm"), ("ram", 65536, "sram")).run({"x": x})

    np.testing.assert_array_equal(spread.outputs["y"], alone.outputs["y"])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_bare_metal_puts_a_memory_into_its_section(tmp_path: Any) -> None:
    import subprocess

    folder = synthesis(("dtcm", 448, "tcm"), ("ram", 65536, "sram")).emit(tmp_path / "out")

    subprocess.run(["gcc", "-std=c99", "-c", "-DOPENINFER_BARE_METAL", "main.c"], cwd=folder, check=True)

    sections = subprocess.run(
        ["objdump", "-h", "main.o"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    (line,) = [line for line in sections.splitlines() if " .bss.dtcm " in line]
    assert int(line.split()[2], 16) == 448


def test_the_map_and_the_plan_say_which_memory_holds_what() -> None:
    made = synthesis(("dtcm", 448, "tcm"), ("ram", 65536, "sram"))

    first, second = made.memory_map().split("\n\n")

    assert first.splitlines()[0] == "dtcm (tcm): 448 of 448 bytes"
    assert first.splitlines()[2].split() == ["0", "400", "a", "f32[100]"]
    assert second.startswith("ram (sram): ")


def test_a_program_over_budget_is_refused_with_the_value_and_the_map() -> None:
    with pytest.raises(oi.SynthesisError) as caught:
        synthesis(("dtcm", 448, "tcm"))

    assert caught.value.code == "over-budget"
    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert "the memories of the device are dtcm 448: b does not fit" in found.message
    assert found.hint is not None
    assert found.hint.startswith(
        "make b (f32[100]) smaller, such as by other sizes; bytes of values: a 400 in dtcm, b 400, "
    )


# k and v take 1,200 bytes each, n and seen eight with what lies after them.
CACHED = """
dynamic { x: f32[100]; }
volatile { y: f32[100]; }
persistent { n: i32; seen: bool; k(t): f32[100] @table @fixed(t=3); v(t): f32[100] @table @fixed(t=3); }
block entry {
  op flip(x, axes=[0]) >> a with { fuse = false };
  cache.write x >> k[n];
  cache.read k[0] >> b;
  op sub(a, b) >> y with { fuse = false };
  cache.write y >> v[n];
  op is_finite(y) >> f;
  cache.write f >> seen;
  cache.increment n;
  return y;
}
"""


@pytest.mark.rule("api.bundles.5")
def test_persistent_variables_lie_in_several_memories_of_which_none_holds_all() -> None:
    made = synthesis(("dtcm", 1216, "tcm"), ("ram", 1728, "sram"), text=CACHED)

    assert made.memory_map() == (
        "dtcm (tcm): 1216 of 1216 bytes\n"
        "\n"
        "persistent in dtcm: 1216 bytes\n"
        "from    to  value  type\n"
        "   0  1200  k      f32[3,100]\n"
        "1200  1204  n      i32[]\n"
        "1208  1209  seen   bool[]\n"
        "\n"
        "ram (sram): 1712 of 1728 bytes\n"
        "from   to  value  type\n"
        "   0  400  a      f32[100]\n"
        " 448  449  f      bool[]\n"
        "\n"
        "persistent in ram: 1200 bytes\n"
        "from    to  value  type\n"
        "   0  1200  v      f32[3,100]"
    )


def test_the_bundle_and_the_report_say_where_persistent_variables_lie() -> None:
    made = synthesis(("dtcm", 1216, "tcm"), ("ram", 1728, "sram"), text=CACHED)
    files = made.bundle.files

    assert [line for line in made.report().splitlines() if line.startswith("state")] == [
        "state    k: f32[3,100] in dtcm",
        "state    n: i32[] in dtcm",
        "state    v: f32[3,100] in ram",
        "state    seen: bool[] in dtcm",
    ]
    document = json.loads(files["plan.json"])
    assert {each["name"]: (each["bank"], each["offset"], each["nbytes"]) for each in document["states"]} == {
        "k": (0, 0, 1200),
        "n": (0, 1200, 4),
        "v": (1, 0, 1200),
        "seen": (0, 1208, 1),
    }
    assert [(each["name"], each["arena_nbytes"], each["states_nbytes"]) for each in document["banks"]] == [
        ("dtcm", 0, 1216),
        ("ram", 512, 1200),
    ]
    assert "| `states_dtcm` | `dtcm` | 1216 | persistent variables: k, n, seen |" in files["README.md"].decode()
    assert "| `arena_ram` | `ram` | 512 | intermediate results |" in files["README.md"].decode()
    assert "Arena over time: 512 bytes, persistent variables 2,416 bytes" in arena_svg(made.plan)
    assert "v: f32[3,100]\npersistent bytes 0 to 1,200 (1,200)" in arena_svg(made.plan)


def test_persistent_variables_are_given_to_an_instance_as_arrays_of_their_own() -> None:
    files = synthesis(("dtcm", 1216, "tcm"), ("ram", 1728, "sram"), text=CACHED).bundle.files

    header, main = files["model.h"].decode(), files["main.c"].decode()
    assert "(struct model *model, void *arena_ram, void *states_dtcm, void *states_ram);" in header
    assert "#define MODEL_STATES_DTCM_BYTES 1216\n" in header
    assert "OPENINFER_MEMORY(ram) MODEL_ALIGNED static unsigned char states_ram[MODEL_STATES_RAM_BYTES];" in main
    assert "s_k[" not in header
    # What is left of the structure are a mark and pointers.
    assert "#define MODEL_BYTES 64\n" in header


@pytest.mark.rule("api.bundles.5")
def test_memories_that_do_not_hold_the_persistent_variables_are_an_error_with_where_the_others_lie() -> None:
    with pytest.raises(oi.SynthesisError) as caught:
        synthesis(("dtcm", 1216, "tcm"), ("ram", 1200, "sram"), text=CACHED)

    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert found.code == "over-budget"
    assert found.message == (
        "the intermediate results take 512 bytes, the persistent variables take 2,416 bytes, "
        "the memories of the device are dtcm 1,216, ram 1,200: v does not fit"
    )
    assert found.hint == (
        "make v (f32[3,100]) smaller, such as by other sizes or limits (--limit); "
        "bytes of values: k 1,200 in ram, v 1,200, a 400 in dtcm, n 4 in dtcm, f 1 in dtcm, seen 1 in dtcm"
    )
    with pytest.raises(oi.SynthesisError, match="the device has no memory but flash"):
        synthesis(("flash", 65536, "flash"), text=CACHED)


def test_flash_holds_no_values_and_has_to_hold_the_weights() -> None:
    synthesis(("flash", 400, "flash"), ("ram", 65536, "sram"))

    with pytest.raises(oi.SynthesisError, match="the weights take 400 bytes, the flash of the device has 399"):
        synthesis(("flash", 399, "flash"), ("ram", 65536, "sram"))
    with pytest.raises(oi.SynthesisError, match="the device has no memory but flash"):
        synthesis(("flash", 65536, "flash"))
