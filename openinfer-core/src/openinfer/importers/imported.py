"""What an importer is given and what it returns."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a model is imported.

    Attributes:
        values: inputs of the model that become constants, and symbolic dimensions that become numbers, by name.
        feeds: outputs of the model whose values are inputs in the next step: output name to input name; None for the
            pairs that names imply, such as ``h`` and ``hn``.
        roll: whether repeated layers become a loop.
        keep_norms: whether batch norms stay apart from the layers before them.
    """

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    feeds: Mapping[str, str] | None = None
    roll: bool = True
    keep_norms: bool = False


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
            ModelError: the container cannot be written.
            OSError: the text cannot be.
        """
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
        with writing(program) as write:
            write(self.text.encode("utf-8"))
            save_model(contents, container, environment=environment)
        return program, container
