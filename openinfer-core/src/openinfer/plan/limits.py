"""Limits that a caller gives: how far caches grow, and how large the sizes are that differ from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from openinfer.plan.findings import about
from openinfer.validate.step_sizes import fixing, step_sizes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from openinfer.ir.graph import Graph
    from openinfer.model import Model


class Limits(NamedTuple):
    """Limits by what they are about.

    Attributes:
        sizes: the largest value of each size that the caller gives in every step.
        caches: by ``CACHE.INDEX`` or the name of an index, see `openinfer.plan.bounds.CacheBounds`.
    """

    sizes: Mapping[str, int]
    caches: Mapping[str, int]


def limits_of(graph: Graph, model: Model, limits: Mapping[str, int]) -> Limits:
    """Return limits by what they are about; those that are about nothing are among the ones for caches.

    Raises:
        SynthesisError: ``size-limit``: a size is the same in every step, is also the name of an index, or its limit is
            not positive.
    """
    indices = {formal: decl.name for decl in graph.vars.values() if not decl.pattern for formal in decl.formals}
    free, fixed = step_sizes(graph, model), fixing(graph, model)
    sizes = {
        name: value
        for name, value in limits.items()
        if name in model.sizevars and (name in free or name not in indices)
    }
    for name, value in sizes.items():
        if name in indices:
            message = f"limit {name!r} is about a size, and about the index `{name}` of `{indices[name]}`"
            raise about("size-limit", message, f"name the index with its cache: {indices[name]}.{name}")
        if name not in free:
            why = f"`{fixed[name]}` has it" if name in fixed else "no dynamic variable has it as an extent of its own"
            message = f"size `{name}` is the same in every step, since {why}"
            hint = "only sizes that no constant, persistent or model-backed variable has differ from step to step"
            raise about("size-limit", message, f"{hint}; --size {name}=N gives it another value")
        if value < 1:
            raise about("size-limit", f"limit {name!r} is {value}, expected 1 or more")
    return Limits(sizes, {name: value for name, value in limits.items() if name not in sizes})


def refuse_unlimited(graph: Graph, model: Model, chosen: Collection[str]) -> None:
    """Raise where sizes may differ from step to step, and nobody chose their values or their limits.

    Args:
        chosen: the sizes that have a limit, or a value in place of the model's.

    Raises:
        SynthesisError: ``size-limit``: it names the sizes, and the options that choose them.
    """
    free = step_sizes(graph, model)
    missing = [name for name in model.sizevars if name in free and name not in chosen]
    if not missing:
        return
    names = " and ".join(f"`{name}`" for name in missing)
    what, need = ("size", "needs a limit") if len(missing) == 1 else ("sizes", "need limits")
    limits, sizes = (" ".join(f"--{option} {name}=..." for name in missing) for option in ("limit", "size"))
    message = f"{what} {names} may differ from step to step, and {need}"
    raise about("size-limit", message, f"give {limits}, or one value for all steps: {sizes}")
