"""Rules for blocks and their statements, except yield and await."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity, did_you_mean
from openinfer.ir.checks.access import access_problems, ref_problem
from openinfer.ir.checks.flow import check_flow
from openinfer.ir.checks.names import Names, collect_names, ordered_blocks
from openinfer.ir.checks.unused import check_unused
from openinfer.ir.dep import DepTargets
from openinfer.ir.findings import declared_at, noted_at
from openinfer.ir.graph import MemoryKind
from openinfer.ir.nodes import (
    Assign,
    Await,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Loop,
    Op,
    Return,
    Transfer,
    Yield,
)
from openinfer.ir.places import NOWHERE, around, part
from openinfer.ir.values import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import CacheAccess, Node
    from openinfer.ir.places import Place, Places
    from openinfer.ir.values import Ref

MOST_SUGGESTIONS = 50
"""Names of a block for which near ones are looked up."""


@dataclass(slots=True)
class _Context:
    """What a statement's checks need to know of its surroundings."""

    graph: Graph
    names: Names
    findings: Findings
    block: Block
    indices: list[str] = field(default_factory=list[str])
    suggestions: dict[str, str | None] = field(default_factory=dict[str, "str | None"])

    def near(self, name: str, names: Sequence[str]) -> str | None:
        """Return a suggestion for an unknown name; searching is slow, so it ends after the first few names."""
        if name not in self.suggestions and len(self.suggestions) < MOST_SUGGESTIONS:
            self.suggestions[name] = did_you_mean(name, names)
        return self.suggestions.get(name)

    def error(self, node: Node, code: str, message: str, place: Place | None = None, hint: str | None = None) -> None:
        self.findings.of_node(self.block, node, code, message, place=place, hint=hint)


def check_blocks(graph: Graph, findings: Findings) -> None:
    """Check every statement of every block."""
    blocks = ordered_blocks(graph)
    names = collect_names(graph, blocks)
    for block in blocks:
        context = _Context(graph, names, findings, block)
        _check_nodes(context, block.nodes)
    check_flow(blocks, names.consumers, findings)
    if not findings.doubts.lost:
        check_unused(graph, names, findings)


def _check_nodes(context: _Context, nodes: tuple[Node, ...]) -> None:
    targets: DepTargets | None = None
    for position, node in enumerate(nodes):
        if isinstance(node.kind, Dep) and context.block.name not in context.findings.doubts.lost:
            targets = targets or DepTargets(nodes)
            _check_dep(context, targets.ordered_by(position), node, node.kind)
        elif isinstance(node.kind, Loop):
            _check_loop(context, node, node.kind)
        else:
            _check_node(context, node)


def _check_node(context: _Context, node: Node) -> None:  # noqa: C901 - one case for each kind
    places = node.places or NOWHERE
    read, written = part(places.reads, 0), part(places.writes, 0)
    match node.kind:
        case Assign(name):
            _check_assign(context, node, name)
        case Op(_, inputs, outputs):
            for position, ref in enumerate(inputs):
                if not isinstance(ref, Number):
                    _check_read(context, node, ref, part(places.reads, position))
            before: set[str] = set()
            for position, name in enumerate(outputs):
                place = part(places.writes, position)
                _check_write(context, node, name, place)
                if name in before:
                    context.error(node, "duplicate-name", f"output `{name}` is named twice", place)
                before.add(name)
        case Transfer(src, dst):
            _check_read(context, node, src, read)
            _check_write(context, node, dst, written)
        case CacheRead(src, dst):
            _check_access(context, node, src, read)
            _check_write(context, node, dst, written)
        case CacheWrite(src, dst):
            _check_read(context, node, src, read)
            _check_access(context, node, dst, written)
        case CacheReset(target):
            _check_access(context, node, target, written)
        case CacheIncrement(target) | CacheDecrement(target):
            _check_base(context, node, target, written)
        case Branch() as branch:
            _check_branch(context, node, branch, places)
        case Yield(names) | Await(names):
            for position, name in enumerate(names):
                _check_known(context, node, name, part(places.operands, position))
        case Return(names):
            _check_return(context, node, names, places)
        case _:
            pass


def _check_assign(context: _Context, node: Node, name: str) -> None:
    decl = context.names.variables.get(name)
    first = context.names.temporaries[name]
    if decl is not None:
        message, related = f"`{name}` is already the name of a {decl.kind.value} variable", declared_at(decl)
    elif first is not node:
        message, related = f"temporary `{name}` is assigned twice", noted_at("the first `assign` of it", first.span)
    else:
        return
    context.findings.doubt(name)
    place = part((node.places or NOWHERE).writes, 0)
    context.findings.of_node(context.block, node, "duplicate-name", message, place=place, related=related)


def _check_known(context: _Context, node: Node, name: str, place: Place | None) -> bool:
    """Report a name that is not a variable, temporary or loop index."""
    names = context.names
    if name in names.variables or names.is_temporary(name) or name in context.indices:
        return True
    if name in context.findings.doubts.names:
        return False
    hint = context.near(name, names.known(context.indices))
    context.error(node, "unknown-variable", f"unknown variable `{name}`", place, hint)
    return False


