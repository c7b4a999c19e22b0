"""Extents of a model's inputs as expressions of size variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from openinfer import symbolic
from openinfer.errors import ModelImportError
from openinfer.symbolic import LITERAL_WORDS, ROUNDINGS, Const, IntExpr, Name

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import SourceGraph, TensorInfo

TRIED = (48, 80, 112, 176, 208, 272, 304, 368)
"""Sample values of size variables to test shapes with: 16 times a different prime each, so that strides divide them."""

LONGEST = 64
"""Maximum number of characters of a dimension's name that its size variable keeps."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]+")


class Dimensions:
    """Size variables of a model.

    Attributes:
        sizes: a value for each at which shapes are tried.
        origins: what the model calls them, where that is another name.
    """

    def __init__(self, graph: SourceGraph, values: dict[str, Any], factor: int = 1) -> None:
        """Take numbers for dimensions out of ``values``; shapes are tried at sizes times ``factor``."""
        self._factor = factor
        self.sizes: dict[str, int] = {}
        self.origins: dict[str, str] = {}
        self._fixed: dict[str, int] = {}
        self._legal: dict[str, str] = {}
        inputs = {info.name for info in graph.inputs}
        self.names = sorted(self._params(graph))
        for name in [name for name in values if name in self.names and name not in inputs]:
            number = values.pop(name)
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ModelImportError(f"dimension {name!r} is a number, found {number!r}", code="import-value")
            self._fixed[name] = number

    def _params(self, graph: SourceGraph) -> set[str]:
        found: set[str] = set()
        for info in graph.inputs:
            for axis, dim in enumerate(info.dims or ()):
                if dim is None:
                    found.add(f"{info.name}_{axis}")
                elif isinstance(dim, str):
                    found.add(dim)
                    expr = _parsed(dim)
                    found.update(symbolic.names(expr) if expr is not None else ())
        return found

    def of(self, info: TensorInfo) -> tuple[IntExpr, ...]:
        """Return the extents of an input.

        Raises:
            ModelImportError: not even the rank is known.
        """
        if info.dims is None:
            message = f"input {info.name!r} has no shape: export the model with shapes, or give its value with --set"
            raise ModelImportError(message, code="import-unsupported")
        return tuple(
            Const(dim) if isinstance(dim, int) else self._symbol(dim or f"{info.name}_{axis}")
            for axis, dim in enumerate(info.dims)
        )

    def _symbol(self, param: str) -> IntExpr:
        if param in self._fixed:
            return Const(self._fixed[param])
        expr = _parsed(param)
        if expr is None or isinstance(expr, Name):
            return self._named(param)
        return self._replaced(expr)

    def _replaced(self, expr: IntExpr) -> IntExpr:
        if isinstance(expr, Name):
            return Const(self._fixed[expr.name]) if expr.name in self._fixed else self._named(expr.name)
        if isinstance(expr, Const):
            return expr
        return symbolic.BinOp(expr.op, self._replaced(expr.left), self._replaced(expr.right))

    def _named(self, param: str) -> Name:
        if param not in self._legal:
            stem = _ILLEGAL.sub("_", param).strip("_") or "size"
            stem = stem[:LONGEST]
            stem = f"n{stem}" if stem[0].isdigit() or stem in (*LITERAL_WORDS, *ROUNDINGS) else stem
            name, number = stem, 2
            while name in self.sizes:
                name, number = f"{stem}_{number}", number + 1
            self._legal[param] = name
            count = len(self.sizes)
            self.sizes[name] = TRIED[count % len(TRIED)] * (1 + count // len(TRIED)) * self._factor
            if name != param:
                self.origins[name] = param
        return Name(self._legal[param])


def _parsed(param: str) -> IntExpr | None:
    """Return the expression that exporters write for an extent, such as ``past + 1``; None for any other text."""
    try:
        return symbolic.parse(param)
    except symbolic.SymbolicSyntaxError:
        return None
