"""Reading the text of a computation (`openinfer.compute.text`): Python's parser, and one function per construct."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, IndexSyntaxError, Var
from openinfer.affine.text import index_of_ast, within_of_ast
from openinfer.compute.builder import ComputationError
from openinfer.compute.stage import Check, Computation, Fold, Lookup, Order, Position, Read, Stage, Tensor, Total
from openinfer.dtypes import BY_NAME, DType
from openinfer.expr import tree
from openinfer.expr.text import expression_of_ast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute.stage import Element
    from openinfer.expr.tree import Expr

_FOLDS = {
    "sequential": (Order.SEQUENTIAL, False),
    "unordered": (Order.ANY, False),
    "running_sequential": (Order.SEQUENTIAL, True),
    "running_unordered": (Order.ANY, True),
}


def parse_computation(text: str) -> Computation:
    """Return the computation that a text describes.

    Raises:
        ComputationError: the text is not a computation; the message names the line.
        ExprError: types do not go together.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ComputationError(f"the text of a computation has the syntax of Python: {error}") from None
    match module.body:
        case [ast.FunctionDef() as function]:
            try:
                return _computation(function)
            except IndexSyntaxError as error:
                raise ComputationError(str(error)) from None
        case _:
            raise ComputationError("the text of a computation is one `def`")


def _computation(function: ast.FunctionDef) -> Computation:
    parameters = {argument.arg: Var(argument.arg) for argument in function.args.kwonlyargs}
    inputs = tuple(_tensor(a.arg, a.annotation, a, parameters) for a in function.args.posonlyargs)
    outputs = tuple(_tensor(a.arg, a.annotation, a, parameters) for a in function.args.args)
    temporaries: list[Tensor] = []
    stages: list[Stage] = []
    for statement in function.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=None):
                temporaries.append(_tensor(name, annotation, statement, parameters))
            case ast.For():
                tensors = {tensor.name: tensor for tensor in (*inputs, *outputs, *temporaries)}
                stages.append(_StageReader(tensors, parameters).stage(statement))
            case ast.Pass():
                pass
            case _:
                raise _unexpected(statement, "a temporary (`t0: f32[3]`) or a stage (`for ... in grid(...)`)")
    return Computation(function.name, inputs, outputs, tuple(stages), tuple(temporaries), tuple(parameters.values()))


def _tensor(name: str, annotation: ast.expr | None, node: ast.arg | ast.stmt, parameters: Mapping[str, Var]) -> Tensor:
    match annotation:
        case ast.Subscript(value=ast.Name(id=dtype), slice=extents) if dtype in BY_NAME:
            return Tensor(name, BY_NAME[dtype], _indices(extents, parameters))
        case _:
            raise _unexpected(node, f"the type of {name}, such as f32[3, 4]")


def _indices(node: ast.expr, variables: Mapping[str, Var]) -> tuple[Index, ...]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(index_of_ast(part, variables) for part in parts)


