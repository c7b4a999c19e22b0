"""The command of `dataclass_to_oinf.py`: build a dataclass instance from user code and write it."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from .argument_parser import ArgumentParser, UsageMistakeError
from .classify import field_role
from .contents import SizeVar, TensorSpec, UninitializedTensor
from .errors import Finding, OinfError
from .failures import Failure, file_failure, invalid_failure
from .jsonfile import json_file
from .save import write_oinf


def _rejected(message: str, entry: str = "") -> OinfError:
    return OinfError(Finding(code="E_INPUT", message=message, entry=entry or None))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 written, 1 the input is wrong, 2 usage or input/output errors.

    `--input` imports and runs the named module: that is code execution, by design.
    """
    parser = ArgumentParser(prog="dataclass_to_oinf", description="Write a dataclass as an .oinf file.")
    parser.add_argument("--input", required=True, metavar="MODULE:NAME", help="an instance, a class, or a function")
    parser.add_argument("--output", required=True, metavar="FILE", help="the .oinf file")
    parser.add_argument("--json", metavar="FILE", help="a JSON object with the fields of the class")
    parser.add_argument("--format-version", type=int, choices=(1, 2), default=2, help="of the .oinf file")
    parser.add_argument(
        "--int-fields", choices=("metadata", "sizevar"), default="metadata", help="what fields of type int become"
    )
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        parsed = parser.parse_args(arguments)
        instance = load_instance(parsed.input, Path(parsed.json) if parsed.json else None)
        write_oinf(instance, parsed.output, version=parsed.format_version, int_fields=parsed.int_fields)
    except UsageMistakeError as mistake:
        return _fail(mistake.failure)
    except OinfError as error:
        return _fail(invalid_failure(error, 1))
    except OSError as error:
        return _fail(file_failure(error, 2))
    return 0


def _fail(failure: Failure) -> int:
    sys.stderr.write(f"{failure.text}\n")
    return failure.exit_status


def load_instance(place: str, values: Path | None) -> object:
    """The instance that `module:name` names, or that its class or function makes, from JSON fields if given."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise _rejected(f"{place!r} is not of the form module:ClassOrInstance")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise
        raise _rejected(f"there is no module {module_name!r} in {Path.cwd()} or on the import path") from error
    except AttributeError as error:
        raise _rejected(f"module {module_name!r} has no {name!r}") from error
    if values is None:
        return found() if callable(found) and not dataclasses.is_dataclass(type(found)) else found
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise _rejected(f"{place!r} is not a dataclass, which the fields of a JSON object could go to")
    return _from_json(cast("Callable[..., object]", found), values)


def _from_json(owner: Callable[..., object], path: Path) -> object:
    fields = json_file(path, "E_INPUT")
    coerced = {name: _coerced(name, value, field_role(cast("type", owner), name)) for name, value in fields.items()}
    try:
        return owner(**coerced)
    except TypeError as error:
        raise _rejected(f"the fields of {path} do not fit: {error}") from error


def _coerced(name: str, value: object, role: str) -> object:
    """A JSON value as its field's annotation wants it."""
    if role == "sizevar" and not isinstance(value, SizeVar):
        return SizeVar(cast("int", value))
    if role != "tensor":
        return value
    if not isinstance(value, Mapping):
        return TensorSpec(value)
    parts = cast("Mapping[str, Any]", value)
    if "data" in parts and parts.keys() <= {"data", "dtype", "name"}:
        return TensorSpec(parts["data"], parts.get("dtype"), parts.get("name"))
    if {"dtype", "shape"} <= parts.keys() <= {"dtype", "shape", "name"}:
        return UninitializedTensor(parts["dtype"], tuple(parts["shape"]), parts.get("name"))
    raise _rejected("a tensor is a list, a number, or an object with data, or with dtype and shape", name)
