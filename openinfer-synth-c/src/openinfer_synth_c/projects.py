"""Build systems of bundles: on a machine with files, for a board without an operating system, and for frameworks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.synth.c_host.builds import BUILDS, CMAKE_TARGETS, Build, build_of
from openinfer_synth_c.boards import board_of

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer_synth_c.boards import Board

_SKETCH = ("sketch.c", "board_sketch.c.j2")

_FOR_BOARDS = {
    "make": Build(
        (("Makefile", "board_Makefile.j2"), _SKETCH),
        "make run",
        "{prefix}.elf",
        "builds `sketch.c`, one inference, with the cross compiler: `make`; `make run` runs it in QEMU",
        frozenset({"clean", "run"}),
        is_hosted=False,
    ),
    "cmake": Build(
        (("CMakeLists.txt", "board_CMakeLists.txt.j2"), ("toolchain.cmake", "toolchain.cmake.j2"), _SKETCH),
        "cmake -S . -B ../build && cmake --build ../build --target run",
        "../build/{prefix}.elf",
        "builds the model as a library and `sketch.c`, one inference, with the cross compiler; `run` runs it in QEMU",
        frozenset({*CMAKE_TARGETS.split(), "run"}),
        is_hosted=False,
    ),
    "platformio": Build(
        (
            ("platformio.ini", "board_platformio.ini.j2"),
            ("library.json", "library.json.j2"),
            ("examples/infer/main.cpp", "arduino.ino.j2"),
        ),
        "pio run",
        "",
        "builds `examples/infer/main.cpp`, one inference; `library.json` makes the directory a library",
        is_hosted=False,
        unrun="PlatformIO",
    ),
}
"""In place of those of `BUILDS`, for devices whose board is known."""

_FRAMEWORKS = {
    "zephyr": Build(
        (
            ("zephyr/module.yml", "zephyr_module.yml.j2"),
            ("zephyr/CMakeLists.txt", "zephyr_CMakeLists.txt.j2"),
            ("zephyr/Kconfig", "zephyr_Kconfig.j2"),
            ("samples/infer/CMakeLists.txt", "zephyr_sample.txt.j2"),
            ("samples/infer/prj.conf", "zephyr_prj.conf.j2"),
            ("samples/infer/src/main.c", "zephyr_main.c.j2"),
        ),
        "west build -b BOARD samples/infer",
        "",
        "makes the directory a module of Zephyr; `samples/infer` runs one inference",
        is_hosted=False,
        unrun="Zephyr and west",
    ),
    "arduino": Build(
        (("library.properties", "library.properties.j2"), ("examples/infer/infer.ino", "arduino.ino.j2")),
        "arduino-cli compile --fqbn BOARD --library . examples/infer",
        "",
        "makes the directory a library of Arduino; `examples/infer` runs one inference",
        is_hosted=False,
        unrun="the Arduino IDE and arduino-cli",
    ),
    "esp-idf": Build(
        (
            ("CMakeLists.txt", "esp_CMakeLists.txt.j2"),
            ("idf_component.yml", "idf_component.yml.j2"),
            ("examples/infer/CMakeLists.txt", "esp_example.txt.j2"),
            ("examples/infer/main/CMakeLists.txt", "esp_main.txt.j2"),
            ("examples/infer/main/idf_component.yml", "esp_main.yml.j2"),
            ("examples/infer/main/main.c", "esp_main.c.j2"),
        ),
        "idf.py -C examples/infer set-target esp32c3 build",
        "",
        "makes the directory a component of ESP-IDF; `examples/infer` runs one inference",
        is_hosted=False,
        unrun="ESP-IDF and idf.py",
    ),
    "cmsis-pack": Build(
        (("OpenInfer.{prefix}.pdsc", "cmsis_pack.pdsc.j2"), ("sketch.c", "printed_sketch.c.j2")),
        "packchk OpenInfer.{prefix}.pdsc && zip OpenInfer.{prefix}.1.0.0.pack *",
        "",
        "describes the directory as a CMSIS-Pack; `sketch.c`, a template of it, runs one inference",
        is_hosted=False,
        unrun="packchk and development environments",
    ),
}

_PLATFORMS = {
    "-mcpu=cortex-m0plus": ("raspberrypi", "pico"),
    "-mcpu=cortex-m3": ("ststm32", "genericSTM32F103RE"),
    "-mcpu=cortex-m4": ("ststm32", "genericSTM32F405RG"),
    "-mcpu=cortex-m7": ("ststm32", "nucleo_f746zg"),
    "-march=rv32imc": ("espressif32", "esp32-c3-devkitm-1"),
}
"""Platforms and boards of PlatformIO with the memories of a profile, by the flag of its core."""


def build_for(plan: ExecutionPlan) -> Build:
    """Return the build system of a plan's bundle.

    Raises:
        SynthesisError: there is none of that name, or the prefix has a meaning for it.
    """
    builds = {**BUILDS, **(_FOR_BOARDS if board_of(plan) is not None else {}), **_FRAMEWORKS}
    prefix = plan.options.prefix
    build = build_of(plan.options.project, prefix, builds)
    templates = tuple((name.format(prefix=prefix), template) for name, template in build.templates)
    return replace(build, templates=templates, command=build.command.format(prefix=prefix))


def platform_of(plan: ExecutionPlan) -> tuple[str, str] | None:
    """Return PlatformIO's platform and board for a device, by the flags of its core."""
    flags = () if plan.arch is None else plan.arch.compiler.flags
    return next((_PLATFORMS[flag] for flag in flags if flag in _PLATFORMS), None)


def flags_of(plan: ExecutionPlan, board: Board) -> tuple[str, ...]:
    """Return the flags of a device by which the compiler and the linker know its core."""
    flags = () if plan.arch is None else plan.arch.compiler.flags
    return (*(flag for flag in flags if flag.startswith("-m")), *board.family.flags)
