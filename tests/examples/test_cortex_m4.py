"""The microcontroller example runs in QEMU, and its map file agrees with the printed plan."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.testing.waiting import limit_s

EXAMPLES = Path(__file__).parents[2] / "examples"
MISSING = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm", "make") if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def made(folder, target):
    return subprocess.run(
        ["make", target], cwd=folder, capture_output=True, text=True, timeout=limit_s(120), check=False
    )


@pytest.fixture(scope="module")
def program():
    return oi.load_graph(EXAMPLES / "digits" / "digits.oi")


@pytest.fixture(scope="module")
def model():
    with oi.ModelLoader.open(EXAMPLES / "digits" / "digits.oinf") as opened:
        yield opened


@pytest.fixture(scope="module")
def synthesis(program, model):
    return oi.Synthesizer("c", arch="cortex-m4", prefix="digits").synthesize(model, program, sizes=model.sizevars)


@pytest.fixture(scope="module")
def folder(synthesis, tmp_path_factory):
    copy = tmp_path_factory.mktemp("board") / "cortex-m4"
    shutil.copytree(EXAMPLES / "cortex-m4", copy, ignore=shutil.ignore_patterns("digits*"))
    synthesis.emit(copy / "digits")
    built = made(copy, "digits.elf")
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    return copy


def test_it_computes_what_the_simulator_computes(folder, program, model):
    image = (np.arange(64) * 7 % 17).astype(np.float32)
    executor = oi.Simulator(model, program, device="cpu").make_executor()
    type_ = executor.input_type("image")
    executor.step(image=image.reshape(type_.shape))

    ran = made(folder, "run")

    assert ran.returncode == 0, ran.stderr + ran.stdout
    logged = ran.stderr  # QEMU writes there what comes over semihosting
    found = [int(number) for number in re.findall(r"^thousandths (-?\d+)$", logged, re.MULTILINE)]
    np.testing.assert_allclose(found, 1000 * executor.fetch("logits").ravel(), atol=2)
    assert f"digit {int(executor.fetch('digit').item())}\n" in logged
    assert "\ndone\n" in logged


def origins(folder):
    """Return where the memories of the board begin, by the script of the linker."""
    found = re.findall(r"RAM_(\w+) \(rw\) : ORIGIN = (0x[0-9A-F]+)", (folder / "digits" / "board.ld").read_text())
    return {name.lower(): int(start, 16) for name, start in found}


def mapped(folder):
    """Return the start and the bytes of each section that the linker placed, by its name."""
    text = (folder / "digits.map").read_text()
    found = re.findall(r"^ (\.\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) ", text, re.MULTILINE)
    return {name: (int(start, 16), int(size, 16)) for name, start, size in found if int(size, 16)}


def printed_plan(*arguments):
    ran = CliRunner().invoke(main, ["plan", *map(str, arguments)])
    assert ran.exit_code == 0, ran.output
    return ran.output


def memories_of(printed):
    """Return the bytes that a printed plan uses of each memory."""
    found = re.findall(r"^memory +(\w+) \(\w+\): ([\d,]+) of ", printed, re.MULTILINE)
    return {name: int(nbytes.replace(",", "")) for name, nbytes in found}


def test_the_map_file_agrees_with_the_printed_plan(folder, synthesis):
    network = (EXAMPLES / "digits" / "digits.oi", "--model", EXAMPLES / "digits" / "digits.oinf")
    printed, sections = printed_plan(*network, "--arch", "cortex-m4", "--size", "N=1", "--size", "S=8"), mapped(folder)
    weights = [size for name, (_, size) in sections.items() if name.startswith(".rodata.w_")]

    assert memories_of(printed) == {"ccm": sections[".bss.ccm"][1], "sram": 0}
    assert f"weights   {sum(weights):,} bytes in {len(weights)} tensors" in printed
    assert re.search(rf"^ccm \(tcm\): {sections['.bss.ccm'][1]} of 65536 bytes$", printed, re.MULTILINE)
    assert sections[".bss.ccm"][0] == origins(folder)["ccm"]
    structure = int(re.search(rb"#define DIGITS_BYTES (\d+)", synthesis.bundle.files["digits.h"])[1])
    assert sections[".bss.digits"][1] == structure


def test_a_keyword_and_a_person_are_recognised_in_int8_on_the_board():
    pytest.importorskip("tflite", reason="the networks are .tflite files")

    ran = subprocess.run(
        [sys.executable, "run.py", "3"],
        cwd=EXAMPLES / "cortex-m4",
        capture_output=True,
        text=True,
        timeout=limit_s(120),
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    lines = ran.stdout.splitlines()
    counts = [[int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", line)] for line in lines]
    assert [line.split(":")[0] for line in lines] == ["keyword", "person"]
    # Right answers, instructions, and bytes of RAM, stack, code and weights, with some room above what was measured.
    for count, most in zip(counts, ((4_500_000, 9_200), (14_000_000, 38_500)), strict=True):
        right, of, instructions, ram = count[0], count[1], count[2], count[3]
        assert (right >= 2, of) == (True, 3)
        assert instructions < most[0]
        assert ram < most[1]


def test_the_networks_are_small_files():
    sizes = [file.stat().st_size for file in (EXAMPLES / "cortex-m4").glob("*.*") if file.suffix in (".tflite", ".npz")]

    assert sum(sizes) < 2_000_000


# 60 KiB and 100 KiB: the memories of the board, 64 and 128 KiB, hold one of them each.
CACHES = """
dynamic { x: f32[64]; }
volatile { y: f32[64]; }
persistent { n: i32; k(t): f32[64] @table @fixed(t=240) @init(0.25); v(t): f32[64] @table @fixed(t=400) @init(2.0); }
block entry {
  cache.read v[n + 99] >> old;
  op mul(x, old) >> y;
  cache.read k[n + 1] >> kept;
  op add(y, kept) >> y;
  cache.write y >> v[n + 100];
  cache.write x >> k[n];
  cache.increment n;
  return y;
}
"""

CACHES_MAIN = """
#include "digits/digits.h"
#include "digits/openinfer_platform.h"

