"""GLSL functions of a kernel, made from expressions: how elements are read, combined and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.glsl_renderer import glsl_type, helper_source, render
from openinfer.expr.linear import linearise
from openinfer_backend_vulkan.buffers import glsl_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr


class Functions:
    """The functions of one shader that computes in the type ``work``; `source` stands behind its buffers.

    Attributes:
        work: the GLSL type that elements are computed in.
        kept: the GLSL type of the words in which such an element is kept between runs.
    """

    def __init__(self, work: DType) -> None:
        self._type = work
        self.work = glsl_type(work)
        self.kept = "uint" if self.work == "bool" else self.work
        self._texts: list[str] = []
        self._helpers: dict[str, None] = {}

    @property
    def source(self) -> str:
        """The text of the functions, after that of what they call."""
        return "\n".join([helper_source(self._helpers), *self._texts])

    def add(self, name: str, expr: Expr, *parameters: DType) -> None:
        """Add ``name(a0, a1, ...)``, where ``aN`` is ``Input(N)`` of the expression."""
        given = {number: f"a{number}" for number in range(len(parameters))}
        head = ", ".join(f"{glsl_type(dtype)} a{number}" for number, dtype in enumerate(parameters))
        self._add(f"{glsl_type(expr.dtype)} {name}({head})", expr, given, "return {};")

    def load(self, number: int, dtype: DType, by: DType | None = None) -> None:
        """Add ``loadN(at)``, the element of input ``number`` of a kernel at a place, in the type of work.

        It passes through the type ``by`` on its way.
        """
        element = f"{glsl_type(dtype)}(source{number}[at])"
        expr = tree.cast(tree.cast(tree.Input(0, dtype), by or self._type), self._type)
        self._add(f"{self.work} load{number}(uint at)", expr, {0: element}, "return {};")

    def store(self, expr: Expr, number: int = 0) -> None:
        """Add ``storeN(at, value)``, which writes what the expression makes of ``Input(0)``, of the type of work."""
        head = f"void store{number}(uint at, {self.work} value)"
        self._add(head, expr, {0: "value"}, f"target{number}[at] = {glsl_word(expr.dtype)}({{}});")

    def _add(self, head: str, expr: Expr, inputs: Mapping[int, str], last: str) -> None:
        fragment = render(linearise(expr), inputs)
        self._helpers.update(dict.fromkeys(fragment.helpers))
        lines = (*fragment.statements, last.format(fragment.result))
        body = "".join(f"    {line}\n" for line in lines)
        self._texts.append(f"{head} {{\n{body}}}\n")
