"""Registers one plugin with pluggy, after checks that pluggy makes late, for all plugins at once, or not at all."""

from __future__ import annotations

import inspect
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pluggy

from openinfer.diagnostics import did_you_mean
from openinfer.errors import PluginError
from openinfer.plugins import hookspecs
from openinfer.plugins.environment import Status
from openinfer.plugins.types import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from openinfer.plugins.discovery import Candidate

PREFIX = "openinfer_"


def new_manager() -> pluggy.PluginManager:
    """Return a plugin manager that knows the hooks of `hookspecs` and no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


@contextmanager
def guarded(candidate: Candidate, action: str, *, hook: str | None = None) -> Generator[None]:
    """Turn whatever the plugin's own code raises into a `PluginError` that names the plugin.

    An exit is caught too, since a plugin has no say over the process; an interrupt by the user is not.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        raise failure(candidate, f"{action} {_told(error)}", hook=hook) from error


def failure(
    candidate: Candidate, message: str, *, hook: str | None = None, status: Status = Status.FAILED
) -> PluginError:
    """Return the error for a plugin; ``message`` is one line."""
    return PluginError(
        message, plugin=candidate.name, distribution=candidate.distribution, hook=hook, status=status.value
    )


def _told(error: BaseException) -> str:
    # The first frame is our own call; the last is where the plugin, or a library that it called, gave up.
    frames = [f for f in traceback.extract_tb(error.__traceback__)[1:] if not f.filename.startswith("<frozen ")]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    text = " ".join(traceback.format_exception_only(error)[-1].split())
    return f"raised {text}{place}"


def register(manager: pluggy.PluginManager, candidate: Candidate) -> object:
    """Import a plugin and register its hooks; return what was imported.

    Raises:
        PluginError: it cannot be imported, asks for another version of the hooks, or implements one wrongly. Nothing
            of it is registered then.
    """
    with guarded(candidate, f"import of {candidate.value}"):
        plugin = candidate.load()
    _check_identity(manager, candidate, plugin)
    _check_api(candidate, plugin)
    _check_hooks(manager, candidate, plugin)
    try:
        with guarded(candidate, "registration"):
            manager.register(plugin, name=candidate.name)
    except PluginError:
        # pluggy leaves a plugin registered when a hook of it is refused.
        if manager.has_plugin(candidate.name):
            manager.unregister(name=candidate.name)
        raise
    return plugin


def _check_identity(manager: pluggy.PluginManager, candidate: Candidate, plugin: object) -> None:
    with guarded(candidate, f"hashing {candidate.value}, which pluggy needs,"):
        hash(plugin)
    for name, other in manager.list_name_plugin():
        if other is plugin:
            message = f"{candidate.value} is loaded already, as plugin {name!r}"
            raise failure(candidate, message, status=Status.DUPLICATE)


def _check_api(candidate: Candidate, plugin: object) -> None:
    with guarded(candidate, "reading OPENINFER_API"):
        api: object = getattr(plugin, "OPENINFER_API", None)
    if api is None:
        raise failure(candidate, f"{candidate.value} does not set OPENINFER_API = {API_VERSION}")
    if not isinstance(api, int) or isinstance(api, bool) or api < 1:
        raise failure(candidate, f"OPENINFER_API is {api!r}, expected a whole number from 1 to {API_VERSION}")
    if api > API_VERSION:
        message = f"needs plugin API {api}, this OpenInfer has {API_VERSION}: upgrade openinfer-core"
        raise failure(candidate, message, status=Status.INCOMPATIBLE)


def _check_hooks(manager: pluggy.PluginManager, candidate: Candidate, plugin: object) -> None:
    specs = {name: getattr(hookspecs, name) for name in dir(hookspecs) if name.startswith(PREFIX)}
    with guarded(candidate, "reading its attributes"):
        attributes = {name: getattr(plugin, name) for name in dir(plugin) if not name.startswith("__")}
        implementations = {name: manager.parse_hookimpl_opts(plugin, name) for name in attributes}
    for name, options in implementations.items():
        if options is None:
            _check_undecorated(candidate, name, attributes[name], specs)
            continue
        hook = options.get("specname") or name
        if hook in specs:
            _check_signature(candidate, hook, attributes[name], specs[hook])
        elif not options.get("optionalhook"):
            hint = did_you_mean(hook, specs) or f"the hooks are {', '.join(specs)}"
            raise failure(candidate, f"there is no hook {hook}: {hint}", hook=hook)


def _check_undecorated(candidate: Candidate, name: str, value: object, specs: dict[str, Any]) -> None:
    if name in specs and inspect.isfunction(value):
        raise failure(candidate, f"{name} is not decorated with @hookimpl, so it would never be called", hook=name)


def _check_signature(
    candidate: Candidate, hook: str, implementation: Callable[..., Any], spec: Callable[..., Any]
) -> None:
    with guarded(candidate, f"reading the signature of {hook}", hook=hook):
        written = inspect.signature(implementation)
    known = inspect.signature(spec).parameters
    wrong = [p.name for p in written.parameters.values() if p.name not in known and p.default is p.empty]
    if not wrong:
        return
    arguments = f"argument{'s' if len(wrong) > 1 else ''} {', '.join(f'`{name}`' for name in wrong)}"
    message = (
        f"{hook}{_shown(written)} takes {arguments}, which the hook does not have; it is {hook}({', '.join(known)})"
    )
    raise failure(candidate, message, hook=hook)


def _shown(signature: inspect.Signature) -> str:
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
