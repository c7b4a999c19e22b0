"""How far caches may grow: ``@fixed``, the limits that the caller gives, or the indices that the program uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Interval
from openinfer.diagnostics import did_you_mean
from openinfer.dims import expression_interval
from openinfer.errors import SynthesisError
from openinfer.ir.nodes import CacheRead, CacheReset, CacheWrite, Loop, Single
from openinfer.ir.resolved import Storage
from openinfer.plan.findings import at_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.graph import VarDecl
    from openinfer.ir.nodes import CacheAccess, Node
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.symbolic import IntExpr


@dataclass(frozen=True, slots=True)
class _Use:
    """An access to a cache, and the values that the names in it can have, as far as they are known."""

    block: str
    node: Node
    access: CacheAccess
    names: Mapping[str, Interval]


class CacheBounds:
    """The bounds of all caches of a program: of a table index the number of entries, of an extent how far it grows.

    Args:
        limits: by ``CACHE.INDEX`` or the name of an index.
        varying: the largest values of sizes that the caller gives in every step.

    Raises:
        SynthesisError: ``cache-index``: a limit names an index that no cache has, or is not positive.
    """

    def __init__(self, resolved: ResolvedGraph, limits: Mapping[str, int], varying: Mapping[str, int]) -> None:
        caches = [v for v in resolved.variables.values() if v.storage is Storage.PERSISTENT]
        self._declarations = {v.name: v.decl for v in caches if v.decl is not None and v.decl.formals}
        self._limits = limits
        self._sizes = frozenset(resolved.sizes)
        self._uses: dict[str, list[_Use]] = {name: [] for name in self._declarations}
        self._check_limits()
        scalars = {name for name, v in resolved.variables.items() if not v.type.shape}
        names = {
            name: Interval(0 if name in varying else value, value)
            for name, value in resolved.sizes.items()
            if name not in scalars
        }
        for block in resolved.graph.blocks.values():
            for use in _uses(block.name, block.nodes, names):
                self._uses[use.access.base].append(use)

    def of(self, name: str, formal: str) -> int:
        """Return the bound of an index of a cache.

        Raises:
            SynthesisError: ``cache-limit``: nothing says how far it grows.
        """
        decl = self._declarations[name]
        bound = dict(decl.fixed).get(formal, self._limits.get(f"{name}.{formal}", self._limits.get(formal)))
        if bound is not None:
            return bound
        position, is_count = decl.formals.index(formal), formal in decl.auto_dim
        most = 0
        for use in self._uses[name]:
            for value, after in _grown_to(use, position, decl):
                high = expression_interval(value, use.names).high
                if high is None:
                    raise _missing(name, formal, use, is_count=is_count)
                most = max(most, high + (0 if is_count else after))
        return max(most, 0 if is_count else 1)

    def _check_limits(self) -> None:
        names = {formal for decl in self._declarations.values() for formal in decl.formals}
        names |= {f"{name}.{formal}" for name, decl in self._declarations.items() for formal in decl.formals}
        for key, value in self._limits.items():
            if key not in names:
                raise SynthesisError(self._unknown(key, names), code="cache-index")
            if value < 1:
                raise SynthesisError(f"limit {key!r} is {value}, expected 1 or more", code="cache-index")

    def _unknown(self, key: str, names: set[str]) -> str:
        """Return the message for a limit of something that neither caches nor sizes of the program are called."""
        indices = ", ".join(sorted(names)) or "no caches with indices"
        sizes = ", ".join(sorted(self._sizes)) or "no sizes"
        hint = did_you_mean(key, [*names, *self._sizes]) or f"the program has {indices}, and {sizes}"
        return f"no cache has the index {key!r} of a limit, nor is {key} a size of this program: {hint}"


def _uses(block: str, nodes: Sequence[Node], names: Mapping[str, Interval]) -> Iterator[_Use]:
    for node in nodes:
        match node.kind:
            case Loop(index=index, start=start, end=end, body=body):
                low, last = expression_interval(start, names).low, expression_interval(end, names).high
                is_empty = low is not None and last is not None and low >= last
                inside = Interval(None, None) if is_empty or last is None else Interval(low, last - 1)
                yield from _uses(block, body, {**names, index: inside})
            case CacheRead(src=access) | CacheWrite(dst=access) | CacheReset(target=access) if access.slots:
                yield _Use(block, node, access, names)
            case _:
                pass


def _grown_to(use: _Use, position: int, decl: VarDecl) -> Iterator[tuple[IntExpr, int]]:
    """Yield the expressions that an index may grow to, and by how much the number of entries is larger."""
    if position >= len(use.access.slots):
        return
    slot = use.access.slots[position]
    if isinstance(slot, Single):
        positions = position >= len(decl.formals) - len(decl.auto_dim) and not all(
            isinstance(other, Single) for other in use.access.slots[len(decl.formals) - len(decl.auto_dim) :]
        )
        if not positions:
            yield slot.index, 1
    elif slot.end is not None:
        yield slot.end, 0


def _missing(name: str, formal: str, use: _Use, *, is_count: bool) -> SynthesisError:
    what = f"extent `{formal}`" if is_count else f"`{formal}`"
    message = f"cache `{name}` needs a bound for {what}: its memory is reserved in advance"
    hint = f"give a limit, --limit {name}.{formal}=N or limits={{'{name}.{formal}': N}}, or declare @fixed({formal}=N)"
    return at_node("cache-limit", message, use.block, use.node, hint=hint)
