"""Expressions as C99 text in which a value that is used once is written where it is used.

The result of arithmetic on floats has a name, unless it is an argument of a function: C rounds both to their type,
also where it computes with more digits, and with -std=c99 no compiler contracts what two statements do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, I32, Kind
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_types import c_type, literal_text, operand_text
from openinfer.expr.fragment import Fragment, input_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.expr.linear import Instruction, Program

_LONGEST = 100
"""Characters of an expression, beyond which its longest operands get names."""

_ORDERS = frozenset({"lt", "le", "gt", "ge"})

_NUMBER = re.compile(r"\w[\w.]*(?:(?<=p)[+-]\w+)?")
_OPENED = re.compile(r"\w*[(\[]")


def nested(program: Program, inputs: Mapping[int, str], prefix: str) -> Fragment:
    """Return C statements that compute what has a name, and the expression of the result.

    ``inputs`` has, by input number, the expression of the input's element. Names are ``prefix`` and a number.

    Raises:
        ExprError: generated C does not hold a type of the program, or an input has no expression.
    """
    return _Nested(program, inputs, prefix).fragment()


def is_primary(text: str) -> bool:
    """Return whether an expression binds tighter than any operator: a name, a number, an element, a call, (...)."""
    if _NUMBER.fullmatch(text):
        return True
    if not _OPENED.match(text):
        return False
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and letter in ")]":
            return position == len(text) - 1
    return False


class _Nested:
    """The statements of one program."""

    def __init__(self, program: Program, inputs: Mapping[int, str], prefix: str) -> None:
        self._steps = program.instructions
        self._inputs = inputs
        self._prefix = prefix
        self._uses = [0] * len(self._steps)
        for step in self._steps:
            for operand in step.operands:
                self._uses[operand] += 1
        self._texts: list[str] = []
        self._statements: list[str] = []
        self._helpers: dict[str, None] = {}

    def fragment(self) -> Fragment:
        for step in self._steps:
            self._texts.append(self._text(step))
        return Fragment(tuple(self._statements), self._texts[-1], tuple(self._helpers))

    def _text(self, step: Instruction) -> str:
        if step.value is not None:
            return operand_text(literal_text(step.dtype, step.value))
        if step.function == "input":
            return input_text(self._inputs, step.index)
        types = [self._steps[operand].dtype for operand in step.operands]
        names = [self._texts[n] if self._is_name(n) else self._name(n) for n in step.operands]
        call = call_text(step.function, types, step.dtype, names)
        self._helpers.update(dict.fromkeys(call.helpers))
        return self._with_operands(call.text, step)

    def _is_name(self, number: int) -> bool:
        """Return whether the text of a value is a name or a constant."""
        return self._steps[number].value is not None or self._texts[number].isidentifier()

    def _name(self, number: int) -> str:
        return f"{self._prefix}{number}"

    def _with_operands(self, text: str, step: Instruction) -> str:
        """Return the text of a step with operands in place of their names, as far as it does not become too long."""
        operands = [number for number in dict.fromkeys(step.operands) if not self._is_name(number)]
        arguments = {number for number in operands if _is_argument(text, self._name(number))}
        for number in sorted(operands, key=lambda number: len(self._texts[number])):
            operand, name = self._texts[number], re.compile(rf"\b{self._name(number)}\b")
            if number not in arguments and not is_primary(operand):
                operand = f"({operand})"
            is_once = self._uses[number] == 1 and len(name.findall(text)) == 1
            may_move = number in arguments or not self._is_arithmetic(number)
            if self._is_warned_of(number, step, re.search(rf" [-+*] {name.pattern}", text) is not None):
                may_move = False
            if is_once and may_move and len(text) + len(operand) <= _LONGEST:
                text = name.sub(lambda _, operand=operand: operand, text)
            else:
                self._declare(number)
        return text

    def _is_arithmetic(self, number: int) -> bool:
        step = self._steps[number]
        return step.dtype.is_float and step.function not in ("input", "cast")

    def _is_warned_of(self, number: int, user: Instruction, is_right: bool) -> bool:
        """Return whether GCC takes an operand for a mistake where it is used, which it does not of a name.

        So it does of computed integers without sign that are ordered, as it sees that x - x is 0, and that no number
        is below 0, of short integers that lose their sign in a right operand, of short ones whose bits are inverted,
        since C inverts those of an int, and of inverted bits of a truth value.
        """
        step = self._steps[number]
        if user.function in _ORDERS and step.dtype.kind is Kind.UNSIGNED and self._is_computed(number):
            return True
        if step.function == "bit_not":
            return step.dtype.bits < I32.bits
        if user.function == "bit_not":
            return self._is_truth(number)
        return is_right and self._loses_sign(number)

    def _is_computed(self, number: int) -> bool:
        """Return whether a value is more than an element or a constant, cast or not."""
        step = self._steps[number]
        if step.function == "cast":
            return self._is_computed(step.operands[0])
        return bool(step.operands)

    def _is_truth(self, number: int) -> bool:
        """Return whether a value is a truth value, or a cast of one."""
        step = self._steps[number]
        return step.dtype is BOOL or (step.function == "cast" and self._is_truth(step.operands[0]))

    def _loses_sign(self, number: int) -> bool:
        """Return whether a value is a short integer with sign, cast to one without."""
        step = self._steps[number]
        return step.function == "cast" and step.dtype.kind is Kind.UNSIGNED and self._is_short(step.operands[0])

    def _is_short(self, number: int) -> bool:
        dtype = self._steps[number].dtype
        return dtype.kind is Kind.SIGNED and dtype.bits < I32.bits

    def _declare(self, number: int) -> None:
        """Append the declaration of a value, which has a name from here on."""
        name = self._name(number)
        self._statements.append(f"const {c_type(self._steps[number].dtype)} {name} = {self._texts[number]};")
        self._texts[number] = name


def _is_argument(text: str, name: str) -> bool:
    """Return whether a name in a text is all of an argument of a function."""
    return re.search(rf"\w\((?:\w+, )*{name}[,)]", text) is not None
