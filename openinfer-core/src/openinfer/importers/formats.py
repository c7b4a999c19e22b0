"""The importer of a file: by the ending of its name and by its contents, third parties before core."""

from __future__ import annotations

import errno
import os
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.boundary import public
from openinfer.errors import ModelImportError, PluginError
from openinfer.importers.guarded_importer import GuardedOriginal, checked_import
from openinfer.importers.imported import REQUANTIZATIONS, ImportOptions
from openinfer.importers.planned import in_less_memory
from openinfer.plugins.crossing import PluginWarning, crossing, fault, wrong
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import load_object
from openinfer.regular_files import head_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from openinfer.importers.imported import ImportedModel
    from openinfer.importers.original import Original
    from openinfer.importers.verification_report import Verification
    from openinfer.plugins.types import ImporterSpec
    from openinfer.tolerances import Tolerance

_HEAD_NBYTES = 64

_CONTAINER = b"OINF\0"

_PYTORCH = (
    "export it from PyTorch, either as a program: `torch.export.save(torch.export.export(model, args), 'model.pt2')`, "
    "or as ONNX: `torch.onnx.export(model, args, 'model.onnx', dynamo=True)`"
)


_KERAS = (
    "convert it with TensorFlow: `tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model(path)).convert()` "
    "returns the bytes of a .tflite file"
)

_SAVED_MODEL = (
    "convert it with TensorFlow: `tf.lite.TFLiteConverter.from_saved_model(folder).convert()` "
    "returns the bytes of a .tflite file"
)


@public
def load(
    path: str | os.PathLike[str],
    *,
    values: Mapping[str, Any] | None = None,
    feeds: Mapping[str, str] | None = None,
    kept_inputs: Collection[str] = (),
    roll: bool = True,
    keep_norms: bool = False,
    requantize: str = "f32",
    environment: Environment | None = None,
) -> ImportedModel:
    """Return a model of another format as a program with its weights.

    Args:
        path: the file; what belongs to it, such as weights in files of their own, lies in its folder.
        values: inputs of the model that become constants, and symbolic dimensions that become numbers, by name.
        feeds: outputs of the model whose values are inputs in the next step: output name to input name. By default
            those that names imply (``h`` and ``hn``, ``state`` and ``stateN``); an empty mapping for none.
        kept_inputs: inputs that stay inputs, although names imply that outputs are fed to them.
        roll: whether repeated layers become a loop, unless that takes more memory (`openinfer.importers.planned`).
        keep_norms: whether batch norms stay apart from the layers before them.
        requantize: how totals of integer layers of TFLite models become codes: "f32", times one number of f32, as
            LiteRT's XNNPACK; "tflite", in fixed point with two roundings, as TFLite Micro; "fixed", with one.
        environment: what the plugins offer; by default the installed ones.

    Raises:
        ModelImportError: the file is missing, damaged, of an unknown kind, or has nodes that no operator implements.
        MissingDependencyError: a package that reads the format is not installed.
        PluginError: the plugin of its format failed.
    """
    file, offered = Path(path), environment or Environment.default()
    spec = _importer_of(file, offered)
    _check_requantization(requantize, spec)
    options = ImportOptions(
        values=values or {},
        feeds=feeds,
        kept_inputs=kept_inputs,
        roll=roll,
        keep_norms=keep_norms,
        requantize=requantize,
    )
    imported = _imported(file, spec, options, offered)
    if not roll or not imported.report.layers:
        return imported
    unrolled = partial(_imported, file, spec, replace(options, roll=False), offered)
    return in_less_memory(imported, unrolled, offered)


def _imported(file: Path, spec: ImporterSpec, options: ImportOptions, environment: Environment) -> ImportedModel:
    owner = environment.owner("importer", spec.name)
    make = load_object(spec.load, owner)
    with crossing(owner, f"importing {str(file)!r} as {spec.name}"):
        imported: Any = make(file, options, environment)
    return checked_import(owner, f"importer {spec.name}", imported) if owner.is_foreign else imported


