"""The plugin through which core offers its own operators: the hooks are those that third parties use."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.ops import catalog
from openinfer.ops.schema import OpSchema
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import CommandSpec, ImporterSpec, RunnerSpec
from openinfer.scanning import modules_in

if TYPE_CHECKING:
    from collections.abc import Iterable

OPENINFER_API = 1


@hookimpl
def openinfer_ops() -> Iterable[OpSchema]:
    values = [value for module in modules_in(catalog) for value in vars(module).values() if isinstance(value, OpSchema)]
    # A family may import an operator of another one: that does not define it twice.
    return {id(value): value for value in values}.values()


@hookimpl
def openinfer_runners() -> Iterable[RunnerSpec]:
    batch = "openinfer.batch"
    yield RunnerSpec(name="in-process", summary="one after the other, here", runner=f"{batch}.in_process:InProcess")
    yield RunnerSpec(name="processes", summary="processes on this machine", runner=f"{batch}.processes:Processes")
    yield RunnerSpec(name="ray", summary="actors of a Ray cluster", runner=f"{batch}.on_ray:Ray")


@hookimpl
def openinfer_importers() -> Iterable[ImporterSpec]:
    for name, summary, suffix in (
        ("onnx", "ONNX models", ".onnx"),
        ("tflite", "TensorFlow Lite models", ".tflite"),
        ("torch", "programs of torch.export", ".pt2"),
    ):
        files = f"openinfer.importers.{name}_files"
        yield ImporterSpec(
            name=name,
            summary=summary,
            suffixes=(suffix,),
            load=f"{files}.loading:load",
            original=f"{files}.originals:opened",
            requantizes=name == "tflite",
        )


@hookimpl
def openinfer_commands() -> Iterable[CommandSpec]:
    # The folder is listed, not imported: programs that use the library have no need of the command line.
    folder = Path(__file__).with_name("cli") / "commands"
    for found in pkgutil.iter_modules([str(folder)]):
        path = f"openinfer.cli.commands.{found.name}:command"
        yield CommandSpec(name=found.name.rstrip("_").replace("_", "-"), summary="built into openinfer", command=path)
