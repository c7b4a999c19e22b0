"""Instructions, RAM and flash of quantised TFLite models as bundles for a Cortex-M4, compared with CMSIS-NN.

    python benchmarks/mcu/instructions.py FOLDER [MODEL ...] [--kernels] [--flags=-Os,-g] [--into FOLDER]

FOLDER holds MLPerf Tiny's files, or other .tflite files with one input and one output of bytes. Each is imported,
synthesised for the profile ``cortex-m4`` and built with the flags of the bundle's own Makefile; QEMU runs one inference
on the board of ``examples/cortex-m4``. The script compares the output with device ``cpu``, bit for bit, and prints

* the instructions of the step (QEMU counts one a nanosecond, the board's clock has 40 of them a tick), not cycles;
* RAM in bytes: structure, arena and the stack that the step painted, without the caller's input and output;
* flash in bytes: code, and read-only data with the weights.

It needs `openinfer-core[tflite]`, `openinfer-backend-cpu`, and Debian's packages gcc-arm-none-eabi,
libnewlib-arm-none-eabi and qemu-system-arm.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import openinfer as oi
from openinfer import importers

BOARD = Path(__file__).parents[2] / "examples" / "cortex-m4"

TICK = 40
"""Instructions of a tick: nanoseconds of a clock of 25 MHz."""

CMSIS_NN = {
    "kws_ref_model_int8": 7_700_000,
    "pretrainedResnet_quant": 29_800_000,
    "vww_96_int8": 24_100_000,
    "ad01_int8": 579_000,
}
"""Instructions of CMSIS-NN (commit 99f736a6, GCC 12.2.1, -O2): the sum of its calls for the same layer shapes."""

MAIN = """
#include "digits/net.h"
#include "digits/openinfer_platform.h"

extern uint32_t _bss_end;
static struct net model;
{arenas}
static const int8_t input[{inputs}] = {{{values}}};
static int8_t output[{outputs}];

void __cyg_profile_func_enter(void *function, void *site) __attribute__((no_instrument_function));
void __cyg_profile_func_exit(void *function, void *site) __attribute__((no_instrument_function));

static void log_number(const char *what, uint32_t number) {{
    char text[12];
    char *at = text + sizeof text;
    *--at = '\\0';
    *--at = '\\n';
    do {{
        *--at = (char)('0' + number % 10);
    }} while (number /= 10);
    openinfer_log(what);
    openinfer_log(at);
}}

/* Kernels in the order of their calls, with -finstrument-functions; calls within one count for it. */
static struct {{ void *function; uint32_t ticks; }} calls[256];
static unsigned count, depth;
static uint64_t began;

void __cyg_profile_func_enter(void *function, void *site) {{
    (void)function;
    (void)site;
    if (depth++ == 2) {{ began = openinfer_ticks(); }}
}}

void __cyg_profile_func_exit(void *function, void *site) {{
    (void)site;
    if (--depth == 2 && count < 256) {{
        calls[count].function = function;
        calls[count++].ticks = (uint32_t)(openinfer_ticks() - began);
    }}
}}

