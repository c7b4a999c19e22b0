"""Loops over lanes as GLSL: written out for each lane, with neighbouring elements loaded and stored as words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.dtypes import F16
from openinfer.loops import If, Load, Store
from openinfer.loops.substitution import substituted, values_of
from openinfer_backend_vulkan.glsl.loop_nests import extent_of
from openinfer_backend_vulkan.glsl.values import ValuePrinter, is_local, unpacked_text, vector_type
from openinfer_backend_vulkan.glsl.words import Span, bound_in, item_type, loaded, stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.loops import Buffer, For, Leaf, Statement

_PARTS = "xyzw"


class LanePrinter(ValuePrinter, ABC):
    """Prints what each lane does."""

    def lanes(self, loop: For) -> None:
        """Append the statements of a loop over lanes."""
        var, body = loop.var, loop.body
        outside, unpacked_outside = self.known, self.unpacked
        shared = self._common(var, body)
        loads, stores = self.loads_in_words(var, body), self.stores_in_words(var, body)
        items = {span: self._loaded(span) for span in dict.fromkeys(loads.values())}
        words = {store: self._declared(span) for store, span in stores.items()}
        for lane in range(extent_of(var)):
            at = {var: Index.of(lane)}
            self.known, self.unpacked = {**outside, **shared}, dict(unpacked_outside)
            for load, span in loads.items():
                here = Load(load.buffer, load.address.substituted(at))
                self.known[here] = self._element_of(span, items[span], lane)
                if load.dtype is F16 and not is_local(load.buffer):
                    self.unpacked[here] = unpacked_text(*self._word_of(span, items[span], lane))
            self.line("{")
            self.depth += 1
            for statement in body:
                (made,) = substituted((statement,), at)
                if isinstance(statement, Store) and isinstance(made, Store) and statement in words:
                    self._kept(stores[statement], words[statement], lane, self.value(made.value))
                else:
                    self.statement(made)
            self.depth -= 1
            self.line("}")
        self.known, self.unpacked = outside, unpacked_outside
        for store, span in stores.items():
            self._stored(span, words[store])

    def loads_in_words(self, var: Var, body: Sequence[Statement]) -> dict[Load, Span]:
        """Return what the lanes of a loop load together."""
        return {load: span for load, span in loaded(var, body).items() if self._has_words(span.buffer)}

    def stores_in_words(self, var: Var, body: Sequence[Statement]) -> dict[Store, Span]:
        """Return what the lanes of a loop store together."""
        return {store: span for store, span in stored(var, body) if self._has_words(span.buffer)}

    def _has_words(self, buffer: Buffer) -> bool:
        return not is_local(buffer) or buffer.name in self.vectors

    @abstractmethod
    def statement(self, statement: Statement) -> None:
        """Append a statement."""

    def _common(self, var: Var, body: Sequence[Statement]) -> dict[Leaf, str]:
        """Load what is the same for all lanes; return its names."""
        names: dict[Leaf, str] = {}
        for value in values_of([statement for statement in body if not isinstance(statement, If)]):
            for leaf in value.leaves:
                if not isinstance(leaf, Load) or leaf.guards or is_local(leaf.buffer) or leaf in names:
                    continue
                is_common = not leaf.address.variables() & ({var} | bound_in(body))
                if is_common and leaf not in self.known:
                    name = self.fresh("c")
                    self.line(f"{self.held_type(leaf.dtype)} {name} = {self.leaf(leaf)};")
                    names[leaf] = name
        return names

    def _loaded(self, span: Span) -> list[str]:
        names: list[str] = []
        for item in span.items:
            names.append(self.fresh("w"))
            self.line(f"{self._item_type(span)} {names[-1]} = {self._item_of(span, item)};")
        return names

    def _item_type(self, span: Span) -> str:
        return vector_type(self.held_type(span.buffer.dtype)) if is_local(span.buffer) else item_type(span.width)

    def _item_of(self, span: Span, item: Index) -> str:
        if is_local(span.buffer):
            return f"{self.buffer_text(span.buffer.name)}[{self.numbers.text(item, fixed=True)}]"
        self.views[span.buffer.name].add(span.width)
        name = view_name(self.buffer_text(span.buffer.name), span.width)
        return f"{name}[{self.numbers.text(item, of=name)}]"

    def _element_of(self, span: Span, names: Sequence[str], lane: int) -> str:
        word, within = self._word_of(span, names, lane)
        return word if is_local(span.buffer) else self.elements(span.buffer.dtype).out_of_word(word, within)

    def _word_of(self, span: Span, names: Sequence[str], lane: int) -> tuple[str, int]:
        """Return the word that has the element of a lane, and which of its elements it is."""
        item, lane_of_item = divmod(lane, span.per_item)
        word, within = divmod(lane_of_item, self.elements(span.buffer.dtype).per_word)
        return names[item] + (f".{_PARTS[word]}" if span.width > 1 else ""), within

    def _declared(self, span: Span) -> list[str]:
        """Declare the words that lanes put their elements in."""
        names = [self.fresh("q") for _ in range(span.width * len(span.items))]
        kind = self.held_type(span.buffer.dtype) if is_local(span.buffer) else "uint"
        self.line(f"{kind} {', '.join(names)};")
        return names

    def _kept(self, span: Span, names: Sequence[str], lane: int, text: str) -> None:
        elements = self.elements(span.buffer.dtype)
        word, within = divmod(lane, elements.per_word)
        bits = text if is_local(span.buffer) else elements.into_word(text, within)
        self.line(f"{names[word]} {'|=' if within else '='} {bits};")

    def _stored(self, span: Span, names: Sequence[str]) -> None:
        for number, item in enumerate(span.items):
            parts = names[number * span.width : (number + 1) * span.width]
            value = parts[0] if span.width == 1 else f"{self._item_type(span)}({', '.join(parts)})"
            self.line(f"{self._item_of(span, item)} = {value};")


def view_name(name: str, width: int) -> str:
    """Return the name of a buffer whose items have so many words; 0: whose items are elements."""
    return f"{name}_w{width}" if width else name
