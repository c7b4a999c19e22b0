"""Size variables of a model."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from openinfer import symbolic
from openinfer.affine import Var
from openinfer.dims import Condition, Dim, Let, NeedsNumberError, Relation, Space, collected, index_of, sources
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.demands import LARGEST, least_sizes, take
from openinfer.importers.onnx_files.size_words import condition_in_words
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.symbolic import LITERAL_WORDS, ROUNDINGS, IntExpr, Name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.dims import Size
    from openinfer.importers.onnx_files.source import SourceGraph, TensorInfo
    from openinfer.symbolic import BinOp, Division

LONGEST = 64
"""Maximum number of characters of a dimension's name that its size variable keeps."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]+")

_HYPHENATED = re.compile(r"[A-Za-z_]\w*(-[A-Za-z_]\w*)+")
"""Names such as ``batch-size``: exporters put spaces around the sign of a difference, or subtract numbers."""


class Dimensions:
    """Size variables of a model.

    Attributes:
        space: the sizes, and what operators demand of them.
        names: what the model calls its dimensions.
        origins: what the model calls size variables, where that is another name.
        counts: sizes that operators count when the program runs, and other integers that it reads then.
    """

    def __init__(self, graph: SourceGraph, values: dict[str, Any]) -> None:
        """Take numbers for dimensions, or the names of others that they equal, out of ``values``.

        Raises:
            ModelImportError: a value is neither.
        """
        self.space = Space(answers_outside=True)
        self.origins: dict[str, str] = {}
        self._fixed: dict[str, int] = {}
        self._equal: dict[str, str] = {}
        self._legal: dict[str, Dim] = {}
        self._indices: list[str] = []
        self.counts: list[str] = []
        self._inputs = {info.name for info in graph.inputs}
        self.names = sorted(self._params(graph))
        params = {_stem(param): param for param in self.names} | {param: param for param in self.names}
        self._alone = _extents_alone(graph) | {params[name] for name in values if name in params}
        for name in [name for name in values if name in params and name not in self._inputs]:
            value = values.pop(name)
            if isinstance(value, str) and value in params and self._is_name(params[value]):
                self._equal[params[name]] = params[value]
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                others = ", ".join(
                    repr(other) for other in self.names if self._is_name(other) and other != params[name]
                )
                expected = f"expected a whole number from 0 on, or the name of another dimension among {others}"
                raise ModelImportError(f"dimension {name!r} is set to {value!r}, {expected}", code="import-value")
            self._fixed[params[name]] = value
        self._need_ends()

    def _need_ends(self) -> None:
        """Refuse dimensions that are set to each other, in a circle."""
        for first in self._equal:
            names = [first]
            while (following := self._equal.get(names[-1])) is not None:
                if following in names:
                    circle = " = ".join(map(repr, [*names, following]))
                    message = f"dimensions are set to each other: {circle}; leave one out"
                    raise ModelImportError(message, code="import-value")
                names.append(following)

    def _params(self, graph: SourceGraph) -> set[str]:
        params: set[str] = set()
        for info in graph.inputs:
            for axis, dim in enumerate(info.dims or ()):
                if dim is None:
                    params.add(f"{info.name}_{axis}")
                elif isinstance(dim, str):
                    params.add(dim)
                    expr = _parsed(dim)
                    params.update(symbolic.names(expr) if expr is not None else ())
        return params

    def of(self, info: TensorInfo) -> tuple[Size, ...]:
        """Return the extents of an input.

        Raises:
            ModelImportError: not even the rank is known.
        """
        if info.dims is None:
            message = f"input {info.name!r} has no shape: export the model with shapes, or give its value with --set"
            raise ModelImportError(message, code="import-unsupported")
        return tuple(
            dim if isinstance(dim, int) else self._extent(dim or f"{info.name}_{axis}")
            for axis, dim in enumerate(info.dims)
        )

    def _extent(self, param: str) -> Size:
        expr = _parsed(param)
        if param in self._fixed or param in self._equal or expr is None or self._is_name(param):
            return self._number_or_size(param)
        extent = self._valued(expr)
        if isinstance(extent, Dim):
            take(self.space, Condition(extent.index, Relation.AT_LEAST))
        return extent

    def _is_name(self, param: str) -> bool:
        """Whether a dimension is a size: it has a name, or a text that says nothing of other extents.

        No step could find the names of ``past + 1`` where no extent is ``past`` and nobody sets it.
        """
        expr = _parsed(param)
        return expr is None or isinstance(expr, Name) or not self._alone.issuperset(symbolic.names(expr))

    def _valued(self, expr: IntExpr) -> Size:
        return self.space.dim(collected(expr, self._index, self._divided))

    def _index(self, param: str) -> Index:
        return index_of(self._number_or_size(param))

    def _divided(self, operator: Division, of: Index, by: Index, expr: BinOp) -> Index:
        left, right = self.space.dim(of), self._divisor(expr, self.space.dim(by))
        if operator == "/":
            take(self.space, Condition(index_of(left % right), Relation.EQUAL))
        if operator == "%":
            return index_of(left % right)
        return index_of((left + right - 1 if operator == "ceil" else left) // right)

    def _divisor(self, expr: IntExpr, size: Size) -> Size:
        """Return what an extent divides by, which the program relies on being at least 1.

        Raises:
            ModelImportError: it never is.
        """
        if isinstance(size, Dim):
            positive = Condition(size.index - 1, Relation.AT_LEAST)
            if self.space.certain(positive) is not False:
                take(self.space, positive)
                return size
        elif size >= 1:
            return size
        raise ModelImportError(f"dimension `{symbolic.text(expr)}` divides by `{size}`", code="import-unsupported")

    def _number_or_size(self, param: str) -> Size:
        """Return what a dimension is set to, or the size of the one that it equals in the end."""
        while param in self._equal:
            param = self._equal[param]
        return self._fixed[param] if param in self._fixed else self._named(param)

    def _named(self, param: str) -> Dim:
        if param not in self._legal:
            stem = _stem(param)
            name, number = stem, 2
            while name in self.sizes or (name != param and name in self.names):
                name, number = f"{stem}_{number}", number + 1
            self._legal[param] = self.space.size(name, 1, LARGEST)
            if name != param:
                self.origins[name] = param
        return self._legal[param]

    @property
    def sizes(self) -> tuple[str, ...]:
        """The size variables."""
        return tuple(map(str, self._legal.values()))

    def index(self, count: Size | None) -> Dim:
        """Return the index of a loop with a number of turns; None: the running program knows it."""
        name = f"t{len(self._indices) + 1}" if self._indices else "t"
        while name in self.sizes:
            name += "_"
        self._indices.append(name)
        index = self.space.size(name, 0, None)
        if count is not None:
            take(self.space, Condition(index_of(count - 1 - index), Relation.AT_LEAST))
        return index

    def count(self, most: Size) -> Dim:
        """Return how many rows an operator counts, which are at most so many."""
        rows = self._read("n", 0, most if is_number(most) else LARGEST)
        take(self.space, Condition(index_of(most - rows), Relation.AT_LEAST))
        return rows

    def integer(self, stem: str) -> Dim:
        """Return an integer of either sign that the running program reads, called by a stem."""
        return self._read(stem, -LARGEST, LARGEST)

    def _read(self, stem: str, low: int, high: int) -> Dim:
        name, number = stem, 2
        while name in self.sizes or name in self.counts:
            name, number = f"{stem}{number}", number + 1
        self.counts.append(name)
        return self.space.size(name, low, high)

    def is_bounded(self, size: Size) -> bool:
        """Whether a size has a bound below that of the integers that it is computed from."""
        most = size if is_number(size) else self.space.largest(index_of(size))
        return most is not None and most < LARGEST

    def at_least_zero(self, size: Size) -> Size:
        """Return a size that the program relies on not being negative."""
        if isinstance(size, Dim):
            take(self.space, Condition(size.index, Relation.AT_LEAST))
        return size

    def options(self, names: Collection[str], values: Mapping[str, int | str] | None = None) -> str:
        """Return the options of the command that fix sizes."""
        fixed = values or {}
        settings = (f"{self._origin(name)}={self._origin(fixed.get(name, 'NUMBER'))}" for name in sorted(names))
        return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)

    def needs_number(self, error: NeedsNumberError) -> str:
        """Return what to do where the number of a size is needed."""
        return f"{error}: fix the size with {self.options(error.sizes)}"

    def _origin(self, value: int | str) -> int | str:
        """Return what the model calls a size; a number as it is."""
        return self.origins.get(value, value) if isinstance(value, str) else value

    def advice(self, equations: Sequence[Condition]) -> str:
        """Return the options that fix the sizes of equations: to the number or the other size that they demand."""
        names = frozenset(name for equation in equations for name in sources(equation.index))
        demands = self.demands(equations)
        equal = {name for name, value in demands.items() if isinstance(value, str)}
        free = names - {str(demands[name]) for name in equal}
        advised = self.options(free, demands)
        return f"{advised}, or to a number each" if equal else advised

    def demands(self, equations: Sequence[Condition]) -> dict[str, int | str]:
        """Return the numbers, or the sizes before them, that equations demand of sizes."""
        numbers, order = _solutions(equations), list(self.sizes)
        demands: dict[str, int | str] = {name: numbers[name] for name in order if name in numbers}
        for equation in equations:
            names = _equal_sizes(equation)
            if names and all(name in order for name in names):
                first, *later = sorted(names, key=order.index)
                demands |= {name: first for name in later if name not in demands}
        return demands

    def numbers(self, equations: Sequence[Condition]) -> dict[str, int | str]:
        """Return what equations demand, by the names of the model: of dimensions that no input has the name of."""
        demands = {str(self._origin(name)): self._origin(value) for name, value in self.demands(equations).items()}
        return {name: value for name, value in demands.items() if name not in self._inputs}

    def least(self) -> dict[str, int]:
        """Return the least sizes that operators accept.

        Raises:
            ModelImportError: there are none near the least that each has alone.
        """
        sizes = least_sizes(self.space, dict.fromkeys((*self.sizes, *self._indices, *self.counts), 0))
        if sizes is None:
            demands = " and ".join(map(condition_in_words, self.space.facts))
            names = {name for fact in self.space.facts for name in sources(fact.index)}
            message = f"no sizes meet {demands}: fix them with {self.options(names)}"
            raise ModelImportError(message, code="import-unsupported")
        return {name: sizes[name] for name in self.sizes}


