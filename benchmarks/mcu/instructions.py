"""Instructions, RAM and flash of TFLite models as bundles for microcontrollers, compared with CMSIS-NN.

    python benchmarks/mcu/instructions.py FOLDER [MODEL ...] [--board BOARD ...] [--kernels] [--flags=-Os,-g]
        [--into FOLDER]

FOLDER holds MLPerf Tiny's files, or other .tflite files with one input and one output. Each is imported, synthesised
for the device of a board (`boards.BOARDS`) and built with the flags, the start-up code and the linker script of its
bundle; QEMU runs one inference. The script compares the output with device ``cpu``, codes bit for bit, and prints

* the instructions of the step (QEMU counts one a nanosecond), not cycles, and as parts of those of CMSIS-NN and, for
  quantised models, of those of the same network in floats, with the marks that they are to meet;
* RAM in bytes: structure, arena and the stack that the step painted, without the caller's input and output;
* flash in bytes: code and read-only data, and what of it are not weights, biases and scales.

It needs `openinfer-core[tflite]`, `openinfer-backend-cpu`, and Debian's packages gcc-arm-none-eabi,
libnewlib-arm-none-eabi and qemu-system-arm; for RISC-V gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf and
qemu-system-misc.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from boards import BOARDS

import openinfer as oi
from openinfer import importers
from openinfer_synth_c.boards import board_of
from openinfer_synth_c.compiler_flags import BARE

if TYPE_CHECKING:
    from boards import Board

    from openinfer_synth_c.boards import Board as Emulated

MODELS = {
    "kws_ref_model_int8": "kws_ref_model_float32",
    "pretrainedResnet_quant": "pretrainedResnet_f32",
    "vww_96_int8": "vww_96_float",
    "ad01_int8": "ad01_fp32",
    "str_ww_ref_model_int8": None,
}
"""Quantised models, and the same networks in floats."""

MOST_CODE = 24 * 1024
"""Bytes of flash that a model is to take in addition to its weights, biases and scales."""

MAIN = """
#include "net/net.h"
#include "net/openinfer_platform.h"

