"""The microcontroller example runs in QEMU, and its map has the sizes that the plan promises."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.testing.waiting import limit_s

EXAMPLES = Path(__file__).parents[1] / "examples"
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
    return oi.Synthesizer("c", arch="cortex-m4", prefix="digits").synthesize(model, program)


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


def test_the_map_agrees_with_the_plan(folder, synthesis):
    sections = {
        name: int(size, 16)
        for name, size in re.findall(
            r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) ", (folder / "digits.map").read_text(), re.MULTILINE
        )
        if int(size, 16)
    }
    (ccm,) = [bank for bank in synthesis.plan.banks if bank.name == "ccm"]
    structure = int(re.search(rb"#define DIGITS_BYTES (\d+)", synthesis.bundle.files["digits.h"])[1])

    assert f"ccm (tcm): {ccm.nbytes} of {ccm.capacity} bytes" in synthesis.memory_map()
    assert sections[".bss.ccm"] == ccm.nbytes
    assert sections[".bss.digits"] == structure
    weights = [size for name, size in sections.items() if name.startswith(".rodata.w_")]
    assert sum(weights) == synthesis.plan.weights_nbytes


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