def _stem(param: str) -> str:
    """Return what a dimension is called in a program, but for what sets equal names apart."""
    stem = (_ILLEGAL.sub("_", param).strip("_") or "size")[:LONGEST]
    return f"n{stem}" if stem[0].isdigit() or stem in (*LITERAL_WORDS, *ROUNDINGS) else stem


def _solutions(equations: Sequence[Condition]) -> dict[str, int]:
    """Return the values of sizes that equations such as ``batch - 1 == 0`` demand."""
    numbers: dict[str, int] = {}
    for equation in equations:
        terms = dict(equation.index.terms)
        constant = terms.pop((), 0)
        match [*terms.items()]:
            case [((Var() as size,), 1)] if not isinstance(size, Let):
                numbers[size.name] = -constant
            case _:
                continue
    return numbers


def _equal_sizes(equation: Condition) -> tuple[str, ...]:
    """Return the two sizes of an equation such as ``T - U == 0``; none for others."""
    match equation.index.terms:
        case (((Var() as first,), 1), ((Var() as second,), -1)) | (((Var() as first,), -1), ((Var() as second,), 1)):
            return () if isinstance(first, Let) or isinstance(second, Let) else (first.name, second.name)
        case _:
            return ()


def _extents_alone(graph: SourceGraph) -> set[str]:
    """Return the names that are extents of inputs, and not only parts of expressions."""
    dims = {dim for info in graph.inputs for dim in info.dims or () if isinstance(dim, str)}
    return {dim for dim in dims if isinstance(_parsed(dim), Name)}


def _parsed(param: str) -> IntExpr | None:
    """Return the expression that exporters write for an extent, such as ``past + 1``; None for any other text."""
    if _HYPHENATED.fullmatch(param):
        return None
    try:
        return symbolic.parse(param)
    except symbolic.SymbolicSyntaxError:
        return None