class _StageReader:
    def __init__(self, tensors: Mapping[str, Tensor], parameters: Mapping[str, Var]) -> None:
        self._tensors = tensors
        self._variables = dict(parameters)
        self._elements: dict[Element, tree.Input] = {}
        self._named: dict[str, Expr] = {}
        self._lookups: list[Lookup] = []
        self._checks: list[Check] = []
        self._starts: dict[int, Expr | None] = {}
        self._terms: dict[int, Expr] = {}
        self._combined: dict[int, Expr] = {}
        self._count = 0
        self._stored: tuple[str, tuple[Index, ...], Expr] | None = None

    def stage(self, node: ast.For) -> Stage:
        kind, axes = self._loop(node)
        if kind != "grid":
            raise _unexpected(node, "a stage: `for ... in grid(...)`")
        fold: tuple[ast.For, tuple[Var, ...], Order, bool] | None = None
        for statement in node.body:
            if isinstance(statement, ast.For):
                kind, folded = self._loop(statement)
                if kind not in _FOLDS or fold is not None:
                    raise _unexpected(statement, f"one fold: {', '.join(_FOLDS)}")
                fold = (statement, folded, *_FOLDS[kind])
                self._count = sum(_is_start(inner) for inner in statement.body)
                for inner in statement.body:
                    self._statement(inner)
            else:
                self._statement(statement)
        if self._stored is None:
            raise _unexpected(node, "a statement that stores: `tensor[...] = value`")
        tensor, at, value = self._stored
        made = None if fold is None else Fold(fold[1], self._totals(fold[0]), fold[2], fold[3])
        elements = tuple(self._elements)
        return Stage(tensor, axes, elements, value, at, made, tuple(self._lookups), tuple(self._checks))

    def _loop(self, node: ast.For) -> tuple[str, tuple[Var, ...]]:
        names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        match node.iter:
            case ast.Call(func=ast.Name(id=kind), args=extents, keywords=[]) if len(extents) == len(names):
                sizes = [index_of_ast(extent, self._variables) for extent in extents]
                axes = tuple(self._bind(name, size) for name, size in zip(names, sizes, strict=True))
                return kind, axes
            case _:
                raise _unexpected(node, "a loop with one extent per variable")

    def _bind(self, name: ast.expr, size: Index) -> Var:
        if not isinstance(name, ast.Name):
            raise _unexpected(name, "a variable")
        var = Var(name.id, size if size.constant is None else size.constant)
        self._variables[name.id] = var
        return var

    def _totals(self, node: ast.For) -> tuple[Total, ...]:
        if not set(self._starts) == set(self._terms) == set(self._combined) == set(range(self._count)):
            raise _unexpected(node, "for each total a start, a term and a combination")
        return tuple(Total(self._starts[n], self._terms[n], self._combined[n]) for n in range(self._count))

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="start"), args=args)):
                self._starts[_number(name, node)] = self._expression(args[0]) if args else None
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="lookup"), args=args)):
                self._lookup(name, args, node)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, self._expression(value), node)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=tensor), slice=at)], value=value):
                self._stored = (tensor, _indices(at, self._variables), self._expression(value))
            case ast.Expr(value=ast.Call(func=ast.Name(id="check"), args=[refused, ast.Constant(value=str(rule))])):
                self._checks.append(Check(self._expression(refused), rule))
            case _:
                raise _unexpected(node, "an assignment, a lookup, a check or a store")

    def _lookup(self, name: str, args: Sequence[ast.expr], node: ast.stmt) -> None:
        match args:
            case [value, extent, ast.Constant(value=str(rule))]:
                computed = self._expression(value)
                var = self._bind(ast.Name(id=name), index_of_ast(extent, self._variables))
                self._lookups.append(Lookup(var, computed, rule))
            case _:
                raise _unexpected(node, "lookup(value, extent, 'rule')")

    def _assign(self, name: str, value: Expr, node: ast.stmt) -> None:
        if name.startswith("term"):
            self._terms[_number(name, node)] = value
        elif name.startswith("total"):
            self._combined[_number(name, node)] = value
        else:
            self._named[name] = value

    def _expression(self, node: ast.expr) -> Expr:
        return expression_of_ast(node, self._leaf)

    def _leaf(self, node: ast.expr) -> Expr | None:
        match node:
            case ast.Name(id=name) if name in self._named:
                return self._named[name]
            case ast.Name(id=name) if name.startswith(("total", "term")):
                return self._total(name, node)
            case ast.Subscript():
                return self._element(self._read(node))
            case ast.Call(func=ast.Name(id="fill"), args=[ast.Subscript() as place, value, *tests]):
                read = self._read(place)
                guards = tuple(within_of_ast(test, self._variables) for test in tests)
                return self._element(replace(read, fill=self._fill(value, read.dtype), guards=guards))
            case ast.Call(func=ast.Name(id="position"), args=[at, ast.Name(id=dtype)]) if dtype in BY_NAME:
                return self._element(Position(index_of_ast(at, self._variables), BY_NAME[dtype]))
            case _:
                return None

    def _total(self, name: str, node: ast.expr) -> Expr:
        number = _number(name, node)
        if name.startswith("term"):
            return tree.Input(~(self._count + number), self._term_of(number, node).dtype)
        start = self._starts.get(number)
        return tree.Input(~number, (start or self._term_of(number, node)).dtype)

    def _term_of(self, number: int, node: ast.expr) -> Expr:
        if number not in self._terms:
            raise _unexpected(node, "a term before its use")
        return self._terms[number]

    def _read(self, node: ast.Subscript) -> Read:
        match node.value:
            case ast.Name(id=name) if name in self._tensors:
                return Read(name, _indices(node.slice, self._variables), self._tensors[name].dtype)
            case _:
                raise _unexpected(node, "an element of a tensor")

    def _fill(self, node: ast.expr, dtype: DType) -> tree.Literal:
        value = expression_of_ast(node, lambda _: None)
        if not isinstance(value, tree.Literal):
            raise _unexpected(node, "a constant")
        return tree.Literal(value.value, dtype)

    def _element(self, element: Element) -> Expr:
        return self._elements.setdefault(element, tree.Input(len(self._elements), element.dtype))


def _is_start(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "start"


def _number(name: str, node: ast.AST) -> int:
    digits = name.removeprefix("total").removeprefix("term")
    if not digits.isdecimal():
        raise _unexpected(node, "total0, term0 and so on")
    return int(digits)


def _unexpected(node: ast.AST, expected: str) -> ComputationError:
    line = getattr(node, "lineno", 1)
    return ComputationError(f"line {line}: expected {expected}, found {ast.unparse(node)!r}")
