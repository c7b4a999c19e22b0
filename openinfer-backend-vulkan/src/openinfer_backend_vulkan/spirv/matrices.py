"""Cooperative matrices in SPIR-V: from the form of one vendor, which every compiler knows, to that of all.

Compilers have known ``GL_NV_cooperative_matrix`` since 2019, ``GL_KHR_cooperative_matrix`` since the end of 2023 only.
Instructions of both extensions do the same; only the KHR form says of a type whether it is a left or right factor, or a
total. A shader says so by the constant that is the number of rows of the type (`openinfer_backend_vulkan.matrix_uses`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer_backend_vulkan.matrix_uses import FIRST_USE, USES
from openinfer_backend_vulkan.spirv.module import (
    BOUND,
    HEADER_WORDS,
    code_of,
    instruction,
    instructions,
    opcode,
    text_words,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOREIGN = b"SPV_NV_cooperative_matrix"
_PORTABLE = "SPV_KHR_cooperative_matrix"
_OP_EXTENSION, _OP_CAPABILITY, _OP_TYPE_INT, _OP_TRUE, _OP_CONSTANT, _OP_SPEC_CONSTANT = 10, 17, 21, 41, 43, 50
_OP_DECORATE, _SPEC_ID = 71, 1
_OP_TYPE, _OP_LOAD, _OP_STORE, _OP_FMA, _OP_LENGTH = 5358, 5359, 5360, 5361, 5362
_OP_TYPE_KHR, _OP_LOAD_KHR, _OP_STORE_KHR, _OP_FMA_KHR, _OP_LENGTH_KHR = 4456, 4457, 4458, 4459, 4460
_CAPABILITY, _CAPABILITY_KHR = 5357, 6022
_ALL_SIGNED = 0xF


def with_portable_matrices(code: bytes) -> bytes:
    """Return a SPIR-V module whose cooperative matrices have the form of ``SPV_KHR_cooperative_matrix``."""
    if _FOREIGN not in code:
        return code
    words = words_of(code)
    parts = list(instructions(words))
    module = _Module(words[BOUND])
    for part in parts:
        module.note(part)
    changed = [instruction for part in parts for instruction in module.changed(part)]
    header = [*words[:BOUND], module.bound + len(USES), *words[BOUND + 1 : HEADER_WORDS]]
    return code_of(header, changed)


@dataclass(slots=True)
class _Module:
    """What is known of the ids of a module.

    Attributes:
        bound: id of the constant 0 of 32 bits; those of 1 and 2 follow.
        uses: of constants that are numbers of rows.
        lines: constants that are true: a matrix goes along columns.
        signed: types of integers with a sign, and matrices of them.
    """

    bound: int
    uses: dict[int, int] = field(default_factory=dict[int, int])
    lines: set[int] = field(default_factory=set[int])
    signed: set[int] = field(default_factory=set[int])

    def note(self, part: Sequence[int]) -> None:
        match opcode(part), part[1:]:
            case (code, (number, decoration, use)) if (code, decoration) == (_OP_DECORATE, _SPEC_ID):
                if 0 <= use - FIRST_USE < len(USES):
                    self.uses[number] = use - FIRST_USE
            case (code, (_, number)) if code == _OP_TRUE:
                self.lines.add(number)
            case (code, (number, _, 1)) if code == _OP_TYPE_INT:
                self.signed.add(number)
            case (code, (number, component, *_)) if code == _OP_TYPE and component in self.signed:
                self.signed.add(number)
            case _:
                pass

    def changed(self, part: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return what stands for an instruction."""
        operands = part[1:]
        match opcode(part):
            case code if code == _OP_CAPABILITY and operands[0] == _CAPABILITY:
                return [instruction(_OP_CAPABILITY, _CAPABILITY_KHR)]
            case code if code == _OP_EXTENSION and operands == text_words(_FOREIGN.decode()):
                return [instruction(_OP_EXTENSION, *text_words(_PORTABLE))]
            case code if code == _OP_DECORATE and operands[0] in self.uses and operands[1] == _SPEC_ID:
                return []
            case code if code == _OP_SPEC_CONSTANT and operands[1] in self.uses:
                return [instruction(_OP_CONSTANT, *operands)]
            case code if code == _OP_TYPE_INT and operands[1:] == (32, 0):
                return [part, *(instruction(_OP_CONSTANT, operands[0], self.bound + n, n) for n in range(len(USES)))]
            case code:
                return [self._of_matrix(code, operands) or part]

    def _of_matrix(self, code: int, operands: tuple[int, ...]) -> tuple[int, ...] | None:
        match code, operands:
            case (code, (made, component, scope, rows, columns)) if code == _OP_TYPE:
                use = self.bound + self.uses[rows]
                return instruction(_OP_TYPE_KHR, made, component, scope, rows, columns, use)
            case (code, (kind, made, pointer, stride, by_column, *access)) if code == _OP_LOAD:
                return instruction(_OP_LOAD_KHR, kind, made, pointer, self._order(by_column), stride, *access)
            case (code, (pointer, matrix, stride, by_column, *access)) if code == _OP_STORE:
                return instruction(_OP_STORE_KHR, pointer, matrix, self._order(by_column), stride, *access)
            case (code, (kind, *others)) if code == _OP_FMA:
                return instruction(_OP_FMA_KHR, kind, *others, *((_ALL_SIGNED,) if kind in self.signed else ()))
            case (code, operands) if code == _OP_LENGTH:
                return instruction(_OP_LENGTH_KHR, *operands)
            case _:
                return None

    def _order(self, by_column: int) -> int:
        """Return the id of the number of an order: 0 by rows, 1 by columns."""
        return self.bound + (by_column in self.lines)
