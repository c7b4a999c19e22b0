"""`oinf convert`: weights of another format as a container, or a container as .safetensors or .npz."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from ..errors import USAGE, Finding, OinfError
from ..jsonfile import MAX_DEPTH, is_too_deep

if TYPE_CHECKING:
    from ..cli import Subparsers
    from ..convert.model import Change

_T = TypeVar("_T")


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("convert", help="convert weights from another format, or to one")
    parser.add_argument("source", metavar="SRC", help="safetensors, npz, npy, GGUF, PyTorch state dict, HDF5, or .oinf")
    parser.add_argument("target", metavar="DST", help=".oinf; from .oinf: .safetensors or .npz")
    parser.add_argument("--json", action="store_true", help="print what was written and changed as JSON")
    add = parser.add_argument_group("from .oinf").add_argument
    exporting = [add("--dequantize", action="store_true", help="quantised tensors as real values")]
    importing = _add_import_options(parser.add_argument_group("to .oinf").add_argument)
    parser.set_defaults(run=run, exporting=exporting, importing=importing)


def _add_import_options(add: Callable[..., argparse.Action]) -> list[argparse.Action]:
    return [
        add("--from", dest="source_format", metavar="FORMAT", help="format of SRC, if its suffix does not show it"),
        add("--rename", type=_pair(str), action="append", default=[], metavar="A=B", help="rename tensor A to B"),
        add("--dtype", type=_pair(str), action="append", default=[], metavar="PATTERN=TYPE", help="cast tensors"),
        add("--sizevar", type=_pair(int), action="append", default=[], metavar="N=V", help="add the size N"),
        add("--meta", type=_pair(_json_or_text), action="append", default=[], metavar="K=V", help="V is JSON or text"),
        add("--raw", action="store_true", help="store unsupported types as bytes"),
        add("--exact-blocks", action="store_true", help="GGUF Q8_0, Q4_0: integers, a scale for each block"),
        add("--skip-unsupported", action="store_true", help="leave out what cannot be converted"),
        add(
            "--unpacked-limit",
            type=int,
            default=1 << 30,
            metavar="BYTES",
            help="limit of the bytes of all tensors, at least 32 times those of SRC (default: 1 GiB)",
        ),
        add("--allow-case-collisions", action="store_true", help="allow names that differ in case only"),
        add("--checksums", action="store_true", help="add a SHA-256 of every tensor"),
        add("--align", type=int, default=8, metavar="BYTES", help="alignment of tensor data"),
    ]


def _pair(parse: Callable[[str], _T]) -> Callable[[str], tuple[str, _T]]:
    def pair(text: str) -> tuple[str, _T]:
        name, separator, value = text.rpartition("=") if parse is str else text.partition("=")
        if not separator or not name or not value:
            raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
        try:
            return name, parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{value!r}: {error}") from error

    return pair


def _json_or_text(text: str) -> object:
    if is_too_deep(text.encode(errors="surrogateescape")):
        raise argparse.ArgumentTypeError(f"{text:.20}...: nested more than {MAX_DEPTH} deep")
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return text if value is None or isinstance(value, dict) else value


def run(arguments: argparse.Namespace) -> int:
    """0, or raises `OinfError` or `OSError`; prints every renaming, cast, copy and omission, and what was written."""
    from ..convert.conversion import exporter_of
    from ..progress import progress_bar
    from ..written import written_json, written_text

    exporter = exporter_of(arguments.target)
    _require_unused(arguments, arguments.exporting if exporter is None else arguments.importing)
    with progress_bar("converting", quiet=arguments.json):
        changes = _import(arguments) if exporter is None else _export(arguments, exporter.export)
    if arguments.json:
        document = {"written": written_json(arguments.target), "changes": [asdict(change) for change in changes]}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in (*changes, written_text(arguments.target)))
    return 0


def _require_unused(arguments: argparse.Namespace, actions: Iterable[argparse.Action]) -> None:
    """Raise `OinfError` (E_USAGE) for options that have no meaning in this direction."""
    for action in actions:
        if getattr(arguments, action.dest) != action.default:
            message = f"{action.option_strings[0]} has no effect on writing {arguments.target}; leave it out"
            raise OinfError(Finding(code=USAGE, message=message))


def _import(arguments: argparse.Namespace) -> Sequence[Change]:
    from ..convert.conversion import ConversionOptions, convert_to_oinf
    from ..convert.model import ReadOptions

    options = ConversionOptions(
        source_format=arguments.source_format,
        renames=_table(arguments.rename),
        dtypes=arguments.dtype,
        sizevars=_table(arguments.sizevar),
        metadata=_table(arguments.meta),
        read=ReadOptions(
            raw=arguments.raw,
            exact_blocks=arguments.exact_blocks,
            skip_unsupported=arguments.skip_unsupported,
            unpacked_nbytes=arguments.unpacked_limit,
        ),
        align=arguments.align,
        checksums=arguments.checksums,
        allow_case_collisions=arguments.allow_case_collisions,
    )
    return convert_to_oinf(arguments.source, arguments.target, options)


def _table(pairs: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    return dict(pairs)


def _export(arguments: argparse.Namespace, export: Callable[..., Sequence[Change]]) -> Sequence[Change]:
    from ..convert.conversion import open_container_to_export
    from ..convert.values import ExportOptions
    from ..progress import expect

    options = ExportOptions(dequantize=arguments.dequantize)
    with open_container_to_export(arguments.source) as file:
        expect(file.file_size)
        return export(file, arguments.target, options)
