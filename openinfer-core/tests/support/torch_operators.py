"""One operator of PyTorch: what it computes, and a program of it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from openinfer.importers.onnx_files.source import TensorInfo
from openinfer.importers.torch_files.source import Operator, Ref, TorchProgram

torch = pytest.importorskip("torch", reason="results are compared with those of the package torch")

from openinfer.importers.torch_files.tensors import element_type  # noqa: E402

GENERATOR = torch.Generator().manual_seed(34)


def f(*shape: int) -> Any:
    """Return floats around 0."""
    return torch.randn(shape, generator=GENERATOR)


def u(*shape: int) -> Any:
    """Return floats between 0.1 and 0.9."""
    return 0.1 + 0.8 * torch.rand(shape, generator=GENERATOR)


def i(*shape: int, low: int = -5, high: int = 6) -> Any:
    return torch.randint(low, high, shape, generator=GENERATOR)


def b(*shape: int) -> Any:
    return f(*shape) > 0


@dataclass(frozen=True)
class Case:
    """An operator with its arguments; ``results`` are the positions of those that are compared."""

    op: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    results: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.op


def case(op: str, *arguments: Any, **named: Any) -> Case:
    return Case(op if "." in op else f"{op}.default", arguments, named)


def first(op: str, *arguments: Any, **named: Any) -> Case:
    """Return a case of which only the first result is compared."""
    made = case(op, *arguments, **named)
    return Case(made.op, made.arguments, made.named, (0,))


def _overload(name: str) -> Any:
    op, _, overload = name.rpartition(".")
    return getattr(getattr(torch.ops.aten, op), overload)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [part for item in value for part in _flat(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def tensors_of(tried: Case) -> list[Any]:
    return _flat([tried.arguments, list(tried.named.values())])


def evaluated(tried: Case) -> tuple[dict[str, Any], TorchProgram]:
    """Return results by name, and a program of the one operator."""
    overload = _overload(tried.op)
    made = overload(*tried.arguments, **tried.named)
    several = isinstance(made, list | tuple)
    values = list(made) if several else [made]
    read = _reader()
    arguments: dict[str, Any] = {}
    for number, spec in enumerate(overload._schema.arguments):
        default = spec.default_value if spec.has_default_value() else None
        argument = tried.arguments[number] if number < len(tried.arguments) else tried.named.get(spec.name, default)
        arguments[spec.name] = read(argument)
    infos = tuple(
        TensorInfo(f"y_{number}", element_type(value.dtype, f"y_{number}"), tuple(value.shape))
        for number, value in enumerate(values)
    )
    operators = [Operator(f"aten.{tried.op}", "y", arguments, infos)]
    positions = tried.results or tuple(range(len(values)))
    names = {number: "y" if not several else f"r{number}" for number in positions}
    if several:
        operators += [
            Operator("getitem", names[number], {"0": Ref("y"), "1": number}, (infos[number],)) for number in names
        ]
    inputs = tuple(
        TensorInfo(f"x{number}", element_type(value.dtype, f"x{number}"), tuple(value.shape))
        for number, value in enumerate(tensors_of(tried))
    )
    outputs = tuple((name, Ref(name)) for name in names.values())
    return (
        {name: values[number] for number, name in names.items()},
        TorchProgram("made", "PyTorch", tuple(operators), inputs, outputs),
    )


def _reader() -> Callable[[Any], Any]:
    count = iter(range(1000))

    def read(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return Ref(f"x{next(count)}")
        if isinstance(value, list | tuple):
            return tuple(map(read, value))
        if isinstance(value, torch.dtype):
            return element_type(value, "an argument")
        return value if isinstance(value, bool | int | float | str | None) else str(value)

    return read
