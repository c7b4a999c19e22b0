"""Model files: opened and written by the formats that are installed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from openinfer.boundary import public_methods
from openinfer.errors import ModelError
from openinfer.model.guarded_store import GuardedStore
from openinfer.model.model import Model
from openinfer.plugins.crossing import crossing
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import ImporterSpec, ModelFormatSpec, load_object
from openinfer.regular_files import head_of

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from openinfer.model.store import ModelContents, ModelStore

_Spec = TypeVar("_Spec", ModelFormatSpec, ImporterSpec)


@public_methods
class ModelLoader:
    """Opens model files of any registered format."""

    @staticmethod
    def open(path: str | os.PathLike[str], *, environment: Environment | None = None) -> Model:
        """Open a model file without reading payloads.

        Raises:
            ModelError: the file is missing, of no known format, or invalid.
            PluginError: the plugin of its format failed.
        """
        file = Path(path)
        try:
            head = head_of(file, 64)
        except OSError as error:
            message = f"cannot read model {str(file)!r}: {error.strerror or error}"
            raise ModelError(message, code="model-file", file=str(file)) from error
        offered = environment or Environment.default()
        chosen = _format_of(file, head, offered)
        owner, what = offered.owner("model format", chosen.name), f"model format {chosen.name}"
        make = load_object(chosen.open, owner)
        with crossing(owner, f"opening {str(file)!r} as {what}"):
            store: ModelStore = make(file)
        return Model(GuardedStore(owner, what, store) if owner.is_foreign else store, str(file), path=file)


def save_model(
    contents: ModelContents, path: str | os.PathLike[str], *, environment: Environment | None = None
) -> None:
    """Write a model file, in the format of the file name's ending, or in the only one there is.

    Raises:
        ModelError: no installed format can be written, or the file cannot be.
    """
    offered = environment or Environment.default()
    formats = [f for f in offered.model_formats.values() if f.save is not None]
    fitting = [f for f in formats if Path(path).suffix in f.suffixes] or formats[: len(formats) == 1]
    if not fitting or fitting[0].save is None:
        known = ", ".join(f"{f.name} ({', '.join(f.suffixes)})" for f in formats) or "none installed"
        raise ModelError(f"cannot tell in which format to write {str(path)!r}; known: {known}", code="model-format")
    owner = offered.owner("model format", fitting[0].name)
    save = load_object(fitting[0].save, owner)
    with crossing(owner, f"writing {str(path)!r} as model format {fitting[0].name}"):
        save(Path(path), contents)


def _format_of(file: Path, head: bytes, environment: Environment) -> ModelFormatSpec:
    formats = environment.model_formats
    fitting = _fitting(formats.values(), file, head)
    if fitting is not None:
        return fitting
    known = ", ".join(f"{f.name} ({', '.join(f.suffixes)})" for f in formats.values()) or "none installed"
    message = f"{str(file)!r} is not a model file of a known format; known: {known}"
    importer = _fitting(environment.importers.values(), file, head)
    if importer is not None:
        command = f"openinfer import {shlex.quote(str(file))}"
        message = f"{message}. `{command}` writes a program and such a model file from it ({importer.name})"
    raise ModelError(message, code="model-format", file=str(file))


def _fitting(specs: Collection[_Spec], file: Path, head: bytes) -> _Spec | None:
    """Return what reads a file that begins so, or else one with its ending."""
    by_magic = (spec for spec in specs if spec.magic and head.startswith(spec.magic))
    return next(by_magic, next((spec for spec in specs if file.suffix.lower() in spec.suffixes), None))
