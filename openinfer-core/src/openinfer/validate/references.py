"""References to values: variables, prefix-table entries, loop indices."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.diagnostics import did_you_mean
from openinfer.ir.checks.access import ref_problem
from openinfer.ir.graph import MemoryKind
from openinfer.ir.resolved import Storage
from openinfer.ir.text import ref_text
from openinfer.validate.declarations import entry_problem, entry_text
from openinfer.validate.scope import LOOP_INDEX_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.ir.findings import Findings
    from openinfer.ir.places import Place
    from openinfer.ir.resolved import PrefixTable
    from openinfer.ir.types import TensorType
    from openinfer.ir.values import Ref
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope

MOST_COMBINATIONS = 100_000
"""Most combinations of loop indices for which prefix entries are checked before running."""


def readable_type(ref: Ref, scope: Scope, findings: Findings, place: Place | None) -> TensorType | None:
    """Return the type of a value that a statement reads; None after an error was recorded."""
    if ref.name in scope.indices and not ref.indices:
        return LOOP_INDEX_TYPE
    problem = _problem(ref, scope)
    if problem is not None:
        code, message, hint = problem
        findings.error(code, message, place=place, hint=hint)
        return None
    table = scope.tables.get(ref.name)
    if table is not None:
        _check_entry(ref, table, scope, findings, place)
        return table.type
    variable = scope.variables.get(ref.name)
    if variable is None:
        return None
    if variable.storage is Storage.PERSISTENT:
        findings.error(
            "persistent-direct",
            f"`{ref.name}` is persistent: it cannot be read here",
            place=place,
            hint=f"read it with `cache.read {ref.name} >> ...;`",
            decl=variable.decl,
        )
        return None
    return variable.type


def are_integers(names: Iterable[str], what: str, scope: Scope, findings: Findings, place: Place | None) -> bool:
    """Record the first name that is not an integer among those of an expression; return whether there is none.

    ``what`` is how the message calls the expression.
    """
    for name in names:
        problem = scope.integer_problem(name)
        if problem is not None:
            code = "bound-not-scalar" if name in scope.variables else "unknown-variable"
            findings.error(code, f"{what}: {problem}", place=findings.place_of_word(name, place))
            return False
    return True


def _problem(ref: Ref, scope: Scope) -> tuple[str, str, str | None] | None:
    """Return code, message and hint of a name or indices that are wrong.

    In inputs that are in their places phase S finds them; which settings are inputs is known to operators only.
    """
    if ref.name not in scope.names and ref.name not in scope.indices:
        hint = did_you_mean(ref.name, [*scope.names, *scope.indices])
        return "unknown-variable", f"unknown variable `{ref.name}`", hint
    declared = next(iter(scope.declared(ref.name)), None)
    if declared is not None and declared.decl is not None and ref.name not in scope.indices:
        wrong = ref_problem(ref, declared.decl) if declared.decl.kind is not MemoryKind.PERSISTENT else None
        return (*wrong, None) if wrong is not None else None
    if ref.indices and (declared is not None or ref.name in scope.indices):
        what = "a loop index" if ref.name in scope.indices else "a temporary"
        return "not-indexable", f"`{ref.name}` is {what}: it takes no indices", None
    return None


def _check_entry(ref: Ref, table: PrefixTable, scope: Scope, findings: Findings, place: Place | None) -> None:
    """Entries whose indices are known now must exist in the model; others are looked up when they are used."""
    names = list(dict.fromkeys(name for index in ref.indices for name in symbolic.names(index)))
    if not are_integers(names, f"index of `{ref_text(ref)}`", scope, findings, place):
        return
    values = [_known_values(name, scope) for name in names]
    if any(v is None for v in values):
        return
    ranges = [v for v in values if v is not None]
    if math.prod(max(0, v.stop - v.start) for v in ranges) > MOST_COMBINATIONS:
        return
    try:
        entries = dict.fromkeys(
            tuple(_evaluate(index, dict(zip(names, chosen, strict=True))) for index in ref.indices)
            for chosen in product(*ranges)
        )
    except symbolic.DivisionError as error:
        findings.error("bad-division", f"index of `{ref_text(ref)}`: {error}", place=place)
        return
    for entry in entries:
        problem = entry_problem(table, entry, scope.model)
        if problem is None:
            continue
        info = scope.model.linked(table.tensor_name(entry), table.type.dtype)
        if info is None:
            findings.error("unbound", problem, place=place, decl=table.decl)
        else:
            shapes = {f"`{entry_text(table, entry)}`": info.shape}
            findings.error("model-mismatch", problem, place=place, sized=(table,), found=shapes)
        return


def _known_values(name: str, scope: Scope) -> range | None:
    """Return the values that a name takes, when they are known before running."""
    if name in scope.indices:
        return scope.indices[name]
    return range(scope.sizes[name], scope.sizes[name] + 1) if scope.is_size(name) else None


def _evaluate(index: IntExpr, values: dict[str, int]) -> int:
    return symbolic.evaluate(index, values.__getitem__)
