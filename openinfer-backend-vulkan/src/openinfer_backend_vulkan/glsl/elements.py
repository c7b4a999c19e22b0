"""How shaders find elements in storage buffers: at their natural width, packed ones several a word of 32 bits.

Where a device offers no storage of 8 or 16 bits, elements of this width are packed too. Invocations that share a word
then set their own bits of it by atomic operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, T1, Kind
from openinfer.expr.glsl_renderer import glsl_type
from openinfer.scalars import encode_bits

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.scalars import Scalar

_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a type in a storage buffer.

    Registers hold what is computed in as `openinfer.expr.glsl_types` says. What is only moved is stored as its bits, in
    words, whatever it means.

    Attributes:
        is_computed: whether the shader computes in the type, not only moves it.
        narrow: widths of less than 32 bits that a storage buffer of the device can hold.
    """

    dtype: DType
    is_computed: bool
    narrow: frozenset[int] = frozenset()

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a word."""
        return self.dtype.bits < _WORD_BITS and not self.is_native

    @property
    def is_native(self) -> bool:
        """Whether a buffer holds them in a type of 8 or 16 bits."""
        return self.dtype.bits in self.narrow

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions of GLSL that the declaration of a buffer needs."""
        return (f"GL_EXT_shader_{self.dtype.bits}bit_storage",) if self.is_native else ()

    @property
    def held(self) -> str:
        """The GLSL type of a register that holds an element."""
        return glsl_type(self.dtype) if self.is_computed else bits_type(self.dtype)

    @property
    def declared(self) -> str:
        """The GLSL type of the items of a buffer."""
        if self.dtype.bits >= _WORD_BITS:
            return self.held
        return f"{'int' if self._is_signed else 'uint'}{self.dtype.bits}_t" if self.is_native else "uint"

    def load(self, buffer: str, at: str) -> str:
        """Return an element as a register holds it; of packed ones, ``at`` has to be a name of type uint."""
        if self.dtype.bits >= _WORD_BITS:
            return f"{buffer}[{at}]"
        if self.is_native:
            return self._converted(f"{'int' if self._is_signed else 'uint'}({buffer}[{at}])")
        shift = f"int({self._shift(at)})"
        word = f"{buffer}[{self._word(at)}]"
        return self._converted(
            f"bitfieldExtract({f'int({word})' if self._is_signed else word}, {shift}, {self.dtype.bits})"
        )

    def store(self, buffer: str, at: str, value: str) -> list[str]:
        """Return the statements that store an element; ``at`` as for `load`."""
        if self.dtype.bits >= _WORD_BITS:
            return [f"{buffer}[{at}] = {value};"]
        if self.is_native:
            return [f"{buffer}[{at}] = {self.declared}({'int' if self._is_signed else 'uint'}({value}));"]
        word, shift = f"{buffer}[{self._word(at)}]", self._shift(at)
        # Both need the value: a driver may not move its loads after them, though the element may be stored over one.
        bits = f"const uint stored_bits = ({self._bits(value)}) << ({shift});"
        cleared = f"atomicAnd({word}, stored_bits | ~({self._mask} << ({shift})));"
        return [f"{{ {bits} {cleared} atomicOr({word}, stored_bits); }}"]

    @property
    def per_word(self) -> int:
        """Elements of a word of 32 bits; 0 where one takes more."""
        return _WORD_BITS // self.dtype.bits

    def out_of_word(self, word: str, lane: int) -> str:
        """Return an element of a word as a register holds it."""
        if self.dtype.bits == _WORD_BITS:
            held = self.held
            return word if held == "uint" else f"uintBitsToFloat({word})" if held == "float" else f"int({word})"
        bits = self.dtype.bits
        source = f"int({word})" if self._is_signed else word
        return self._converted(f"bitfieldExtract({source}, {bits * lane}, {bits})")

    def into_word(self, value: str, lane: int) -> str:
        """Return the bits of an element where a word has them."""
        if self.dtype.bits == _WORD_BITS:
            return f"floatBitsToUint({value})" if self.held == "float" else f"uint({value})"
        shift = f" << {self.dtype.bits * lane}" if lane else ""
        return f"({self._bits(value)}){shift}"

    def _bits(self, value: str) -> str:
        is_sign = self.dtype is T1 and self.is_computed
        return f"({value}) > 0 ? 1u : 0u" if is_sign else f"uint({value}) & {self._mask}"

    @property
    def _is_signed(self) -> bool:
        return self.is_computed and self.dtype is not T1 and self.dtype.kind in (Kind.SIGNED, Kind.TERNARY)

    @property
    def _mask(self) -> str:
        return f"0x{(1 << self.dtype.bits) - 1:x}u"

    def _word(self, at: str) -> str:
        return f"{at} >> {(_WORD_BITS // self.dtype.bits).bit_length() - 1}"

    def _shift(self, at: str) -> str:
        in_word = f"{at} & {_WORD_BITS // self.dtype.bits - 1}u"
        return in_word if self.dtype.bits == 1 else f"({in_word}) << {self.dtype.bits.bit_length() - 1}"

    def _converted(self, bits: str) -> str:
        """Return the bits of an element as a register holds it."""
        if not self.is_computed:
            return bits
        if self.dtype is T1:
            return f"(int({bits}) * 2 - 1)"
        return f"bool({bits})" if self.dtype is BOOL else bits


def code_of(dtype: DType, value: Scalar) -> int:
    """Return the bits of an element. A t1 that is 0, as in memory that nothing was stored in, is the number -1.

    Raises:
        ValueError: an integer does not fit the type.
    """
    return 0 if dtype is T1 and not value else encode_bits(dtype, value)


def bits_type(dtype: DType) -> str:
    """Return the GLSL type of registers that hold the bits of an element."""
    return "uvec2" if dtype.bits == 2 * _WORD_BITS else "uint"
