"""Registers one plugin with pluggy, after checks that pluggy makes late, for all plugins at once, or not at all."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pluggy

from openinfer.diagnostics import did_you_mean
from openinfer.errors import PluginError
from openinfer.plugins import hookspecs
from openinfer.plugins.crossing import failed, loading, shown
from openinfer.plugins.environment import Status
from openinfer.plugins.types import API_VERSION
from openinfer.plugins.waiting import naming_slow_import

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.plugins.discovery import Candidate

PREFIX = "openinfer_"


def new_manager() -> pluggy.PluginManager:
    """Return a plugin manager that knows the hooks of `hookspecs` and no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def failure(
    candidate: Candidate, message: str, *, hook: str | None = None, status: Status = Status.FAILED
) -> PluginError:
    """Return the error for a plugin that does not load; ``message`` is one line."""
    return failed(candidate.owner, message, hook=hook, status=status.value)


@dataclass(frozen=True, eq=False)
class Registered:
    """What pluggy holds of a plugin: its hooks, as attributes. Comparing and hashing it runs no code of the plugin.

    Attributes:
        source: what the entry point names.
    """

    source: object


def register(manager: pluggy.PluginManager, candidate: Candidate) -> Registered:
    """Import a plugin and register its hooks; return what was registered.

    Raises:
        PluginError: it cannot be imported, asks for another version of the hooks, or implements one wrongly. Nothing
            of it is registered then.
    """
    action = f"import of {candidate.value}"
    with (
        loading(candidate.owner, action),
        naming_slow_import(candidate.owner, action, candidate.value.partition(":")[0]),
    ):
        plugin = candidate.load()
    _check_identity(manager, candidate, plugin)
    _check_api(candidate, plugin)
    registered = Registered(plugin)
    vars(registered).update(_hooks(manager, candidate, plugin))
    try:
        with loading(candidate.owner, "registration"):
            manager.register(registered, name=candidate.name)
    except PluginError:
        # pluggy leaves a plugin registered when a hook of it is refused.
        if manager.has_plugin(candidate.name):
            manager.unregister(name=candidate.name)
        raise
    return registered


def _check_identity(manager: pluggy.PluginManager, candidate: Candidate, plugin: object) -> None:
    for name, other in manager.list_name_plugin():
        if isinstance(other, Registered) and other.source is plugin:
            message = f"{candidate.value} is loaded already, as plugin {name!r}"
            raise failure(candidate, message, status=Status.DUPLICATE)


def _check_api(candidate: Candidate, plugin: object) -> None:
    with loading(candidate.owner, "reading OPENINFER_API"):
        api: object = getattr(plugin, "OPENINFER_API", None)
    if api is None:
        raise failure(candidate, f"{candidate.value} does not set OPENINFER_API = {API_VERSION}")
    if type(api) is not int or api < 1:
        raise failure(candidate, f"OPENINFER_API is {shown(api)}, expected a whole number from 1 to {API_VERSION}")
    if api > API_VERSION:
        message = f"needs plugin API {shown(api)}, this OpenInfer has {API_VERSION}: upgrade openinfer-core"
        raise failure(candidate, message, status=Status.INCOMPATIBLE)


def _hooks(manager: pluggy.PluginManager, candidate: Candidate, plugin: object) -> dict[str, object]:
    """Return the implementations of hooks by name, each checked."""
    specs = {name: getattr(hookspecs, name) for name in dir(hookspecs) if name.startswith(PREFIX)}
    with loading(candidate.owner, "reading its attributes"):
        attributes = {name: getattr(plugin, name) for name in dir(plugin) if not name.startswith("__")}
        implementations = {name: manager.parse_hookimpl_opts(plugin, name) for name in attributes}
    for name, options in implementations.items():
        if options is None:
            _check_undecorated(candidate, name, attributes[name], specs)
            continue
        hook = options.get("specname") or name
        if inspect.iscoroutinefunction(attributes[name]) or inspect.isasyncgenfunction(attributes[name]):
            message = f"{name} is an async function, and hooks are called without an event loop: write `def {name}`"
            raise failure(candidate, message, hook=hook)
        if hook in specs:
            _check_signature(candidate, hook, attributes[name], specs[hook])
        elif not options.get("optionalhook"):
            hint = did_you_mean(hook, specs) or f"the hooks are {', '.join(specs)}"
            raise failure(candidate, f"there is no hook {hook}: {hint}", hook=hook)
    return {name: attributes[name] for name, options in implementations.items() if options is not None}


def _check_undecorated(candidate: Candidate, name: str, value: object, specs: dict[str, Any]) -> None:
    if name in specs and inspect.isfunction(value):
        raise failure(candidate, f"{name} is not decorated with @hookimpl, so it would never be called", hook=name)


def _check_signature(
    candidate: Candidate, hook: str, implementation: Callable[..., Any], spec: Callable[..., Any]
) -> None:
    known = inspect.signature(spec).parameters
    with loading(candidate.owner, f"reading the signature of {hook}", hook=hook):
        written = inspect.signature(implementation)
        unknown = [p.name for p in written.parameters.values() if p.name not in known and p.default is p.empty]
        text = _bare(written)
    if not unknown:
        return
    arguments = f"argument{'s' if len(unknown) > 1 else ''} {', '.join(f'`{name}`' for name in unknown)}"
    message = f"{hook}{text} takes {arguments}, which the hook does not have; it is {hook}({', '.join(known)})"
    raise failure(candidate, message, hook=hook)


def _bare(signature: inspect.Signature) -> str:
    """Return a signature without annotations and defaults, whose representations are code of the plugin."""
    required = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.default is p.empty]
    return str(signature.replace(parameters=required, return_annotation=signature.empty))
