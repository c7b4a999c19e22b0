"""Numbers of kernels that only the run knows: extents, where buffers begin, and how many workgroups there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.codegen import Notation
from openinfer.synth.c_host.integers import declare_integers, number_text
from openinfer_backend_vulkan.loop_programs import ITERATIONS
from openinfer_backend_vulkan.target.based import base_of
from openinfer_backend_vulkan.target.commands import RunNumbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.plan.steps import Argument
    from openinfer.synth.c_host.lines import Lines
    from openinfer_backend_vulkan.loop_programs import Printed
    from openinfer_backend_vulkan.target.host_names import HostNames
    from openinfer_backend_vulkan.target.operands import Located


def run_numbers(
    kernel: Printed,
    names: HostNames,
    computation: Computation,
    arguments: Sequence[Argument],
    tensors: Mapping[str, Located],
) -> RunNumbers:
    """Return the numbers of a kernel of a computation, as C that computes them."""
    parameters = {var.name: f"count{place}" for place, var in enumerate(computation.parameters)}
    bases = {base_of(name): (f"base{n}", located.base) for n, (name, located) in enumerate(tensors.items())}
    texts = {**parameters, ITERATIONS: "iterations", **{name: text for name, (text, _) in bases.items()}}

    def write(code: Lines) -> list[str]:
        _declare_sizes(code, names, list(parameters.values()), arguments)
        for name, (text, base) in bases.items():
            if base is not None and name in kernel.numbers:
                code.line(f"const int64_t {text} = {base(code)};")
        code.line(f"const int64_t iterations = {_product(kernel.places, parameters)};")
        return [texts[number] if isinstance(number, str) else str(number) for number in kernel.numbers]

    def groups() -> str:
        if kernel.local == kernel.group_size:
            return "iterations"
        return f"(iterations * {kernel.local} + {kernel.group_size - 1}) / {kernel.group_size}"

    return RunNumbers(write=write, count=len(kernel.numbers), groups=groups)


def _declare_sizes(code: Lines, names: HostNames, found: Sequence[str], arguments: Sequence[Argument]) -> None:
    values = {name: argument.value for name, argument in zip(found, arguments, strict=True)}
    declare_integers(code, names, values, flag="count_overflow")
    for name, argument in zip(found, arguments, strict=True):
        low, high = number_text(argument.low), number_text(argument.high)
        code.line(f"if ({name} < {low} || {name} > {high}) {{ return MODEL_INDEX; }}")


def _product(extents: Sequence[int | Index], parameters: Mapping[str, str]) -> str:
    def variable(var: Var) -> str:
        return parameters[var.name]

    notation = Notation(
        variable=variable,
        quotient=lambda of, by: f"(({of}) / ({by}))",
        remainder=lambda of, by: f"(({of}) % ({by}))",
        quotient_down=lambda of, by: f"(({of}) / ({by}))",
        remainder_down=lambda of, by: f"(({of}) % ({by}))",
    )
    texts = [f"openinfer_extent({notation.index(Index.of(extent))})" for extent in extents]
    return " * ".join(texts) or "1"
