"""Programs for boards: built by their cross compilers, run in QEMU, compared, counted; or run here instead."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.errors import MissingDependencyError, SynthesisError
from openinfer_oinf import SizeVar, write_oinf
from openinfer_synth_c import board_files
from openinfer_synth_c.boards import ARM, RISC_V, board_of, memory_map
from openinfer_synth_c.emulation import missing_tool
from openinfer_synth_c.profiles import PROFILES

MISSING = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]
needs_board = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

RUNNING = """
dynamic { x: f32[T, 2]; }
volatile { y: f32[T, 2]; top: u4[4]; }
persistent { sum: f32[2]; }
constant { w: f32[2]; }
block entry {
  op mul(x, w) >> scaled;
  op sum_axis(scaled, axes=[0]) >> step;
  cache.read sum >> before;
  op add(before, step) >> after;
  cache.write after >> sum;
  op add(scaled, after) >> y;
  op reshape(after, shape=[2]) >> flat;
  op concat(flat, flat, axis=0) >> both;
  op cast(both, to=u4) >> top;
  return y, top;
}
"""
"""State, a size that the caller gives, and packed elements."""

MODEL = oi.Model.from_arrays({"w": np.array([2, 4], np.float32)}, sizevars={"T": 3})


def synthesis(arch="cortex-m4", most=5):
    return oi.Synthesizer("c", arch=arch, limits={"T": most}).synthesize(MODEL, RUNNING)


def stepped(inputs):
    with oi.Simulator(MODEL, RUNNING, limits={"T": 5}).make_executor() as executor:
        executor.restore({"sum": np.array([1, 2], np.float32)})
        for x in inputs:
            executor.step(x=x)
            yield {name: np.array(executor.fetch(name)) for name in ("y", "top")}


BOARDS = [name for name in PROFILES if name.startswith(("cortex-m", "rv32", "esp32"))]
ARCHES = BOARDS if "OPENINFER_BOARDS" in os.environ else ["cortex-m4", "rv32imc"]


@needs_board
@pytest.mark.parametrize("arch", ARCHES)
def test_steps_on_a_board_yield_what_the_simulator_yields(arch):
    if not arch.startswith("cortex") and missing_tool(RISC_V) is not None:
        pytest.skip(f"{missing_tool(RISC_V)} is not installed")
    inputs = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 64
    begin = {"sum": np.array([1, 2], np.float32)}

    result = synthesis(arch).run({"x": inputs}, steps=2, initial=begin)

    for step, expected in enumerate(stepped(inputs)):
        np.testing.assert_array_equal(result.outputs["y"][step], expected["y"])
        np.testing.assert_array_equal(result.outputs["top"][step], expected["top"])
    assert (result.instead, np.isnan(result.micros)) == ("", True)
    assert 100 < result.board.instructions < 10_000
    assert 0 < result.board.stack_nbytes < 2_000
    for use in result.board.memories[:-1]:
        # A second array of a memory begins at a multiple of the alignment.
        assert use.planned_nbytes <= use.linked_nbytes < use.planned_nbytes + 64


@needs_board
def test_the_instructions_of_steps_add_up_to_those_of_a_run():
    x = np.ones((500, 2), np.float32)

    result = synthesis(most=500).profile({"x": x})

    counted = result.board.steps
    assert set(counted) > {1}
    np.testing.assert_allclose(sum(counted.values()), result.board.instructions, rtol=0.02)


SMALL = "dynamic { x: f32[64]; } volatile { y: f32[64]; } block entry { op exp(x) >> y; return y; }"


def with_sram(nbytes):
    return {
        "version": 2,
        "device": {"type": "cpu", "api": "c"},
        "target": {"lanes": 1, "flags": ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]},
        "memories": [
            {"name": "sram", "bytes": nbytes, "kind": "sram"},
            {"name": "flash", "bytes": 65536, "kind": "flash"},
        ],
    }


@needs_board
def test_what_does_not_fit_the_memories_with_the_callers_arrays_is_an_error_of_the_linker():
    with pytest.raises(SynthesisError, match="overflow") as caught:
        oi.Synthesizer(arch=with_sram(256)).synthesize(MODEL, SMALL).run({"x": np.zeros(64, np.float32)})

    hint = caught.value.diagnostics[0].hint
    assert "with the caller's inputs and results" in hint
    assert "QEMU's board mps2-an386 has 4,194,304 bytes for code" in hint


@needs_board
def test_memory_that_leaves_too_little_for_the_stack_is_an_error_of_the_linker():
    with pytest.raises(SynthesisError, match="RAM_SRAM has no room for the stack: 2048 bytes"):
        oi.Synthesizer(arch=with_sram(2560)).synthesize(MODEL, SMALL).run({"x": np.zeros(64, np.float32)})


@needs_board
def test_a_stack_that_takes_all_of_its_room_is_an_error(monkeypatch):
    monkeypatch.setattr(board_files, "STACK_NBYTES", 0)

    with pytest.raises(SynthesisError, match=r"the stack takes all|the stack begins in the variables"):
        oi.Synthesizer(arch=with_sram(720)).synthesize(MODEL, SMALL).run({"x": np.zeros(64, np.float32)})


@needs_board
def test_a_device_with_more_memory_than_its_emulated_board_is_not_run_there():
    made = oi.Synthesizer(arch=with_sram(17 << 20)).synthesize(MODEL, SMALL)

    with pytest.raises(SynthesisError, match=r"has 17,825,792 bytes .*, QEMU's board mps2-an386 has 16,777,216"):
        made.run({"x": np.zeros(64, np.float32)})


@needs_board
def test_a_status_that_is_not_ok_ends_the_program_with_its_text():
    text = "dynamic { x: f32[4]; at: i32; } volatile { y: f32; } block entry { op gather(x, at) >> y; return y; }"
    made = oi.Synthesizer("c", arch="cortex-m4").synthesize(MODEL, text)

    with pytest.raises(SynthesisError, match="an index is out of range"):
        made.run({"x": np.zeros(4, np.float32), "at": np.array(9, np.int32)})


def without(monkeypatch, tmp_path, *names):
    """Leave only some programs on PATH."""
    for name in names:
        (tmp_path / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_without_the_tools_of_a_board_the_same_c_runs_here(monkeypatch, tmp_path):
    inputs = np.arange(6, dtype=np.float32).reshape(1, 3, 2) / 64
    without(monkeypatch, tmp_path, "cc", "as", "ld")

    result = synthesis().run({"x": inputs[0]}, initial={"sum": np.array([1, 2], np.float32)})

    np.testing.assert_array_equal(result.outputs["y"], next(stepped(inputs))["y"])
    assert result.board is None
    assert result.instead.startswith("arm-none-eabi-gcc is not installed (`apt-get install gcc-arm-none-eabi")
    with pytest.raises(MissingDependencyError, match="arm-none-eabi-gcc is not installed"):
        synthesis().profile({"x": inputs[0]})


@pytest.mark.parametrize("arch", ["generic", "x86-64-v3"])
def test_a_device_without_an_emulated_board_has_no_profile(arch):
    with pytest.raises(SynthesisError, match=r"no board of .* is emulated: choose a profile such as cortex-m4"):
        synthesis(arch).profile({"x": np.ones((5, 2), np.float32)})


@pytest.mark.parametrize("arch", BOARDS)
def test_memories_of_a_device_lie_apart_inside_those_of_its_board(arch):
    plan = oi.Synthesizer(arch=arch).plan(MODEL, RUNNING, sizes={"T": 5})
    board = board_of(plan)

    placed = memory_map(board, plan.arch.memories)

    end = board.data[0]
    for bank in placed.banks:
        assert bank.origin == end
        end += bank.nbytes
    assert end <= sum(board.data)
    assert placed.main in placed.banks
    assert placed.flash.nbytes <= board.code[1]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "p.oi").write_text(RUNNING)
    write_oinf({"w": np.array([2, 4], np.float32), "T": SizeVar(3)}, tmp_path / "m.oinf")
    return [str(tmp_path / "p.oi"), "--model", str(tmp_path / "m.oinf"), "--size", "T=3"]


@needs_board
def test_the_commands_print_what_a_board_took(files):
    checked = CliRunner().invoke(main, ["synth", *files, "--arch", "cortex-m4", "--verify", "--steps", "2"])
    counted = CliRunner().invoke(main, ["bench", *files, "--arch", "cortex-m4", "--input", "x=random"])

    assert (checked.exit_code, counted.exit_code) == (0, 0), checked.output + counted.output
    assert "instructions per step" in checked.output
    assert "microseconds" not in checked.output
    assert "QEMU mps2-an386 (Cortex-M4), arm-none-eabi-gcc" in counted.output
    assert "mul x, w >> scaled" in counted.output


def test_the_tools_are_looked_for_where_path_says(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)

    assert missing_tool(RISC_V) == "riscv64-unknown-elf-gcc"
    assert not Path(os.devnull).is_dir()


@needs_board
def test_a_compiler_without_its_c_library_is_a_missing_tool():
    lacking = replace(ARM, libraries=("--specs=nowhere.specs",))

    assert missing_tool(ARM) is None
    assert missing_tool(lacking) == "the C library of arm-none-eabi-gcc (nowhere.specs)"


@needs_board
def test_inputs_and_outputs_inside_an_instance_are_part_of_its_size():
    inputs = np.arange(6, dtype=np.float32).reshape(1, 3, 2) / 64
    apart, inside = (
        oi.Synthesizer("c", arch="cortex-m4", limits={"T": 5}, io=io).synthesize(MODEL, RUNNING)
        for io in ("caller", "inside")
    )

    result = inside.run({"x": inputs[0]}, initial={"sum": np.array([1, 2], np.float32)})

    np.testing.assert_array_equal(result.outputs["y"], next(stepped(inputs))["y"])
    headers = [made.bundle.files["model.h"] for made in (apart, inside)]
    sizes = [int(re.search(rb"#define MODEL_BYTES (\d+)", header)[1]) for header in headers]
    # 40 bytes each of x and y, and 2 of the four halves of bytes, some of which take the place of padding.
    assert 64 <= sizes[1] - sizes[0] <= 128
    assert b"input_0" not in inside.bundle.files["sketch.c"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_a_step_without_arrays_uses_those_inside(tmp_path):
    text = "dynamic { x: f32[3]; } volatile { y: f32[3]; } block entry { op add(x, x) >> y; return y; }"
    oi.Synthesizer("c", io="inside").synthesize(MODEL, text).emit(tmp_path / "out")
    (tmp_path / "use.c").write_text(
        """#include <stdio.h>
        #include "out/model.h"
        static struct model model;
        int main(void) {
            if (model_init(&model) != MODEL_OK) { return 1; }
            model.in_x[2] = 1.5f;
            if (model_step(&model, NULL, NULL) != MODEL_OK) { return 2; }
            printf("%g", model.out_y[2]);
            return 0;
        }"""
    )
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", "use", "use.c", "out/model.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)

    assert subprocess.run(["./use"], cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout == b"3"


def test_another_place_of_ports_is_refused():
    with pytest.raises(SynthesisError, match="io is 'outside', expected caller or inside"):
        oi.Synthesizer("c", io="outside").synthesize(MODEL, RUNNING.replace("T, 2", "3, 2"))
