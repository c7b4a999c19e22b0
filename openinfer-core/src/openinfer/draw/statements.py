"""What a picture says of a statement: its text, and the types of what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import printable
from openinfer.draw.accesses import access_type
from openinfer.ir.nodes import Assign, CacheRead, CacheWrite, Loop, Op, Transfer
from openinfer.ir.strings import quoted
from openinfer.ir.text import node_desc, ref_text, type_text, value_text
from openinfer.symbolic import DivisionError, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.symbolic import IntExpr


class Labels:
    """Texts for the statements of one graph: with sizes where it is resolved, else as declared."""

    def __init__(self, graph: Graph, resolved: ResolvedGraph | None = None) -> None:
        self._resolved = resolved is not None
        self._vars = graph.vars
        self.types = dict(_declared_types(graph) if resolved is None else _resolved_types(resolved))
        indices = {node.kind.index for _, node in graph.nodes() if isinstance(node.kind, Loop)}
        taken = indices | set(graph.vars) | set(self.types)
        sizes: Mapping[str, int] = {} if resolved is None else resolved.sizes
        # A loop index or a variable of the same name comes first when a bound is looked up.
        self._sizes = {name: size for name, size in sizes.items() if name not in taken}

    def text(self, node: Node) -> str:
        """Return a statement in one line, control characters as escapes."""
        kind = node.kind
        if isinstance(kind, Op):
            settings = (f"{name}={value_text(value)}" for name, value in kind.settings.items())
            arguments = ", ".join([*map(ref_text, kind.inputs), *settings])
            return shown(f"op {kind.op}({arguments}) >> {', '.join(kind.outputs)}")
        if isinstance(kind, Assign):
            type_ = self.types[kind.name] if self._resolved else type_text(kind.dtype, kind.dims)
            return shown(f"assign {kind.name}: {type_}")
        return shown(node_desc(node))

    def note(self, node: Node) -> str:
        """Return the types of what a statement writes, or how often a loop runs; "" when neither is known."""
        kind = node.kind
        if isinstance(kind, Loop):
            return self._times(kind)
        if isinstance(kind, CacheRead | CacheWrite):
            access = kind.src if isinstance(kind, CacheRead) else kind.dst
            decl = self._vars.get(access.base)
            return "" if decl is None else access_type(access, decl, self._value)
        return ", ".join(filter(None, (self.types.get(name, "") for name in _outputs(node))))

    def detail(self, node: Node) -> str:
        """Return everything else about a node: number, scopes, hints and place, one a line."""
        lines = [f"node {node.index}"]
        if node.scope:
            lines.append(f"scope {scope_text(node.scope)}")
        lines += [f"with {name} = {value_text(value)}" for name, value in node.hints.items()]
        if node.span is not None:
            lines.append(f"line {node.span.line}, column {node.span.column}")
        return "\n".join(map(shown, lines))

    def _times(self, loop: Loop) -> str:
        start, end = self._value(loop.start), self._value(loop.end)
        return "" if start is None or end is None else f"{max(0, end - start)} times"

    def _value(self, expr: IntExpr) -> int | None:
        try:
            return evaluate(expr, self._sizes.__getitem__)
        except (KeyError, DivisionError):
            return None


def scope_text(scope: tuple[str, ...]) -> str:
    """Return a path of scope names, outermost first."""
    return shown(" / ".join(map(quoted, scope)))


def _outputs(node: Node) -> tuple[str, ...]:
    match node.kind:
        case Op(_, _, outputs):
            return outputs
        case Transfer(_, dst):
            return (dst,)
        case _:
            return ()


def _declared_types(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the types that the text states, and those of temporaries that are copies of something with such a type."""
    types = {decl.name: type_text(decl.dtype, decl.dims) for decl in graph.vars.values()}
    nodes = [node.kind for _, node in graph.nodes()]
    types |= {kind.name: type_text(kind.dtype, kind.dims) for kind in nodes if isinstance(kind, Assign)}
    for kind in nodes:
        if isinstance(kind, CacheRead) and kind.src.base in graph.vars:
            types.setdefault(kind.dst, access_type(kind.src, graph.vars[kind.src.base], lambda _: None))
        elif isinstance(kind, Transfer) and kind.src.name in types:
            types.setdefault(kind.dst, types[kind.src.name])
    yield from types.items()


def _resolved_types(resolved: ResolvedGraph) -> Iterator[tuple[str, str]]:
    for variable in resolved.variables.values():
        yield variable.name, sized_type(variable.type) + (" or grown" if variable.varying else "")
    for table in resolved.tables.values():
        yield table.name, sized_type(table.type)


def sized_type(type_: TensorType) -> str:
    """Return a type with numbers, such as ``f32[4, 8]``; a scalar has no brackets."""
    return f"{type_.dtype.name}[{', '.join(map(str, type_.shape))}]" if type_.shape else type_.dtype.name


def shown(text: str) -> str:
    """Return ``text`` with control characters and lone surrogates as escapes: it can be written as UTF-8."""
    return printable(text).encode("utf-8", "backslashreplace").decode("utf-8")


def elided(text: str, limit: int = 100) -> str:
    """Return ``text``, cut to ``limit`` characters with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
