"""Memories of a device: values are spread over them by capacity, and each is an array of the generated source."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.diagnostics import Diagnostic
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


def test_what_fits_lies_in_the_memory_next_to_the_core_wherever_that_stands_in_the_file() -> None:
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
    assert found.hint.startswith("make b (f32[100]) smaller, such as by other sizes; bytes of values: a 400, b 400, ")


CACHED = """
dynamic { x: f32[100]; }
persistent { n: i32; k(t): f32[100] @table @fixed(t=3); }
block entry { cache.write x >> k[n]; cache.read k[0] >> y; return y; }
"""


def test_some_memory_has_to_hold_the_persistent_variables_in_one_piece() -> None:
    synthesis(("dtcm", 1203, "tcm"), ("ram", 1204, "sram"), text=CACHED)

    with pytest.raises(oi.SynthesisError, match=r"take 1,204 bytes in one piece.* dtcm 1,203, ram 1,203") as caught:
        synthesis(("dtcm", 1203, "tcm"), ("ram", 1203, "sram"), text=CACHED)
    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert (found.code, "the largest is k: f32[3,100]" in (found.hint or "")) == ("over-budget", True)
    with pytest.raises(oi.SynthesisError, match="what the memories have left is none but flash"):
        synthesis(("flash", 65536, "flash"), text=CACHED)


def test_flash_holds_no_values_and_has_to_hold_the_weights() -> None:
    synthesis(("flash", 400, "flash"), ("ram", 65536, "sram"))

    with pytest.raises(oi.SynthesisError, match="the weights take 400 bytes, the flash of the device has 399"):
        synthesis(("flash", 399, "flash"), ("ram", 65536, "sram"))
    with pytest.raises(oi.SynthesisError, match="the device has no memory but flash"):
        synthesis(("flash", 65536, "flash"))
