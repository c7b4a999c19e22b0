"""Kernels of the plugins, requested when a device or synth target is opened, and the choice among them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.errors import PluginError
from openinfer.plugins.crossing import PluginWarning, crossing, fault, shown
from openinfer.plugins.descriptions import misfit
from openinfer.plugins.offers import excess, yielded
from openinfer.plugins.types import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pluggy

    from openinfer.ops.calls import OpCall
    from openinfer.plugins.discovery import Candidate

_KERNELS = "openinfer_kernels"
_SELECT = "openinfer_select_kernel"

MOST_NAMED = 5
"""Unknown operators that a warning names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSources:
    """What kernels are gathered from.

    Attributes:
        loaded: plugins with what is registered of them.
        ops: names and aliases of operators, with the canonical name of each.
        offered: plugins that offer a device or synth target, by its name.
        replaced: pairs of a plugin and the name of a device or synth target that another one took from it.
        strict: whether a plugin that fails is an error even where it can be left out.
    """

    manager: pluggy.PluginManager
    loaded: Sequence[tuple[Candidate, object]]
    ops: Mapping[str, str]
    offered: Mapping[str, Collection[str]]
    replaced: Collection[tuple[str, str]]
    strict: bool


def kernel_source(sources: KernelSources) -> Callable[[str], Sequence[KernelSpec]]:
    """Return the function that yields every plugin's kernels for a device or target, asking each plugin once.

    The function raises `PluginError` when the hook of the plugin that offers the device or target fails, or yields
    something else than kernels. The kernels of another plugin are left out then, with a warning; so are kernels for
    operators that nobody offers.
    """

    @cache
    def kernels(target: str) -> tuple[KernelSpec, ...]:
        found: list[KernelSpec] = []
        for candidate, plugin in sources.loaded:
            # Kernels of a device that was replaced are made for a backend that is not there.
            if (candidate.name, target) in sources.replaced:
                continue
            try:
                found += _kernels_of(sources, candidate, plugin, target)
            except PluginError as error:
                if sources.strict or candidate.name in sources.offered.get(target, ()):
                    raise
                _warn(error, f"its kernels for {target} are left out")
        return tuple(found)

    return kernels


def _kernels_of(sources: KernelSources, candidate: Candidate, plugin: object, target: str) -> list[KernelSpec]:
    with crossing(candidate.owner, f"hook {_KERNELS}", hook=_KERNELS, passing=()):
        found = yielded(sources.manager, plugin, _KERNELS, {"target": target})
        unfit = [misfit(KernelSpec, kernel) for kernel in found if candidate.owner.is_foreign]
    wrong = excess(found) or next(filter(None, unfit), None)
    if wrong is not None:
        raise fault(candidate.owner, f"hook {_KERNELS} yielded {wrong}", hook=_KERNELS)
    _report_unknown(sources, candidate, sorted({kernel.op for kernel in found} - sources.ops.keys()))
    known = (kernel for kernel in found if kernel.op in sources.ops)
    return [replace(kernel, op=sources.ops[kernel.op], owner=candidate.owner) for kernel in known]


def _report_unknown(sources: KernelSources, candidate: Candidate, names: Sequence[str]) -> None:
    if not names:
        return
    hint = did_you_mean(names[0], sources.ops) or "`openinfer ops` lists the operators"
    listed = ", ".join(map(repr, names[:MOST_NAMED])) + (", ..." if len(names) > MOST_NAMED else "")
    message = f"hook {_KERNELS} yielded kernels for operators that are unknown: {listed}: {hint}"
    error = fault(candidate.owner, message, hook=_KERNELS)
    if sources.strict:
        raise error
    _warn(error, "these kernels are left out")


def kernel_choice(sources: KernelSources) -> Callable[[OpCall, Sequence[KernelSpec], str], KernelSpec]:
    """Return the function that chooses among kernels that fit: the first plugin with a choice, then the lowest cost.

    Plugins are called in pluggy's order (the last one registered first, ``tryfirst`` and ``trylast`` heeded). One whose
    hook raises, or chooses a kernel that was not offered, is passed over with a warning.
    """
    by_name = {candidate.name: (candidate, plugin) for candidate, plugin in sources.loaded}

    def choose(call: OpCall, candidates: Sequence[KernelSpec], device: str) -> KernelSpec:
        implementations = reversed(sources.manager.hook.openinfer_select_kernel.get_hookimpls())
        for name in dict.fromkeys(i.plugin_name for i in implementations):
            try:
                chosen = _chosen(sources.manager, *by_name[name], call, candidates, device)
            except PluginError as error:
                if sources.strict:
                    raise
                _warn(error, f"its choices on {device} are passed over")
            else:
                if chosen is not None:
                    return chosen
        return min(candidates, key=lambda kernel: kernel.cost)

    return choose


def _chosen(
    manager: pluggy.PluginManager,
    candidate: Candidate,
    plugin: object,
    call: OpCall,
    candidates: Sequence[KernelSpec],
    device: str,
) -> KernelSpec | None:
    others = [other for other in manager.get_plugins() if other is not plugin]
    hook = manager.subset_hook_caller(_SELECT, others)
    with crossing(candidate.owner, f"hook {_SELECT}", hook=_SELECT, passing=()):
        chosen = hook(call=call, candidates=tuple(candidates), device=device)
    if chosen is not None and not any(chosen is kernel for kernel in candidates):
        message = f"hook {_SELECT} chose {shown(chosen)} for {call.op} on {device}, expected one of its candidates"
        raise fault(candidate.owner, message, hook=_SELECT)
    return chosen


def _warn(error: PluginError, consequence: str) -> None:
    warnings.warn(f"{error}; {consequence}", PluginWarning, stacklevel=2)
