"""Reads a program that `torch.export.save` wrote, with the package ``torch``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.failures import NUMERIC, broken
from openinfer.importers.onnx_files.source import Payload, TensorInfo
from openinfer.importers.torch_files.archive import check_archive
from openinfer.importers.torch_files.constants import constants
from openinfer.importers.torch_files.package import torch_module
from openinfer.importers.torch_files.source import Argument, Buffer, Operator, Ref, TorchProgram, Weight
from openinfer.importers.torch_files.symbolic_integers import CHECKS, FUNCTIONS
from openinfer.importers.torch_files.symbols import Symbols
from openinfer.importers.torch_files.tensors import array_of, element_type, known_type
from openinfer.importers.torch_files.translators import translators

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from openinfer.importers.onnx_files.source import Dim

_WEIGHTS = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")

IGNORED = (
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
)
"""Operators that only check what the program relies on."""


def read_program(path: Path) -> TorchProgram:
    """Return the program of a file, in operators that have a translation where PyTorch can write it so.

    Raises:
        ModelImportError: it is not a program of `torch.export`, is damaged, or could run code when it is read.
        MissingDependencyError: the package ``torch`` is not installed.
    """
    return program_of(decomposed(exported(path)), path.stem)


def exported(path: Path) -> Any:
    """Return the `torch.export.ExportedProgram` of a file.

    Raises:
        ModelImportError: as `read_program`.
        MissingDependencyError: the package ``torch`` is not installed.
    """
    torch = torch_module()
    check_archive(path, torch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch_module("torch.export").load(str(path))
    except NUMERIC as error:
        raise broken(f"{str(path)!r} is not a program of torch.export: {error}") from error


def decomposed(program: Any) -> Any:
    """Return a program in which operators without a translation are left only where PyTorch has no definition of them.

    One whose operators all have a translation, and write into no tensor, stays as it is: rewriting takes PyTorch longer
    than all the rest of an import.

    Raises:
        ModelImportError: PyTorch cannot rewrite it.
    """
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    others = sorted({_op_name(target) for target in targets if not _is_translated(target)})
    if not others:
        return program
    table: dict[Any, Any] = torch_module("torch.export").default_decompositions()
    kept = [op for op in table if str(op) in translators()]
    for op in kept:
        del table[op]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions(table)
    except NUMERIC as error:
        message = f"PyTorch cannot write {', '.join(others)} in other operators: {error}"
        raise ModelImportError(message, code="import-unsupported") from error


def _is_translated(target: Any) -> bool:
    """Whether an operator of a graph can be imported as it is; those that write into a tensor have no translation."""
    name = _op_name(target)
    return name in translators() or name in FUNCTIONS or name in CHECKS or name in ("getitem", *IGNORED)


def program_of(program: Any, name: str) -> TorchProgram:
    """Return an `ExportedProgram` as plain data.

    Raises:
        ModelImportError: it has inputs or nodes of kinds that OpenInfer does not have.
    """
    return _Reader(program, name).program()


def result_name(node: str, place: int) -> str:
    """Return what a result of a node is called: the first one has the name of the node."""
    return f"{node}_{place}" if place else node


class _Reader:
    """Turns nodes of `torch.fx` into plain data."""

    def __init__(self, program: Any, name: str) -> None:
        self._program = program
        self._name = name
        nodes: Any = program.graph.nodes
        self._nodes = {node.name: node for node in nodes}
        users = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        shapes = {user: _shape(self._nodes[user]) for user in users if user in self._nodes}
        self._symbols = Symbols({user: shape for user, shape in shapes.items() if shape is not None})

    def program(self) -> TorchProgram:
        program, signature = self._program, self._program.graph_signature
        written = {spec.target: spec for spec in signature.output_specs if spec.kind.name == "BUFFER_MUTATION"}
        inputs: list[TensorInfo] = []
        held: dict[str, Any] = {}
        weights: dict[str, Weight] = {}
        buffers: dict[str, Buffer] = {}
        for spec in signature.input_specs:
            kind, node = spec.kind.name, spec.arg.name
            if kind in _WEIGHTS:
                tensor = self._tensor(spec)
                if spec.target in written:
                    buffers[node] = Buffer(
                        spec.target, _payload(tensor, spec.target), Ref(written[spec.target].arg.name)
                    )
                else:
                    held[node] = tensor
                    weights[node] = Weight(spec.target, _payload(tensor, spec.target))
            elif kind != "USER_INPUT":
                message = f"input {node!r} is of kind {kind.lower()}, which OpenInfer does not have"
                raise ModelImportError(message, code="import-unsupported")
            elif getattr(spec.arg, "value", None) is None and node in self._nodes:
                inputs += self._input(node)
        folded = constants(program, held)
        tensors = {name: value for name, value in folded.items() if hasattr(value, "numel")}
        weights |= {name: Weight(self._path(name, weights), _payload(value, name)) for name, value in tensors.items()}
        torch = torch_module()
        return TorchProgram(
            name=self._name,
            producer=f"PyTorch {torch.__version__}",
            operators=tuple(self._operators(folded)),
            folded=len(folded),
            inputs=tuple(inputs),
            outputs=tuple(self._outputs()),
            weights=weights,
            buffers=buffers,
            ranges=self._symbols.ranges(program.range_constraints),
        )

    def _input(self, name: str) -> Iterator[TensorInfo]:
        node = self._nodes[name]
        shape = _shape(node)
        if shape is not None:
            yield self._info(name, node.meta["val"])
        elif node.users:
            kind = type(node.meta.get("val")).__name__
            message = f"input {name!r} is a number of type {kind} that varies: export it as a tensor of one element"
            raise ModelImportError(message, code="import-unsupported")

    def _path(self, name: str, weights: Mapping[str, Weight]) -> str:
        """Return what a constant is called: as the weight that it was made of, if nothing else reads that."""
        sources = self._nodes[name].all_input_nodes
        while len(sources) == 1 and len(sources[0].users) == 1:
            if sources[0].name in weights:
                return weights[sources[0].name].name
            sources = sources[0].all_input_nodes
        return name

    def _tensor(self, spec: Any) -> Any:
        tensor = self._program.state_dict.get(spec.target)
        return self._program.constants[spec.target] if tensor is None else tensor

    # Nodes

    def _operators(self, folded: Collection[str]) -> Iterator[Operator]:
        for node in self._program.graph.nodes:
            if node.op == "call_function" and _op_name(node.target) not in IGNORED:
                # Saved programs have a node for every result, whether it is read or not.
                is_unread = _op_name(node.target) == "getitem" and not node.users
                if node.name not in folded and not is_unread:
                    yield self._operator(node)
            elif node.op not in ("placeholder", "output", "call_function"):
                message = f"node {node.name!r} is of kind {node.op}, such as a part of control flow"
                raise ModelImportError(f"{message}, which OpenInfer does not have", code="import-unsupported")

    def _operator(self, node: Any) -> Operator:
        arguments = {key: self._argument(value) for key, value in _arguments(node).items()}
        value: Any = node.meta.get("val")
        parts = list(cast("Any", value)) if isinstance(value, list | tuple) else [value]
        tensors = [(place, part) for place, part in enumerate(parts) if part is None or hasattr(part, "shape")]
        types = [part.dtype for _, part in tensors if part is not None]
        foreign = next((str(dtype) for dtype in types if known_type(dtype) is None), "")
        results = tuple(self._info(result_name(node.name, place), part) for place, part in tensors if not foreign)
        return Operator(_op_name(node.target), node.name, arguments, results, _stage(node), foreign)

    def _argument(self, value: Any) -> Argument:
        torch = torch_module()
        if isinstance(value, torch.fx.Node):
            return Ref(value.name)
        if isinstance(value, list | tuple):
            return tuple(self._argument(part) for part in cast("list[Any]", value))
        if isinstance(value, torch.dtype):
            return known_type(value) or str(value)
        if value is None or isinstance(value, bool | int | float | str):
            return cast("Argument", value)
        # Devices, layouts and memory formats, which results do not depend on.
        return str(value)

    def _info(self, name: str, value: Any) -> TensorInfo:
        if value is None:
            return TensorInfo(name, None, None)
        dims: tuple[Dim, ...] = tuple(self._symbols.dim(extent) for extent in value.shape)
        return TensorInfo(name, element_type(value.dtype, f"input {name!r}"), dims)

    # Results

    def _outputs(self) -> Iterator[tuple[str, Argument]]:
        specs = [spec for spec in self._program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
        for name, spec in zip(_paths(self._program, len(specs)), specs, strict=True):
            if hasattr(spec.arg, "value") and not (isinstance(spec.arg.name, str) and spec.arg.name in self._nodes):
                if spec.arg.value is not None:
                    yield name, self._argument(spec.arg.value)
                continue
            yield name, Ref(spec.arg.name)


def _payload(tensor: Any, name: str) -> Payload:
    return Payload(element_type(tensor.dtype, f"constant {name!r}"), tuple(tensor.shape), lambda: array_of(tensor))


def _shape(node: Any) -> tuple[Any, ...] | None:
    value = node.meta.get("val")
    return tuple(value.shape) if hasattr(value, "shape") else None


def _op_name(target: Any) -> str:
    """Return the name of an operator of ATen with its overload, or of a function of Python, such as ``mul``."""
    return str(target) if hasattr(target, "_schema") else str(getattr(target, "__name__", target))


def _arguments(node: Any) -> dict[str, Any]:
    """Return the arguments of a node by name, with those left out."""
    if not hasattr(node.target, "_schema"):
        return {str(place): value for place, value in enumerate(node.args)} | dict(node.kwargs)
    arguments: dict[str, Any] = {}
    for place, spec in enumerate(node.target._schema.arguments):  # noqa: SLF001 - the only place that has names
        default = spec.default_value if spec.has_default_value() else None
        value = node.args[place] if place < len(node.args) else node.kwargs.get(spec.name, default)
        arguments[spec.name] = value
    return arguments


def _stage(node: Any) -> str:
    """Return the path of the innermost module that a node belongs to."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    paths = [str(entry[0]) for entry in stack.values()]
    innermost = paths[-1] if paths else ""
    return "" if innermost.startswith("_empty_nn_module_stack") else innermost


def _paths(program: Any, count: int) -> list[str]:
    """Return what people call the results: keys of a dictionary, else ``output``, with its place among several."""
    pytree = torch_module("torch.utils._pytree")
    spec = program.call_spec.out_spec
    tree = pytree.tree_unflatten(list(range(count)), spec)
    paths, _ = pytree.tree_flatten_with_path(tree)
    names: list[str] = []
    for path, _ in paths:
        keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        is_named = bool(keys) and not keys[0].isdigit()
        names.append(".".join(keys if is_named else ["output", *(keys if count > 1 else ())]))
    return names
