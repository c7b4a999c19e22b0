"""Tiles as GLSL: cooperative matrices of subgroups, and shared memory that they are loaded from.

Elements of fewer than 32 bits on their way to tiles stay what they are: memory of the group and of threads holds them
as vectors of 16 bytes, and copies move whole vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.dtypes import Kind
from openinfer.errors import UnsupportedError
from openinfer.expr import tree
from openinfer.expr.glsl_types import literal_text
from openinfer.loops import Bind, For, Load, Memory, Store, TileAlloc, TileFill, TileFma, TileLoad, TileStore, Value
from openinfer_backend_vulkan.glsl.elements import code_of
from openinfer_backend_vulkan.glsl.lanes import view_name
from openinfer_backend_vulkan.glsl.loop_nests import extent_of, statements_of
from openinfer_backend_vulkan.glsl.team_printer import TeamPrinter
from openinfer_backend_vulkan.glsl.values import is_local
from openinfer_backend_vulkan.glsl.words import WORD_BITS, is_multiple, item_type
from openinfer_backend_vulkan.matrix_uses import FIRST_USE, USES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.loops import Buffer, Kernel, Statement, Tile, Tiles
    from openinfer.loops.tiles import TileStatement
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

_EXTENSIONS = (
    "GL_KHR_memory_scope_semantics",
    "GL_NV_cooperative_matrix",
    "GL_NV_integer_cooperative_matrix",
    "GL_EXT_shader_explicit_arithmetic_types_float16",
    "GL_EXT_shader_explicit_arithmetic_types_int8",
)
_WORDS = 4
"""Words of the items of packed memory."""


class TilePrinter(TeamPrinter):
    """Prints statements about tiles.

    Attributes:
        packed: names of shared and private buffers that hold items of 16 bytes.
        constants: declarations of the numbers of rows of tiles, which say what the tiles are used for.
    """

    def __init__(self, kernel: Kernel, target: ShaderTarget) -> None:
        super().__init__(kernel, target)
        self.packed = _packed(kernel.body)
        of_tiles = (
            statement for statement in statements_of(kernel.body) if isinstance(statement, TileLoad | TileStore)
        )
        self.vectors.difference_update(statement.buffer.name for statement in of_tiles)
        self.constants: dict[str, None] = {}

    def of_tiles(self, statement: TileStatement) -> None:
        """Append a statement about tiles."""
        match statement:
            case TileAlloc(tiles):
                self.line(f"{self._type(tiles)} {self.buffer_text(tiles.name)}[{tiles.count}];")
            case TileFill(tile, value):
                text = literal_text(tile.tiles.dtype, value)
                self.line(f"{self._tile(tile)} = {self._type(tile.tiles)}({text});")
            case TileLoad(tile, buffer, address, stride, is_transposed):
                matrix = self._matrix(buffer, address, stride)
                self.line(f"coopMatLoadNV({self._tile(tile)}, {matrix}, {'true' if is_transposed else 'false'});")
            case TileStore(buffer, address, stride, tile):
                self.line(f"coopMatStoreNV({self._tile(tile)}, {self._matrix(buffer, address, stride)}, false);")
            case TileFma(total, left, right):
                made = self._tile(total)
                self.line(f"{made} = coopMatMulAddNV({self._tile(left)}, {self._tile(right)}, {made});")

    def _type(self, tiles: Tiles) -> str:
        if tiles.threads != self.target.subgroup:
            message = f"{self.kernel.name}: tiles of {tiles.threads} threads on a device with subgroups of"
            raise UnsupportedError(f"{message} {self.target.subgroup}")
        self.extensions.update(dict.fromkeys(_EXTENSIONS))
        use = tiles.role.value.lower()
        self.constants[f"layout(constant_id = {FIRST_USE + USES.index(use)}) const uint {use}_rows = {tiles.rows};"] = (
            None
        )
        kind = "f" if tiles.dtype.is_float else "i" if tiles.dtype.kind is Kind.SIGNED else "u"
        return f"{kind}coopmatNV<{tiles.dtype.bits}, gl_ScopeSubgroup, {use}_rows, {tiles.columns}>"

    def _tile(self, tile: Tile) -> str:
        return f"{self.buffer_text(tile.tiles.name)}[{self.numbers.text(tile.at, fixed=True)}]"

    def _matrix(self, buffer: Buffer, address: Index, stride: int) -> str:
        """Return buffer, place and stride of a matrix in memory."""
        if not is_local(buffer):
            raise UnsupportedError(f"{self.kernel.name}: a tile of {buffer.name}, which is not memory of the group")
        per_item = _per_item(buffer) if buffer.name in self.packed else 1
        if stride % per_item or not is_multiple(address, per_item):
            raise UnsupportedError(f"{self.kernel.name}: a tile of {buffer.name} that does not begin with 16 bytes")
        item = self.numbers.text(address // per_item, fixed=True)
        return f"{self.buffer_text(buffer.name)}, {item}, {stride // per_item}"

    # Copies of packed memory.

    def copied(self, loop: For) -> bool:
        """Append a loop that copies to packed memory as copies of items; return whether it is one."""
        match loop:
            case For(var, Bind.UNROLL, (Store(buffer, address, Value(tree.Input(), (Load() as load,))),)) if (
                buffer.name in self.packed
            ):
                per_item = _per_item(buffer)
            case _:
                return False
        for lane in range(0, extent_of(var), per_item):
            text = self._sixteen_bytes(load, var, lane)
            item = self.numbers.text(address.substituted({var: Index.of(lane)}) // per_item, fixed=True)
            self.line(f"{self.buffer_text(buffer.name)}[{item}] = {text};")
        return True

    def _sixteen_bytes(self, load: Load, var: Var, lane: int) -> str:
        """Return 16 bytes from the element of a lane on."""
        per_item = _per_item(load.buffer)
        if load.buffer.name in self.packed:
            item = load.address.substituted({var: Index.of(lane)}) // per_item
            return f"{self.buffer_text(load.buffer.name)}[{self.numbers.text(item, fixed=True)}]"
        width = next((words for words in (4, 2, 1) if _is_whole(load, var, words)), 0)
        if not width:
            return self._gathered(load, var, lane)
        step = width * WORD_BITS // load.buffer.dtype.bits
        parts = [self._words(load, var, lane + offset, width) for offset in range(0, per_item, step)]
        return parts[0] if len(parts) == 1 else f"uvec4({', '.join(parts)})"

    def _words(self, load: Load, var: Var, lane: int, width: int) -> str:
        """Return the name of so many words from the element of a lane on."""
        at = {var: Index.of(lane)}
        name, kind = view_name(self.buffer_text(load.buffer.name), width), item_type(width)
        self.views[load.buffer.name].add(width)
        per_item = width * WORD_BITS // load.buffer.dtype.bits
        text = f"{name}[{self.numbers.text(load.address.substituted(at) // per_item, of=name)}]"
        tests = self.numbers.tests(_at(load.guards, at))
        made = self.fresh("w")
        self.line(f"{kind} {made} = {text if tests == 'true' else f'({tests}) ? {text} : {kind}({_fill(load)})'};")
        return made

    def _gathered(self, load: Load, var: Var, lane: int) -> str:
        """Return the name of 16 bytes whose elements are loaded one by one."""
        elements = self.elements(load.buffer.dtype)
        words: list[str] = []
        for first in range(lane, lane + _per_item(load.buffer), elements.per_word):
            parts: list[str] = []
            for lane_of_word in range(elements.per_word):
                at = {var: Index.of(first + lane_of_word)}
                element = Load(load.buffer, load.address.substituted(at), _at(load.guards, at), load.fill)
                made = self.fresh("s")
                self.line(f"{elements.held} {made} = {self.leaf(element)};")
                parts.append(elements.into_word(made, lane_of_word))
            words.append(" | ".join(parts))
        return f"uvec4({', '.join(words)})"


def _packed(body: Sequence[Statement]) -> set[str]:
    """Return the buffers of a group and of threads whose elements of fewer than 32 bits are copied or are tiles."""
    packed: set[str] = set()
    statements = list(statements_of(body))
    for statement in statements:
        if isinstance(statement, TileLoad | TileStore) and statement.buffer.dtype.bits < WORD_BITS:
            packed.add(statement.buffer.name)
    for statement in statements:
        match statement:
            case Store(buffer, _, Value(tree.Input(), (Load(source),))) if (
                buffer.name in packed and source.memory is Memory.PRIVATE
            ):
                packed.add(source.name)
            case _:
                pass
    return packed


def _per_item(buffer: Buffer) -> int:
    return _WORDS * WORD_BITS // buffer.dtype.bits


def _is_whole(load: Load, var: Var, words: int) -> bool:
    """Return whether so many words of what lanes load are aligned, and inside as a whole or not at all."""
    count = words * WORD_BITS // load.buffer.dtype.bits
    first = {var: Index()}
    if load.address.coefficient(var) != 1 or not is_multiple(load.address.substituted(first), count):
        return False
    along = [test for test in load.guards if var in test.index.variables()]
    return all(
        test.index.coefficient(var) == 1
        and is_multiple(test.index.substituted(first), count)
        and is_multiple(test.extent, count)
        for test in along
    )


def _at(tests: Sequence[Within], values: dict[Var, Index]) -> tuple[Within, ...]:
    return tuple(Within(test.index.substituted(values), test.extent.substituted(values)) for test in tests)


def _fill(load: Load) -> str:
    """Return a word of the value of elements that lie outside."""
    if load.fill is None:
        return "0u"
    bits = load.buffer.dtype.bits
    code = code_of(load.fill.dtype, load.fill.value)
    return f"0x{sum(code << shift for shift in range(0, WORD_BITS, bits)):x}u"