@public
def verify(
    path: str | os.PathLike[str],
    imported: ImportedModel,
    *,
    values: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    steps: int | None = None,
    seed: int = 0,
    limits: Mapping[str, int] | None = None,
    budget: int | None = None,
    tolerances: Mapping[str, Tolerance] | None = None,
    requantize: str = "f32",
    environment: Environment | None = None,
) -> Verification:
    """Compare an imported program with its original over several steps.

    Args:
        path: the file that was imported.
        values: what was fixed at import, as `load` was given it.
        inputs: inputs by the names of the model, numbers for all elements of one; the others are random. One more step
            has special floats among them. A function is called with the type of the input and the number of the step.
        initial: what states hold before the first step, by the names of inputs in the model; the others hold zeros. A
            function is called with the type of the state.
        steps: by default two, or four where the program has sizes of its own: no two equal, the largest of which the
            values fit a budget, the least that operators accept, and one more than these.
        limits: how large sizes of steps may be, and how far indices of caches may grow.
        budget: bytes that the values of a step may have at other sizes than the least; None: 512 MiB. The process takes
            up to twice as much.
        tolerances: by element type, or under ``""`` for all floats, in place of those that follow from the program:
            absolute, or relative to the largest magnitude of an output; of integers, in steps.
        requantize: as `load` was given it: LiteRT runs its reference kernels where it is not "f32".

    Raises:
        ModelImportError: nothing runs the original, or it does not run on these inputs.
        MissingDependencyError: a package that runs it is not installed.
    """
    from openinfer.importers.verification import verified

    offered = environment or Environment.default()
    options = ImportOptions(values=values or {}, requantize=requantize)
    original = _original(Path(path), imported, options, offered)
    settings: dict[str, Any] = {
        "inputs": inputs,
        "initial": initial,
        "steps": steps,
        "seed": seed,
        "limits": limits,
        "budget": budget,
        "tolerances": tolerances,
    }
    found = verified(imported, original, **settings, environment=offered)
    if found.agrees or found.first:
        return found
    # Values within a loop have the names of its first turn alone: layers one after the other have names of their own.
    feeds = imported.report.feeds
    flat = load(path, values=values, feeds=feeds, roll=False, requantize=requantize, environment=offered)
    again = verified(flat, original, **settings, environment=offered)
    return replace(found, first=again.first)


def _original(file: Path, imported: ImportedModel, options: ImportOptions, environment: Environment) -> Original:
    """Open the original of an imported program.

    Raises:
        ModelImportError: nothing runs it.
    """
    spec = _importer_of(file, environment)
    if spec.original is None:
        raise ModelImportError(f"nothing runs the original of {str(file)!r} to compare with", code="import-format")
    owner = environment.owner("importer", spec.name)
    opened = load_object(spec.original, owner)
    with crossing(owner, f"opening {str(file)!r} to run it as {spec.name}"):
        original = opened(file, options)
    if not owner.is_foreign:
        return original
    return GuardedOriginal(owner, f"importer {spec.name}", original, imported.report)


def is_for_importers(path: str | os.PathLike[str], environment: Environment | None = None) -> bool:
    """Return whether a file is a model of another format: one that `load` reads, or whose error says how to convert it.

    A missing file is one by its ending. A container of weights is not: the reader of programs says what it is.
    """
    file, offered = Path(path), environment or Environment.default()
    importers = offered.importers.values()
    if (file / "saved_model.pb").is_file() or any(file.suffix.lower() in spec.suffixes for spec in importers):
        return True
    try:
        head = _head_of(file)
    except OSError:
        return False
    if head.startswith(_CONTAINER):
        return False
    return _recipe(file, head) is not None or any(_surely_recognises(spec, file, head, offered) for spec in importers)


def _surely_recognises(spec: ImporterSpec, file: Path, head: bytes, environment: Environment) -> bool:
    """Return whether an importer recognises a file; False, with a warning, where its ``sniff`` fails.

    The file may be a program, which no importer is needed for.
    """
    try:
        return _recognises(spec, file, head, environment)
    except PluginError as error:
        warnings.warn(f"{error}; {str(file)!r} is not taken for one of {spec.name}", PluginWarning, stacklevel=2)
        return False


def _check_requantization(requantize: str, spec: ImporterSpec) -> None:
    """Refuse an unknown requantisation, and one that an importer does not have."""
    if requantize not in REQUANTIZATIONS:
        message = f"requantize is {requantize!r}, expected one of {', '.join(REQUANTIZATIONS)}"
        raise ModelImportError(message, code="import-value")
    if requantize != "f32" and not spec.requantizes:
        message = f"{spec.name} models are requantised in f32 only, found requantize={requantize!r}: leave it out"
        raise ModelImportError(message, code="import-value")