static struct digits digits;
OPENINFER_MEMORY(ccm) DIGITS_ALIGNED static unsigned char states_ccm[DIGITS_STATES_CCM_BYTES];
OPENINFER_MEMORY(sram) DIGITS_ALIGNED static unsigned char states_sram[DIGITS_STATES_SRAM_BYTES];

LOG_NUMBER

int main(void) {
    static float x[64], y[64];
    const struct digits_inputs inputs = {.v_x = x};
    const struct digits_outputs outputs = {.v_y = y};
    enum digits_status status = digits_init(&digits, states_ccm, states_sram);
    int at, step;
    for (step = 0; step < TURNS && status == DIGITS_OK; ++step) {
        for (at = 0; at < 64; ++at) {
            x[at] = (float)(step + at) / 64.0f;
        }
        status = digits_step(&digits, &inputs, &outputs);
        log_number("thousandths ", (int64_t)(y[63] * 1000.0f));
    }
    return status == DIGITS_OK ? 0 : 1;
}
"""
STEPS = 4


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """The folder of a program with two caches, which takes the place of the network in the example."""
    copy = tmp_path_factory.mktemp("caches") / "cortex-m4"
    shutil.copytree(EXAMPLES / "cortex-m4", copy, ignore=shutil.ignore_patterns("digits*"))
    (copy / "caches.oi").write_text(CACHES)
    made_source = oi.Synthesizer("c", arch="cortex-m4", prefix="digits").synthesize(oi.Model.from_arrays({}), CACHES)
    made_source.emit(copy / "digits")
    log_number = re.search(r"^static void log_number.*?^}", (copy / "main.c").read_text(), re.MULTILINE | re.DOTALL)[0]
    text = CACHES_MAIN.replace("LOG_NUMBER", log_number).replace("TURNS", str(STEPS))
    (copy / "main.c").write_text(text)
    built = made(copy, "digits.elf")
    assert built.returncode == 0, built.stderr
    return copy


def test_persistent_variables_lie_where_the_printed_plan_says(caches):
    model = EXAMPLES / "digits" / "digits.oinf"
    printed = printed_plan(caches / "caches.oi", "--model", model, "--arch", "cortex-m4")
    sections = mapped(caches)

    assert memories_of(printed) == {name: sections[f".bss.{name}"][1] for name in ("ccm", "sram")}
    assert f"persistent in sram: {400 * 64 * 4} bytes" in printed
    starts = origins(caches)
    assert all(sections[f".bss.{name}"][0] == starts[name] for name in ("ccm", "sram"))


def test_a_program_with_state_in_two_memories_computes_what_the_simulator_computes(caches):
    expected = []
    with oi.Simulator(oi.Model.from_arrays({}), CACHES, device="cpu").make_executor() as executor:
        for step in range(STEPS):
            executor.step(x=(step + np.arange(64, dtype=np.float32)) / 64)
            expected.append(1000 * float(executor.fetch("y")[63]))

    ran = made(caches, "run")

    assert ran.returncode == 0, ran.stderr + ran.stdout
    found = [int(number) for number in re.findall(r"^thousandths (-?\d+)$", ran.stderr, re.MULTILINE)]
    np.testing.assert_allclose(found, expected, atol=1)


def test_the_model_calls_nothing_but_mathematics_and_memory(folder):
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-std=c99", "-O2"]
    subprocess.run(
        ["arm-none-eabi-gcc", *flags, "-c", "-o", "digits.o", "digits/digits.c"], cwd=folder, check=True, timeout=60
    )

    listed = subprocess.run(
        ["arm-none-eabi-nm", "-u", "digits.o"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout

    wanted = {line.split()[-1] for line in listed.splitlines()}
    assert wanted <= {"memcpy", "memset", "memmove", "memcmp", "strcmp", "expf", "fmaf"}