def _check_read(context: _Context, node: Node, ref: Ref, place: Place | None) -> None:
    if not _check_known(context, node, ref.name, place):
        return
    decl = None if ref.name in context.indices else context.names.variables.get(ref.name)
    if decl is not None and decl.kind is MemoryKind.PERSISTENT:
        return
    if decl is None:
        what = "a loop index" if ref.name in context.indices else "a temporary"
        if ref.indices:
            context.error(node, "not-indexable", f"`{ref.name}` is {what}: it takes no indices", place)
        return
    problem = ref_problem(ref, decl)
    if problem is not None:
        context.findings.of_node(context.block, node, *problem, place=place, related=declared_at(decl))


def _check_write(context: _Context, node: Node, name: str, place: Place | None) -> None:
    if name in context.indices:
        context.error(node, "write-readonly", f"loop index `{name}` is read-only", place)
        return
    decl = context.names.variables.get(name)
    if decl is not None and decl.pattern is not None:
        message = f"`{name}` is a prefix table: prefix table entries are read-only"
        context.findings.of_node(context.block, node, "write-readonly", message, place=place, related=declared_at(decl))


def _check_base(context: _Context, node: Node, name: str, place: Place | None) -> bool:
    """Report a base of ``cache.…`` that is not a persistent variable."""
    decl = context.names.variables.get(name)
    if decl is not None and decl.kind is MemoryKind.PERSISTENT:
        return True
    if decl is None and name in context.findings.doubts.names:
        return False
    what = decl.kind.value if decl is not None else "a temporary" if context.names.is_temporary(name) else "unknown"
    message = f"`{name}` is {what}: cache statements take a persistent variable"
    context.error(node, "unknown-variable", message, place, context.near(name, context.names.persistent))
    return False


def _check_access(context: _Context, node: Node, access: CacheAccess, place: Place | None) -> None:
    if not _check_base(context, node, access.base, place):
        return
    decl = context.names.variables[access.base]
    for code, message in access_problems(node.kind, access, decl):
        context.findings.of_node(context.block, node, code, message, place=place, related=declared_at(decl))


def _check_branch(context: _Context, node: Node, branch: Branch, places: Places) -> None:
    condition = part(places.reads, 0)
    if branch.cond is not None and _check_known(context, node, branch.cond, condition):
        decl = context.names.variables.get(branch.cond)
        if decl is not None and decl.pattern is not None and branch.cond not in context.indices:
            context.error(node, "needs-index", f"condition `{branch.cond}` is a prefix table", condition)
    targets = [target for target in (branch.then_block, branch.else_block) if target is not None]
    for position, target in enumerate(targets):
        place = part(places.operands, position)
        if target not in context.graph.blocks:
            if context.findings.doubts.may_be_block(target):
                continue
            hint = did_you_mean(target, context.graph.blocks)
            context.error(node, "unknown-block", f"unknown block `{target}`", place, hint)
        elif target == "entry":
            message = "`entry` cannot be a branch target: a step starts there"
            context.error(node, "unknown-block", message, place)
        elif target in context.names.consumers:
            message = f"`{target}` waits with `await`: it starts when its variables are yielded, not by branch"
            context.error(node, "yield-rules", message, place)


def _check_return(context: _Context, node: Node, names: tuple[str, ...], places: Places) -> None:
    if names and context.block.name != "entry":
        message = f"`return` with values in block `{context.block.name}`: only entry names the results of a step"
        context.error(
            node, "return-values", message, around(places.operands), hint="variables are global: write `return;`"
        )
        return
    for position, name in enumerate(names):
        decl = context.names.variables.get(name)
        place = part(places.operands, position)
        if _check_known(context, node, name, place) and decl is not None and decl.pattern is not None:
            hint = "`transfer` an entry to a variable and return that"
            context.error(node, "needs-index", f"result `{name}` is a prefix table", place, hint)


def _check_loop(context: _Context, node: Node, loop: Loop) -> None:
    index, place = loop.index, part((node.places or NOWHERE).writes, 0)
    decl = context.names.variables.get(index)
    if decl is not None or context.names.is_temporary(index):
        message = f"loop index `{index}` is already the name of a {'variable' if decl is not None else 'temporary'}"
        assigned = context.names.temporaries.get(index)
        first = assigned or context.names.inferred.get(index, (None, None))[1]
        note = "its `assign` is here" if assigned is not None else "it is the output of this statement"
        other = noted_at(note, first.span if first is not None else None)
        related = declared_at(decl) if decl is not None else other
        context.findings.doubt(index)
        context.findings.of_node(context.block, node, "duplicate-name", message, place=place, related=related)
    elif index in context.indices:
        message = f"loop index `{index}` hides the index of an outer loop"
        context.findings.of_node(context.block, node, "shadowed-index", message, severity=Severity.WARNING, place=place)
    context.indices.append(index)
    _check_nodes(context, loop.body)
    context.indices.pop()


def _check_dep(context: _Context, ordered: tuple[Node | None, Node | None], node: Node, dep: Dep) -> None:
    for position, (side, target, ordered_node) in enumerate(
        zip(("after", "before"), (dep.after, dep.before), ordered, strict=True)
    ):
        if ordered_node is None:
            where = "before" if side == "after" else "after"
            message = f"dep {side}({target}) matches no statement {where} it in this list"
            place = part((node.places or NOWHERE).operands, position)
            context.findings.of_node(
                context.block, node, "dep-unmatched", message, severity=Severity.WARNING, place=place
            )
