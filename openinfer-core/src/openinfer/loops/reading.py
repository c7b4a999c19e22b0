"""Reading the text of a loop program (`openinfer.loops.text`): Python's parser, and one case per construct."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from openinfer.affine import Index, IndexSyntaxError, Var, Within
from openinfer.affine.text import index_of_ast, within_of_ast
from openinfer.dtypes import BY_NAME
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.expr.text import expression_of_ast
from openinfer.loops.buffers import Buffer, Memory
from openinfer.loops.errors import LoopProgramError
from openinfer.loops.nodes import (
    Across,
    Alloc,
    Barrier,
    Bind,
    Fail,
    For,
    If,
    Join,
    Kernel,
    Let,
    Load,
    Lookup,
    Number,
    Peer,
    Prefetch,
    Register,
    Set,
    Store,
    Value,
    value_of,
)
from openinfer.loops.tiles import Role, Tile, TileAlloc, TileFill, TileFma, TileLoad, Tiles, TileStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.loops.nodes import Leaf, Statement

_MEMORIES = {memory.value: memory for memory in Memory}
_BINDS = {bind.value: bind for bind in Bind}
_ROLES = {role.value: role for role in Role}


def parse_kernel(text: str) -> Kernel:
    """Return the loop program that a text describes.

    Raises:
        LoopProgramError: the text is not a loop program; the message names the line.
        ExprError: types do not go together.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LoopProgramError(f"the text of a loop program has the syntax of Python: {error}") from None
    match module.body:
        case [ast.FunctionDef() as function]:
            try:
                return _Reader(function).kernel()
            except IndexSyntaxError as error:
                raise LoopProgramError(str(error)) from None
        case _:
            raise LoopProgramError("the text of a loop program is one `def`")