def _importer_of(file: Path, environment: Environment) -> ImporterSpec:
    """Return the importer of a file: one of a third party, else one of this repository.

    Advice about files that core cannot import comes between the two: a plugin may import what core cannot.
    """
    try:
        head = _head_of(file)
    except OSError as error:
        message = f"cannot read {str(file)!r}: {error.strerror or error}"
        raise ModelImportError(message, code="import-file") from error
    importers = environment.importers.values()
    foreign = [spec for spec in importers if environment.owner("importer", spec.name).is_foreign]
    spec = _claimant(foreign, file, head, environment)
    if spec is not None:
        return spec
    recipe = _recipe(file, head)
    if recipe is not None:
        raise ModelImportError(f"{str(file)!r} is {recipe}", code="import-format")
    spec = _claimant([spec for spec in importers if spec not in foreign], file, head, environment)
    if spec is not None and not file.is_dir():
        return spec
    if file.is_dir():
        raise ModelImportError(f"cannot read {str(file)!r}: {os.strerror(errno.EISDIR)}", code="import-file")
    supported = ", ".join(f"{spec.name} ({', '.join(spec.suffixes)})" for spec in importers) or "none installed"
    message = f"{str(file)!r} is of no format that can be imported; known: {supported}"
    raise ModelImportError(message, code="import-format")


def _head_of(file: Path) -> bytes:
    """Return the first bytes of a file; of a folder, none.

    Raises:
        OSError: it cannot be read.
    """
    return b"" if file.is_dir() else head_of(file, _HEAD_NBYTES)


def _claimant(specs: Sequence[ImporterSpec], file: Path, head: bytes, environment: Environment) -> ImporterSpec | None:
    """Return the importer that claims the suffix of a file, or else recognises its contents; None if there is none.

    Where several do, the contents decide between claims of a suffix, and then the order in which plugins load.
    """
    by_suffix = [spec for spec in specs if file.suffix.lower() in spec.suffixes]
    if len(by_suffix) == 1:
        return by_suffix[0]
    recognised = (spec for spec in by_suffix or specs if _recognises(spec, file, head, environment))
    return next(recognised, next(iter(by_suffix), None))


def _recognises(spec: ImporterSpec, file: Path, head: bytes, environment: Environment) -> bool:
    """Return whether the contents of a file are of an importer's format, as far as the importer can say.

    Raises:
        PluginError: its ``sniff`` failed, or returned something other than a bool.
    """
    if spec.magic and head.startswith(spec.magic):
        return True
    if spec.sniff is None:
        return False
    owner = environment.owner("importer", spec.name)
    sniff = load_object(spec.sniff, owner)
    with crossing(owner, f"sniffing {str(file)!r} as {spec.name}"):
        answer: object = sniff(file)
    if not isinstance(answer, bool):
        raise fault(owner, f"sniff of importer {spec.name} {wrong(answer, 'a bool')}")
    return answer


def _recipe(file: Path, head: bytes) -> str | None:
    """Return the kind of an unsupported file and how to convert it; None if the kind is unknown."""
    suffix = file.suffix.lower()
    if (file / "saved_model.pb").is_file():
        return f"a SavedModel of TensorFlow: {_SAVED_MODEL}"
    if head.startswith(_CONTAINER):
        return "a container of weights without a program: run it with a program of yours (`openinfer run`)"
    if head.startswith(b"PK\x03\x04") and suffix in (".pt", ".pth", ".torchscript", ".jit"):
        return f"a PyTorch archive (TorchScript, or saved weights), which has no graph of operators: {_PYTORCH}"
    if head[4:8] == b"TFL3" and suffix != ".tflite":
        return "a TFLite model, expected a name that ends with .tflite: rename it"
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return f"an HDF5 file (Keras): {_KERAS}"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return f"a pickle, which runs code when it is read and is never opened: {_PYTORCH}"
    if suffix == ".safetensors":
        return "weights without a program: `oinf convert` makes a container of them"
    if head.startswith(b"PK\x03\x04") and suffix == ".keras":
        return f"an archive of Keras: {_KERAS}"
    if head.startswith(b"PK\x03\x04") and suffix == ".npz":
        return "an archive of NumPy arrays, weights without a program: `oinf convert` makes a container of them"
    return None
