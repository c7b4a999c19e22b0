"""Kernels of the plugins, asked for when a device or synth target is opened, and the choice among them."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from openinfer.errors import PluginError
from openinfer.plugins.offers import misfit, results
from openinfer.plugins.registration import failure, guarded
from openinfer.plugins.switches import BLOCK
from openinfer.plugins.types import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pluggy

    from openinfer.ops.calls import OpCall
    from openinfer.plugins.discovery import Candidate

_KERNELS = "openinfer_kernels"
_SELECT = "openinfer_select_kernel"


def kernel_source(
    manager: pluggy.PluginManager, loaded: Sequence[tuple[Candidate, object]]
) -> Callable[[str], Sequence[KernelSpec]]:
    """Return the function that yields every plugin's kernels for a device or target, asking each plugin once.

    The function raises `PluginError` when a plugin's hook raises or yields something else than kernels.
    """

    @cache
    def kernels(target: str) -> tuple[KernelSpec, ...]:
        return tuple(
            kernel for candidate, plugin in loaded for kernel in _kernels_of(manager, candidate, plugin, target)
        )

    return kernels


def _kernels_of(manager: pluggy.PluginManager, candidate: Candidate, plugin: object, target: str) -> list[KernelSpec]:
    with _blamed():
        found = results(manager, candidate, plugin, _KERNELS, {"target": target})
        return [_checked(candidate, kernel) for kernel in found]


@contextmanager
def _blamed() -> Generator[None]:
    """Say in the message whose failure it is: here it ends what the user wanted, and is no row of a table."""
    try:
        yield
    except PluginError as error:
        message = (
            f"plugin {error.plugin!r} of distribution {error.distribution}: {error}; "
            f"to keep it out: openinfer --plugins-block {error.plugin} ..., or {BLOCK}={error.plugin}"
        )
        raise PluginError(
            message, plugin=error.plugin, distribution=error.distribution, hook=error.hook, status=error.status
        ) from error


def _checked(candidate: Candidate, kernel: object) -> KernelSpec:
    with guarded(candidate, f"looking at what hook {_KERNELS} yielded", hook=_KERNELS):
        wrong = misfit(KernelSpec, kernel)
    if wrong is not None or not isinstance(kernel, KernelSpec):
        raise failure(candidate, f"hook {_KERNELS} yielded {wrong}", hook=_KERNELS)
    return kernel


def kernel_choice(
    manager: pluggy.PluginManager, loaded: Sequence[tuple[Candidate, object]]
) -> Callable[[OpCall, Sequence[KernelSpec], str], KernelSpec]:
    """Return the function that chooses among kernels that fit: the first plugin with a choice, then the lowest cost.

    Plugins are asked in pluggy's order (the last one registered first, ``tryfirst`` and ``trylast`` heeded). The
    function raises `PluginError` when a plugin's hook raises or chooses a kernel that was not offered.
    """
    by_name = {candidate.name: (candidate, plugin) for candidate, plugin in loaded}

    def choose(call: OpCall, candidates: Sequence[KernelSpec], device: str) -> KernelSpec:
        implementations = reversed(manager.hook.openinfer_select_kernel.get_hookimpls())
        for name in dict.fromkeys(i.plugin_name for i in implementations):
            with _blamed():
                chosen = _chosen(manager, *by_name[name], call, candidates, device)
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
    with guarded(candidate, f"hook {_SELECT}", hook=_SELECT):
        chosen = manager.subset_hook_caller(_SELECT, others)(call=call, candidates=tuple(candidates), device=device)
    if chosen is not None and not any(chosen is kernel for kernel in candidates):
        message = f"hook {_SELECT} chose {chosen!r:.80} for {call.op} on {device}, expected one of its candidates"
        raise failure(candidate, message, hook=_SELECT)
    return chosen