class _Reader:
    """Names that are in scope: blocks copy and restore them."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._function = function
        self._variables = {argument.arg: Var(argument.arg) for argument in function.args.kwonlyargs}
        self._buffers: dict[str, Buffer] = {}
        self._registers: dict[str, DType] = {}
        self._tiles: dict[str, Tiles] = {}
        self._named: dict[str, Expr] = {}
        self._leaves: dict[Leaf, tree.Input] = {}

    def kernel(self) -> Kernel:
        parameters = tuple(self._variables.values())
        buffers = tuple(self._buffer(a.arg, a.annotation, a) for a in self._function.args.args)
        body: Sequence[ast.stmt] = self._function.body
        origin = ""
        match body:
            case [ast.Expr(value=ast.Constant(value=str(text))), *rest]:
                origin, body = text, rest
            case _:
                pass
        return Kernel(self._function.name, buffers, self._block(body), parameters, origin)

    def _buffer(self, name: str, annotation: ast.expr | None, node: ast.arg | ast.stmt) -> Buffer:
        match annotation:
            case ast.Subscript(value=ast.Name(id=memory), slice=ast.Tuple(elts=[ast.Name(id=dtype), size])) if (
                memory in _MEMORIES and dtype in BY_NAME
            ):
                size_index = index_of_ast(size, self._variables)
                self._buffers[name] = Buffer(name, BY_NAME[dtype], size_index, _MEMORIES[memory])
                return self._buffers[name]
            case _:
                raise _unexpected(node, f"memory, type and size of {name}, such as GLOBAL[f32, 12]")

    def _block(self, body: Sequence[ast.stmt]) -> tuple[Statement, ...]:
        outside = (self._variables, self._buffers, self._registers, self._named, self._tiles)
        self._variables, self._buffers = dict(self._variables), dict(self._buffers)
        self._registers, self._named, self._tiles = dict(self._registers), dict(self._named), dict(self._tiles)
        statements = [made for node in body if (made := self._statement(node)) is not None]
        self._variables, self._buffers, self._registers, self._named, self._tiles = outside
        return tuple(statements)

    def _statement(self, node: ast.stmt) -> Statement | None:
        match node:
            case ast.For():
                return self._loop(node)
            case ast.If(test=test, body=body, orelse=[]):
                tests = test.values if isinstance(test, ast.BoolOp) else [test]
                return If(tuple(self._within(part) for part in tests), self._block(body))
            case ast.With(items=[ast.withitem(context_expr=joined)], body=body):
                return self._join(joined, body)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=None):
                return self._allocated(name, annotation, node)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value) if value is not None:
                return self._named_value(name, annotation, value, node)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._set(name, value)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name)) as place], value=value):
                return self._stored(name, place, value)
            case ast.Expr(value=ast.Call() as call):
                return self._called(call)
            case ast.Pass():
                return None
            case _:
                raise _unexpected(node, "a statement of a loop program")

    def _called(self, node: ast.Call) -> Statement:
        match node:
            case ast.Call(func=ast.Name(id="fail"), args=[refused, ast.Constant(value=str(rule))]):
                return Fail(self._value(refused), rule)
            case ast.Call(
                func=ast.Name(id="TILE_STORE"), args=[ast.Name(id=name), address, ast.Constant(value=int(stride)), tile]
            ):
                at = index_of_ast(address, self._variables)
                return TileStore(self._known_buffer(name, node), at, stride, self._tile(tile))
            case ast.Call(func=ast.Name(id="PREFETCH"), args=[ast.Name(id=name), address]):
                return Prefetch(self._known_buffer(name, node), index_of_ast(address, self._variables))
            case ast.Call(func=ast.Name(id="BARRIER"), args=[]):
                return Barrier()
            case _:
                expected = "fail(refused, rule), TILE_STORE(buffer, address, stride, tile), PREFETCH(buffer, address)"
                raise _unexpected(node, f"{expected} or BARRIER()")

    def _stored(self, name: str, place: ast.Subscript, value: ast.expr) -> Statement:
        if name in self._tiles:
            return self._of_tile(self._tile(place), value)
        buffer = self._known_buffer(name, place)
        return Store(buffer, index_of_ast(place.slice, self._variables), self._value(value))

    def _allocated(self, name: str, annotation: ast.expr, node: ast.stmt) -> Statement:
        match annotation:
            case ast.Subscript(value=ast.Name(id="TILES"), slice=ast.Tuple(elts=form)):
                return self._tile_alloc(name, form, node)
            case _:
                return Alloc(self._buffer(name, annotation, node))

    def _tile_alloc(self, name: str, form: Sequence[ast.expr], node: ast.stmt) -> TileAlloc:
        match form:
            case [
                ast.Name(id=dtype),
                ast.Name(id=role),
                ast.Constant(value=int(rows)),
                ast.Constant(value=int(columns)),
                ast.Constant(value=int(count)),
                ast.Constant(value=int(threads)),
            ] if dtype in BY_NAME and role in _ROLES:
                made = Tiles(name, BY_NAME[dtype], _ROLES[role], rows, columns, count, threads)
                self._tiles[name] = made
                return TileAlloc(made)
            case _:
                raise _unexpected(node, "type, role, rows, columns, number and threads of tiles")

    def _tile(self, node: ast.expr) -> Tile:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=at) if name in self._tiles:
                return Tile(self._tiles[name], index_of_ast(at, self._variables))
            case _:
                raise _unexpected(node, f"a tile of {', '.join(self._tiles) or 'some that are allocated'}")

    def _of_tile(self, tile: Tile, node: ast.expr) -> Statement:
        match node:
            case ast.Call(func=ast.Name(id="TILE_FMA"), args=[left, right]):
                return TileFma(tile, self._tile(left), self._tile(right))
            case ast.Call(func=ast.Name(id="TILE"), args=[value]):
                literal = expression_of_ast(value, lambda _: None)
                if isinstance(literal, tree.Literal):
                    return TileFill(tile, literal.value)
            case ast.Call(
                func=ast.Name(id="TILE"),
                args=[ast.Name(id=name), address, ast.Constant(value=int(stride)), *order],
            ) if [ast.unparse(each) for each in order] in ([], ["TRANSPOSED"]):
                at = index_of_ast(address, self._variables)
                return TileLoad(tile, self._known_buffer(name, node), at, stride, bool(order))
            case _:
                pass
        raise _unexpected(node, "TILE(constant), TILE(buffer, address, stride) or TILE_FMA(left, right)")

    def _loop(self, node: ast.For) -> For:
        match node:
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id=bind), args=[extent], keywords=[]), orelse=[]
            ) if bind in _BINDS:
                var = self._var(name, index_of_ast(extent, self._variables))
                outside = self._variables
                self._variables = {**outside, name: var}
                body = self._block(node.body)
                self._variables = outside
                return For(var, _BINDS[bind], body)
            case _:
                raise _unexpected(node, f"a loop: `for i in {'|'.join(_BINDS)}(extent)`")

    def _join(self, joined: ast.expr, body: Sequence[ast.stmt]) -> Join:
        match joined:
            case ast.Call(func=ast.Name(id="JOIN"), args=[ast.Name(id=name)], keywords=[]) if name in self._variables:
                pairs = self._block(body)
                return Join(self._variables[name], tuple(pair for pair in pairs if isinstance(pair, Set)))
            case _:
                raise _unexpected(joined, "`with JOIN(thread):`, over an enclosing loop")

    def _var(self, name: str, extent: Index) -> Var:
        return Var(name, extent if extent.constant is None else extent.constant)

    def _named_value(self, name: str, annotation: ast.expr, value: ast.expr, node: ast.stmt) -> Let | Lookup:
        match annotation:
            case ast.Subscript(value=ast.Name(id="index"), slice=extent):
                computed = self._value(value)
                var = self._var(name, index_of_ast(extent, self._variables))
                self._variables[name] = var
                return Lookup(var, computed)
            case ast.Name(id=dtype) if dtype in BY_NAME:
                computed = self._value(value)
                if computed.dtype is not BY_NAME[dtype]:
                    raise _unexpected(node, f"a value of type {dtype} ({computed.dtype} was written)")
                self._registers[name] = computed.dtype
                return Let(name, computed)
            case _:
                raise _unexpected(node, "a named scalar (`t: f32 = ...`) or index (`p: index[7] = ...`)")

    def _set(self, name: str, value: ast.expr) -> Set | None:
        """Return an assignment of a register; other names stand for expressions that are used several times."""
        if name in self._registers:
            return Set(name, self._value(value))
        self._named[name] = expression_of_ast(value, self._leaf)
        return None

    def _value(self, node: ast.expr) -> Value:
        expr = expression_of_ast(node, self._leaf)
        value = value_of(expr, {leaf.index: known for known, leaf in self._leaves.items()})
        self._leaves = {known: leaf for known, leaf in self._leaves.items() if self._is_named(leaf)}
        return value

    def _is_named(self, leaf: tree.Input) -> bool:
        return any(leaf.index in linearise(expr).inputs for expr in self._named.values())

    def _leaf(self, node: ast.expr) -> Expr | None:
        match node:
            case ast.Name(id=name) if name in self._registers:
                return self._input(Register(name, self._registers[name]))
            case ast.Name(id=name) if name in self._named:
                return self._named[name]
            case ast.Subscript():
                return self._input(self._load(node))
            case ast.Call(func=ast.Name(id="guarded"), args=[ast.Subscript() as place, fill, *guards]):
                return self._input(self._guarded(place, fill, guards))
            case ast.Call(func=ast.Name(id="number"), args=[index, ast.Name(id=dtype)]) if dtype in BY_NAME:
                return self._input(Number(index_of_ast(index, self._variables), BY_NAME[dtype]))
            case ast.Call(func=ast.Name(id="across"), args=[ast.Name(id=function), ast.Name(id=buffer)]):
                return self._input(Across(function, self._known_buffer(buffer, node)))
            case ast.Call(func=ast.Name(id="peer"), args=[ast.Name(id=name)]) if name in self._registers:
                return self._input(Peer(name, self._registers[name]))
            case _:
                return None

    def _input(self, leaf: Leaf) -> Expr:
        number = max((known.index for known in self._leaves.values()), default=-1) + 1
        return self._leaves.setdefault(leaf, tree.Input(number, leaf.dtype))

    def _load(self, node: ast.Subscript) -> Load:
        match node.value:
            case ast.Name(id=name):
                return Load(self._known_buffer(name, node), index_of_ast(node.slice, self._variables))
            case _:
                raise _unexpected(node, "an element of a buffer")

    def _guarded(self, place: ast.Subscript, fill: ast.expr, guards: Sequence[ast.expr]) -> Load:
        load = self._load(place)
        value = expression_of_ast(fill, lambda _: None)
        if not isinstance(value, tree.Literal):
            raise _unexpected(fill, "a constant")
        return Load(load.buffer, load.address, tuple(map(self._within, guards)), tree.Literal(value.value, load.dtype))

    def _known_buffer(self, name: str, node: ast.AST) -> Buffer:
        if name not in self._buffers:
            raise _unexpected(node, f"one of the buffers {', '.join(self._buffers)}")
        return self._buffers[name]

    def _within(self, node: ast.expr) -> Within:
        return within_of_ast(node, self._variables)


def _unexpected(node: ast.AST, expected: str) -> LoopProgramError:
    line = getattr(node, "lineno", 1)
    return LoopProgramError(f"line {line}: expected {expected}, found {ast.unparse(node)!r}")
