"""The text of expressions, read back: Python's syntax with ``+ - * /`` and calls of the functions of `tree`.

A float literal without a type is f32; others are written ``i64(3)``, ``f64(0.5)``, ``True``; ``cast(x, f16)`` converts.
Operators and functions keep the structure of the tree: ``a + (b + c)`` is not ``a + b + c``.
"""

from __future__ import annotations

import ast
import inspect
import math
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, BY_NAME, F32, DType
from openinfer.expr import tree
from openinfer.expr.tree import Apply, Expr, ExprError, Literal
from openinfer.expr.verify import functions
from openinfer.scalars import shortest_float

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.expr.linear import Instruction, Program

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
_INFIX_OF_AST: Mapping[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_ATOM = 3


class ExpressionSyntaxError(ExprError):
    """The text is not an expression."""

    default_code = "expression"


def literal_text(literal_type: DType, value: float) -> str:
    """Return the text of a constant, which reads back as the same constant."""
    if literal_type is BOOL:
        return str(bool(value))
    if not literal_type.is_float:
        return f"{literal_type}({int(value)})"
    text = shortest_float(literal_type, value)
    return text if literal_type is F32 else f"{literal_type}({text})"


def program_text(program: Program, inputs: Mapping[int, str], name: Callable[[], str]) -> tuple[tuple[str, ...], str]:
    """Return the text of a program: lines that name what is used more than once, and the text of the result.

    ``inputs`` has the text of each input by its number, ``name`` returns a new name for each line.
    """
    uses = [0] * len(program.instructions)
    for instruction in program.instructions:
        for operand in instruction.operands:
            uses[operand] += 1
    lines: list[str] = []
    texts: list[tuple[str, int]] = []
    for number, instruction in enumerate(program.instructions):
        text = _instruction_text(instruction, texts, inputs)
        if uses[number] > 1 and instruction.operands:
            named = name()
            lines.append(f"{named} = {text[0]}")
            text = (named, _ATOM)
        texts.append(text)
    return tuple(lines), texts[-1][0]


def _instruction_text(
    instruction: Instruction, texts: list[tuple[str, int]], inputs: Mapping[int, str]
) -> tuple[str, int]:
    """Return the text of an instruction, and how strongly it binds."""
    if instruction.function == "input":
        return inputs[instruction.index], _ATOM
    if instruction.value is not None:
        text = literal_text(instruction.dtype, instruction.value)
        return (f"({text})", _ATOM) if text.startswith("-") else (text, _ATOM)
    operands = [texts[operand] for operand in instruction.operands]
    if instruction.function in _INFIX:
        sign, strength = _INFIX[instruction.function]
        (left, left_strength), (right, right_strength) = operands
        left = f"({left})" if left_strength < strength else left
        right = f"({right})" if right_strength <= strength else right
        return f"{left} {sign} {right}", strength
    arguments = [text for text, _ in operands]
    if instruction.function == "cast":
        arguments.append(instruction.dtype.name)
    return f"{instruction.function}({', '.join(arguments)})", _ATOM


def expression_of_ast(node: ast.expr, leaf: Callable[[ast.expr], Expr | None]) -> Expr:
    """Return the expression that a Python expression spells.

    ``leaf`` returns the expression of a name, subscript or call that is not one of the functions, or None where it does
    not know it.

    Raises:
        ExpressionSyntaxError: the text is not an expression.
        ExprError: types do not go together.
    """
    read = leaf(node)
    if read is not None:
        return read
    constant = _constant(node, F32)
    if constant is not None:
        return constant
    if isinstance(node, ast.BinOp) and type(node.op) in _INFIX_OF_AST:
        build = functions()[_INFIX_OF_AST[type(node.op)]]
        return build(expression_of_ast(node.left, leaf), expression_of_ast(node.right, leaf))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node, node.func.id, leaf)
    raise ExpressionSyntaxError(f"{_shown(node)} is not an expression")


def _call(node: ast.Call, name: str, leaf: Callable[[ast.expr], Expr | None]) -> Expr:
    if name in BY_NAME and len(node.args) == 1:
        constant = _constant(node.args[0], BY_NAME[name])
        if constant is not None:
            return constant
    if name == "cast" and len(node.args) == 2 and isinstance(node.args[1], ast.Name) and node.args[1].id in BY_NAME:
        # Not `tree.cast`, which would insert the conversion to ternary types again.
        return Apply("cast", (expression_of_ast(node.args[0], leaf),), BY_NAME[node.args[1].id])
    build = functions().get(name)
    if build is None:
        raise ExpressionSyntaxError(f"unknown function {name!r} in {_shown(node)}")
    expected = len(inspect.signature(build).parameters)
    if len(node.args) != expected:
        raise ExpressionSyntaxError(f"{name} takes {expected} arguments, found {len(node.args)} in {_shown(node)}")
    return build(*(expression_of_ast(argument, leaf) for argument in node.args))


def _constant(node: ast.expr, dtype: DType) -> Literal | None:
    value = _number(node)
    if value is None:
        return None
    if isinstance(value, bool):
        return tree.literal(value, BOOL)
    if isinstance(value, int) and dtype.is_float:
        raise ExpressionSyntaxError(f"the integer {value} needs a type: write i64({value}), or {value}.0 for a float")
    return tree.literal(value, dtype)


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=(bool() | int() | float()) as value):
            return value
        case ast.Name(id="inf"):
            return math.inf
        case ast.Name(id="nan"):
            return math.nan
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _number(operand)
            return None if value is None or isinstance(value, bool) else -value
        case _:
            return None


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