extern uint32_t _bss_end;
static struct net model;
{arenas}
static const union {{ uint8_t bytes[{inputs}]; double aligned; }} input = {{{{{values}}}}};
static union {{ uint8_t bytes[{outputs}]; double aligned; }} output;

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
    const struct net_inputs inputs = {{.v_{input} = (const void *)input.bytes}};
    const struct net_outputs outputs = {{.v_{output} = (void *)output.bytes}};
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
    for (at = 0; at < {outputs}; ++at) {{ log_number("output ", output.bytes[at]); }}
    return status == NET_OK ? 0 : 1;
}}
"""
"""One inference of the bundle in the folder ``net``."""


@dataclass(frozen=True)
class Measured:
    """What one inference takes; memory in bytes."""

    instructions: int
    ram: int
    stack: int
    flash: int
    code: int
    kernels: list[tuple[str, int]]


def measured(path: Path, board: Board, folder: Path, further: list[str], *, kernels: bool) -> Measured:
    """Return what a model takes, built with further flags after those of the bundle.

    Raises:
        SystemExit: its output differs from the simulator's, or a tool failed.
    """
    imported = importers.load(path)
    ((input_name, output_name),) = zip(imported.report.inputs.values(), imported.report.outputs.values(), strict=True)
    with oi.Simulator(imported.model, imported.graph).make_executor() as executor:
        of = executor.input_type(input_name)
        shape, numbers = [n if isinstance(n, int) else 1 for n in of.shape], np.random.default_rng(0)
        if of.dtype.is_integer:
            image = numbers.integers(-128, 128, shape).astype(np.int8)
        else:
            image = numbers.normal(size=shape).astype(np.float32)
        executor.step(**{input_name: image})
        expected = np.asarray(executor.fetch(output_name)).ravel()
    # Networks of floats are measured where they do not fit the device, too.
    arch = board.arch if of.dtype.is_integer else {k: v for k, v in board.arch.items() if k != "memories"}
    synthesizer = oi.Synthesizer("c", arch=arch, prefix="net", weights="embedded")
    synthesis = synthesizer.synthesize(imported.model, imported.graph, sizes=imported.model.sizevars)
    synthesis.emit(folder / "net")
    header = (folder / "net" / "net.h").read_text()
    names = {"input": input_name, "output": output_name}
    (folder / "main.c").write_text(_main(header, names, image, expected.nbytes))
    emulated = board_of(synthesis.plan)
    if emulated is None:
        raise SystemExit(f"QEMU has no board for the device {board.arch['name']}")
    _build(emulated, folder, [*board.flags, *further], kernels=kernels)
    log = _ran([*emulated.command, "net.elf"], folder)
    _compare(path.name, np.array(_numbers(log, "output"), np.uint8).view(expected.dtype), expected)
    flash = _flash(emulated, folder)
    ram = int(re.search(r"#define NET_BYTES (\d+)", header)[1]) + sum(
        map(int, re.findall(r"#define NET_(?:ARENA|STATES)_\w+_BYTES (\d+)", header))
    )
    (stack,) = _numbers(log, "stack")
    return Measured(
        instructions=_instructions(emulated, _numbers(log, "ticks")[0]),
        ram=ram + stack,
        stack=stack,
        flash=flash,
        code=flash - sum(len(weight.data) for weight in synthesis.plan.weights),
        kernels=_kernels(emulated, log, folder) if kernels else [],
    )


def _compare(name: str, output: np.ndarray, expected: np.ndarray) -> None:
    if expected.dtype.kind == "f":
        is_equal = np.allclose(output, expected, rtol=1e-4, atol=1e-5)
    else:
        is_equal = np.array_equal(output, expected)
    if not is_equal:
        raise SystemExit(f"{name}: the output is {output.tolist()}, device cpu has {expected.tolist()}")


def _instructions(board: Emulated, ticks: int) -> int:
    return round(board.tick * ticks)


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
        inputs=image.nbytes,
        values=", ".join(map(str, image.tobytes())),
        outputs=outputs,
        **names,
    )


def _build(board: Emulated, folder: Path, further: list[str], *, kernels: bool) -> None:
    makefile = (folder / "net" / "Makefile").read_text()
    flags = re.search(r"^CFLAGS \?= (.*)$", makefile, re.MULTILINE)[1].split()
    flags += [*board.family.flags, *BARE, *further]
    excluded = "-finstrument-functions-exclude-function-list=oi_,net_i,net_r,net_h,_part,x2,x4,x8,x16"
    instrumented = ["-finstrument-functions", excluded] if kernels else []
    compiler = board.family.compiler
    _ran([compiler, *flags, *instrumented, "-c", "-o", "net.o", "net/net.c"], folder)
    linked = ["-T", "net/board.ld", "-nostartfiles", *board.family.libraries, "-Wl,--gc-sections"]
    plain = [flag for flag in flags if not flag.startswith("-W")]
    _ran([compiler, *plain, *linked, "-o", "net.elf", "net/board.c", "main.c", "net.o", "-lm"], folder)


def _flash(board: Emulated, folder: Path) -> int:
    """Return the bytes of a bundle in flash: code, and read-only data with the weights."""
    listing = _ran([f"{board.family.prefix}size", "-A", "net.o"], folder)
    sections = re.findall(r"^(\.\S+)\s+(\d+)", listing, re.MULTILINE)
    kept = (".text", ".rodata", ".srodata", ".data", ".sdata")
    return sum(int(nbytes) for name, nbytes in sections if name.startswith(kept))


def _ran(command: list[str], folder: Path) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def _numbers(log: str, name: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{name} (\d+)\r?$", log, re.MULTILINE)]


def _kernels(board: Emulated, log: str, folder: Path) -> list[tuple[str, int]]:
    """Return the functions that a step called, in order, with their instructions."""
    listing = _ran([f"{board.family.prefix}nm", "net.elf"], folder)
    symbols = re.findall(r"^([0-9a-f]+) [tT] (\S+)$", listing, re.MULTILINE)
    names = {int(address, 16) & ~1: name for address, name in symbols}
    spent = zip(_numbers(log, "kernel"), _numbers(log, "spent"), strict=True)
    return [(names.get(address, hex(address)), _instructions(board, ticks)) for address, ticks in spent]


def _ratio(number: int, of: int | None, most: float | None) -> str:
    """Return a part with its mark, and a star where it is larger."""
    if of is None:
        return f"{'':13}"
    ratio = number / of
    mark = "" if most is None else f" <{most:.2f}"
    return f"{ratio:6.2f}{mark:6}{'*' if most is not None and ratio > most else ' '}"


def _row(name: str, result: Measured, board: Board, floats: Measured | None) -> str:
    peer = _ratio(result.instructions, board.peers.get(name), board.marks.get(name))
    of_floats = _ratio(result.instructions, None if floats is None else floats.instructions, board.slower)
    over = "*" if result.code > MOST_CODE else " "
    return (
        f"{name:24} {result.instructions:12,} {peer} {of_floats} {result.ram:8,} {result.stack:6,} {result.flash:8,}"
        f" {result.code:7,}{over}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--board", action="append", choices=list(BOARDS), help="by default all")
    parser.add_argument("--kernels", action="store_true", help="list the instructions of each kernel")
    parser.add_argument("--no-floats", action="store_true", help="do not measure the same networks in floats")
    parser.add_argument("--into", type=Path, help="keep what is built in this folder")
    parser.add_argument("--flags", default="", help="further flags for the compiler, with commas between them")
    options = parser.parse_args()
    further = [flag for flag in options.flags.split(",") if flag]

    def taken(name: str, board: str) -> Measured:
        with tempfile.TemporaryDirectory() as scratch:
            folder = (options.into or Path(scratch)) / board / name
            folder.mkdir(parents=True, exist_ok=True)
            path = options.folder / f"{name}.tflite"
            return measured(path, BOARDS[board], folder, further, kernels=options.kernels)

    for board in options.board or BOARDS:
        print(f"{board:24} {'instructions':>12} {'CMSIS-NN':>13} {'floats':>13} {'RAM':>8} {'stack':>6}", end="")
        print(f" {'flash':>8} {'code':>7}")
        for name in options.models:
            networks = [name] if options.no_floats else [MODELS.get(name), name]
            results = {network: taken(network, board) for network in networks if network is not None}
            for network, result in results.items():
                of = None if network != name else results.get(MODELS.get(name))
                print(_row(network, result, BOARDS[board], of))
                for kernel, instructions in result.kernels:
                    print(f"    {kernel:28} {instructions:12,}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
