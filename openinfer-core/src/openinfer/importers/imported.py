"""What an importer is given and what it returns."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import counted
from openinfer.model import ModelContents, save_model
from openinfer.output_files import writing

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr


REQUANTIZATIONS = ("f32", "fixed", "tflite")
"""How totals of integer layers become codes: as f32, or by one or two roundings in fixed point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a model is imported.

    Attributes:
        values: inputs of the model that become constants, and symbolic dimensions that become numbers, by name.
        feeds: outputs of the model whose values are inputs in the next step: output name to input name; None for the
            pairs that names imply, such as ``h`` and ``hn``.
        kept_inputs: inputs that stay inputs, although names imply that outputs are fed to them.
        roll: whether repeated layers become a loop.
        keep_norms: whether batch norms stay apart from the layers before them.
        requantize: one of `REQUANTIZATIONS`; "f32" for importers that have no other.
    """

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    feeds: Mapping[str, str] | None = None
    kept_inputs: Collection[str] = ()
    roll: bool = True
    keep_norms: bool = False
    requantize: str = "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What was found in a model, and what became of it.

    Attributes:
        format: name of the importer.
        nodes: nodes of the model, those inside of its functions and subgraphs included.
        statements: statements of the program.
        folded: nodes whose values are known at import.
        inputs, outputs: names in the program by names in the model.
        values: names in the program by names in the model, for values that a statement writes.
        feeds: outputs of the model that became state, with the inputs that they are in the next step.
        starts: element type and extents of what a state holds before the first step, zeros, by the name of its input;
            a cache holds 0 entries.
        states: persistent variables by names of inputs in the model, of those that keep their shape.
        recognised: statements that patterns of nodes became, by operator.
        norms: batch norms that were folded into the weights of the layers before them.
        channel_constants: factors and terms of channels that were folded into weights, likewise.
        layers: repeated layers that became a loop; 0 where none did.
        notes: what else a reader should know, one sentence each.
    """

    format: str
    nodes: int
    statements: int
    folded: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    values: Mapping[str, str]
    feeds: Mapping[str, str] = field(default_factory=dict[str, str])
    starts: Mapping[str, tuple[DType, tuple[IntExpr, ...]]] = field(
        default_factory=dict[str, "tuple[DType, tuple[IntExpr, ...]]"]
    )
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    recognised: Mapping[str, int] = field(default_factory=dict[str, int])
    norms: int = 0
    channel_constants: int = 0
    layers: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = f"{counted(self.nodes, 'node')} in {counted(self.statements, 'statement')}, {self.folded} folded"
        return "\n".join([counts, *self.notes])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImportedModel:
    """A program with its weights.

    Attributes:
        graph: the program.
        text: its text, with comments.
        model: sizes and weights; payloads are read from the original file on demand.
        report: what was found.
    """

    graph: Graph
    text: str
    model: Model
    report: ImportReport

    def save(
        self, folder: str | os.PathLike[str], name: str, *, environment: Environment | None = None
    ) -> tuple[Path, Path]:
        """Write ``NAME.oi`` and ``NAME.oinf`` into a folder, which is made if it is missing; return their paths.

        Where one cannot be written, the one that was there before stays, and so does the other.

        Weights are written one after the other, so that few of them are in memory at a time.

        Raises:
            ValueError: the name is empty or has a folder in it.
            ModelError: the container cannot be written.
            OSError: the text cannot be.
        """
        if not name or "/" in name or "\\" in name or name in (".", ".."):
            raise ValueError(f"expected a name without a folder, found {name!r}: the folder is the first argument")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        program, container = target / f"{name}.oi", target / f"{name}.oinf"
        store = self.model.tensor_store()
        tensors = {
            tensor.name: (tensor.dtype, tensor.shape, partial(store.stored, tensor.name))
            for tensor in self.model.tensors.values()
        }
        contents = ModelContents(sizevars=self.model.sizevars, metadata={}, tensors=tensors)
        if program.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(program))
        # The text waits, whole, in an unfinished file until the container has taken its place: they belong together.
        with _as_before_on_failure(container), writing(program) as write:
            write(self.text.encode("utf-8"))
            save_model(contents, container, environment=environment)
        return program, container


@contextmanager
def _as_before_on_failure(given: Path) -> Generator[None]:
    """Put back the file that was at a path, or none, where the block fails after it has been replaced."""
    path = given.resolve()
    kept = path.with_name(f".{path.name}.{os.getpid()}.before") if path.is_file() else None
    if kept is not None:
        try:
            kept.hardlink_to(path)
        except OSError:
            # The file system has no second names for files.
            shutil.copy2(path, kept)
    try:
        yield
    except BaseException:
        if kept is not None:
            kept.replace(path)
        elif path.is_file():
            path.unlink()
        raise
    finally:
        if kept is not None:
            kept.unlink(missing_ok=True)