int main(void) {{
    const struct net_inputs inputs = {{.v_{input} = input}};
    const struct net_outputs outputs = {{.v_{output} = output}};
    volatile uint32_t *const stack = __builtin_frame_address(0);
    volatile uint32_t *word;
    uint64_t start;
    unsigned at;
    enum net_status status = net_init(&model{arguments});
    for (word = &_bss_end; word < stack - 64; ++word) {{ *word = 0xA5A5A5A5u; }}
    start = openinfer_ticks();
    if (status == NET_OK) {{ status = net_step(&model, &inputs, &outputs); }}
    log_number("ticks ", (uint32_t)(openinfer_ticks() - start));
    for (word = &_bss_end; *word == 0xA5A5A5A5u; ++word) {{ }}
    log_number("stack ", (uint32_t)((uintptr_t)stack - (uintptr_t)word));
    for (at = 0; at < count; ++at) {{
        log_number("kernel ", (uint32_t)(uintptr_t)calls[at].function & ~1u);
        log_number("spent ", calls[at].ticks);
    }}
    for (at = 0; at < {outputs}; ++at) {{ log_number("output ", (uint8_t)output[at]); }}
    return status == NET_OK ? 0 : 1;
}}
"""
"""One inference. The folder ``digits`` is where the board of the example has its bundle."""


@dataclass(frozen=True)
class Measured:
    """What one inference takes; memory in bytes."""

    instructions: int
    ram: int
    stack: int
    flash: int
    kernels: list[tuple[str, int]]


def measured(path: Path, folder: Path, further: list[str], *, kernels: bool) -> Measured:
    """Return what a model takes, built with further flags after those of the bundle.

    Raises:
        SystemExit: its output differs from the simulator's, or a tool failed.
    """
    imported = importers.load(path)
    ((input_name, output_name),) = zip(imported.report.inputs.values(), imported.report.outputs.values(), strict=True)
    with oi.Simulator(imported.model, imported.graph).make_executor() as executor:
        shape = [n if isinstance(n, int) else 1 for n in executor.input_type(input_name).shape]
        image = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
        executor.step(**{input_name: image})
        expected = np.asarray(executor.fetch(output_name)).ravel()
    synthesizer = oi.Synthesizer("c", arch="cortex-m4", prefix="net")
    synthesis = synthesizer.synthesize(imported.model, imported.graph, sizes=imported.model.sizevars)
    synthesis.emit(folder / "digits")
    header = (folder / "digits" / "net.h").read_text()
    names = {"input": input_name, "output": output_name}
    (folder / "main.c").write_text(_main(header, names, image.ravel(), expected.size))
    for name in ("board.c", "link.ld"):
        shutil.copy(BOARD / name, folder)
    _build(folder, further, kernels=kernels)
    board = ["qemu-system-arm", "-M", "mps2-an386", "-semihosting", "-nographic", "-icount", "shift=0"]
    log = _ran([*board, "-kernel", "net.elf"], folder)
    output = np.array(_numbers(log, "output"), np.uint8).view(np.int8)
    if not np.array_equal(output, expected):
        raise SystemExit(f"{path.name}: the output is {output.tolist()}, device cpu has {expected.tolist()}")
    sections = dict(
        re.findall(r"^(\.\S+)\s+(\d+)", _ran(["arm-none-eabi-size", "-A", "digits.o"], folder), re.MULTILINE)
    )
    ram = int(re.search(r"#define NET_BYTES (\d+)", header)[1]) + sum(
        map(int, re.findall(r"#define NET_(?:ARENA|STATES)_\w+_BYTES (\d+)", header))
    )
    (stack,) = _numbers(log, "stack")
    return Measured(
        instructions=TICK * _numbers(log, "ticks")[0],
        ram=ram + stack,
        stack=stack,
        flash=sum(int(n) for name, n in sections.items() if name.startswith((".text", ".rodata", ".data"))),
        kernels=_kernels(log, folder) if kernels else [],
    )


def _main(header: str, names: dict[str, str], image: np.ndarray, outputs: int) -> str:
    parameters = re.search(r"net_init\(struct net \*model(.*?)\);", header)[1]
    arenas = re.findall(r"void \*(\w+)", parameters)
    declared = (
        f"OPENINFER_MEMORY({name.split('_', 1)[1]}) NET_ALIGNED static unsigned char {name}[NET_{name.upper()}_BYTES];"
        for name in arenas
    )
    return MAIN.format(
        arenas="\n".join(declared),
        arguments="".join(f", {name}" for name in arenas),
        inputs=image.size,
        values=", ".join(map(str, image.tolist())),
        outputs=outputs,
        **names,
    )


def _build(folder: Path, further: list[str], *, kernels: bool) -> None:
    makefile = (folder / "digits" / "Makefile").read_text()
    flags = re.search(r"^CFLAGS \?= (.*)$", makefile, re.MULTILINE)[1].split()
    flags += ["-ffunction-sections", "-fdata-sections", "-DOPENINFER_BARE_METAL", *further]
    excluded = "-finstrument-functions-exclude-function-list=oi_,net_i,net_r,net_h,x2,x4,x8,x16"
    instrumented = ["-finstrument-functions", excluded] if kernels else []
    _ran(["arm-none-eabi-gcc", *flags, *instrumented, "-c", "-o", "digits.o", "digits/net.c"], folder)
    linked = ["-T", "link.ld", "-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections"]
    plain = [flag for flag in flags if flag not in ("-Wpedantic", "-Wconversion", "-Werror")]
    sources = ["board.c", "main.c", "digits.o"]
    _ran(["arm-none-eabi-gcc", *plain, *linked, "-o", "net.elf", *sources, "-lm"], folder)


def _ran(command: list[str], folder: Path) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def _numbers(log: str, name: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{name} (\d+)$", log, re.MULTILINE)]


def _kernels(log: str, folder: Path) -> list[tuple[str, int]]:
    """Return the functions that a step called, in order, with their instructions."""
    symbols = re.findall(r"^([0-9a-f]+) [tT] (\S+)$", _ran(["arm-none-eabi-nm", "net.elf"], folder), re.MULTILINE)
    names = {int(address, 16) & ~1: name for address, name in symbols}
    spent = zip(_numbers(log, "kernel"), _numbers(log, "spent"), strict=True)
    return [(names.get(address, hex(address)), TICK * ticks) for address, ticks in spent]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=[*CMSIS_NN, "str_ww_ref_model_int8"])
    parser.add_argument("--kernels", action="store_true", help="list the instructions of each kernel")
    parser.add_argument("--into", type=Path, help="keep what is built in this folder")
    parser.add_argument("--flags", default="", help="further flags for the compiler, with commas between them")
    options = parser.parse_args()
    print(f"{'model':24} {'instructions':>12} {'CMSIS-NN':>12} {'ratio':>6} {'RAM':>8} {'stack':>6} {'flash':>8}")
    further = [flag for flag in options.flags.split(",") if flag]
    for name in options.models:
        with tempfile.TemporaryDirectory() as scratch:
            folder = (options.into or Path(scratch)) / name
            folder.mkdir(parents=True, exist_ok=True)
            found = measured(options.folder / f"{name}.tflite", folder, further, kernels=options.kernels)
        peer = CMSIS_NN.get(name)
        compared = f"{peer:12,} {found.instructions / peer:6.2f}" if peer else f"{'-':>12} {'-':>6}"
        print(f"{name:24} {found.instructions:12,} {compared} {found.ram:8,} {found.stack:6,} {found.flash:8,}")
        for kernel, instructions in found.kernels:
            print(f"    {kernel:28} {instructions:12,}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
