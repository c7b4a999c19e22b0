"""Calls into the code of plugins. All of them go through this module.

Whatever such code raises ends as a `PluginError` that names the plugin, its distribution and what was called; the
exception itself is its cause. Errors of OpenInfer, which plugins raise on purpose, pass. So do interrupts by the user,
which say what was running, and whatever a signal handler of the program raises.
"""

from __future__ import annotations

import functools
import signal
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

from openinfer.errors import OpenInferError, PluginError
from openinfer.plugins.output import diverted_output
from openinfer.plugins.process import kept_process

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    P = ParamSpec("P")
    T = TypeVar("T")

PUBLISHED_HERE = (
    "openinfer-core",
    "openinfer-oinf",
    "openinfer-backend-cpu",
    "openinfer-synth-c",
    "openinfer-backend-vulkan",
)
"""The distributions of this repository, in the order in which their plugins load. Others are third parties."""

BLOCK = "OPENINFER_PLUGINS_BLOCK"
"""Environment variable that names the plugins that stay out."""

LONGEST_TEXT = 1000
"""Characters that are shown of the text of an exception."""

LONGEST_VALUE = 80
"""Characters that are shown of a value."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The plugin that offers an object, and the distribution that it comes from."""

    plugin: str
    distribution: str

    @property
    def is_foreign(self) -> bool:
        """Whether a third party published it. What this repository publishes is called without a guard where calls are
        made for every node of a step."""
        return self.distribution not in PUBLISHED_HERE

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} of distribution {self.distribution}"


UNKNOWN = Owner("(unknown)", "(unknown)")
"""Owner of objects that came into an environment without a plugin."""


class PluginWarning(UserWarning):
    """A plugin failed in a part that can be left out; the rest goes on without it."""


@contextmanager
def loading(owner: Owner, action: str, *, hook: str | None = None) -> Generator[None]:
    """Guard code that runs while a plugin loads: whatever it raises makes the plugin failed."""
    try:
        with kept_process():
            yield
    except BaseException as error:
        _let_pass(owner, action, error)
        raise failed(owner, f"{action} {raised(error)}", hook=hook) from error


@contextmanager
def crossing(
    owner: Owner,
    action: str,
    *,
    hook: str | None = None,
    passing: tuple[type[BaseException], ...] = (OpenInferError,),
) -> Generator[None]:
    """Guard a call into a plugin that has loaded. What it prints goes to standard error.

    Args:
        action: what is called, such as ``"hook openinfer_kernels"``.
        passing: exceptions that pass.

    Raises:
        PluginError: it raised something else.
    """
    try:
        with diverted_output():
            yield
    except passing:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin has no say over the process
        blame(owner, action, error, hook=hook)


def guarded(
    owner: Owner,
    action: str,
    function: Callable[P, T],
    *,
    passing: tuple[type[BaseException], ...] = (OpenInferError,),
) -> Callable[P, T]:
    """Return a function of a plugin as one whose calls are guarded: the form of `crossing` for what is called often.

    What it prints goes to standard error, but not what a library that it calls prints.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with diverted_output(libraries=False):
                return function(*args, **kwargs)
        except passing:
            raise
        except BaseException as error:  # noqa: BLE001 - a plugin has no say over the process
            blame(owner, action, error)

    return _named_like(call, function)


def guarded_in_steps(
    owner: Owner,
    action: str,
    function: Callable[P, T],
    *,
    passing: tuple[type[BaseException], ...] = (OpenInferError,),
) -> Callable[P, T]:
    """Return a function of a plugin as one whose calls are guarded: the form of `guarded` for what every step calls.

    What it prints stays where it goes: that would take longer than many a kernel.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except passing:
            raise
        except BaseException as error:  # noqa: BLE001 - a plugin has no say over the process
            blame(owner, action, error)

    return _named_like(call, function)


def _named_like(call: Callable[P, T], function: Callable[P, T]) -> Callable[P, T]:
    # Other callables may do anything when their attributes are read.
    return functools.update_wrapper(call, function) if isinstance(function, FunctionType) else call


def guarded_methods(
    owner: Owner,
    what: str,
    target: object,
    names: Iterable[str],
    *,
    passing: tuple[type[BaseException], ...] = (OpenInferError,),
) -> dict[str, Callable[..., Any]]:
    """Return methods of an object of a plugin by name, each guarded; ``what`` is what messages call the object.

    Raises:
        PluginError: one is missing.
    """
    with crossing(owner, f"reading the methods of {what}"):
        found = {name: getattr(target, name, None) for name in names}
    missing = [name for name, method in found.items() if not callable(method)]
    if missing:
        raise fault(owner, f"{what} ({type(target).__name__}) has no method {', '.join(missing)}")
    return {
        name: guarded(owner, f"{name} of {what}", cast("Callable[..., Any]", method), passing=passing)
        for name, method in found.items()
    }


def members(*protocols: type[Any]) -> tuple[str, ...]:
    """Return the names of the methods that protocols ask for, those of their bases not included."""
    return tuple(name for each in protocols for name, value in vars(each).items() if name[0] != "_" and callable(value))


def blame(owner: Owner, action: str, error: BaseException, *, hook: str | None = None) -> NoReturn:
    """Raise the `PluginError` for what a plugin raised, or the exception itself where the plugin is not to blame."""
    _let_pass(owner, action, error)
    raise fault(owner, f"{action} {raised(error)}", hook=hook) from error


def fault(owner: Owner, message: str, *, hook: str | None = None) -> PluginError:
    """Return the error for a plugin that has loaded: it says whose failure it is, and how to go on without it."""
    if owner is UNKNOWN:
        return PluginError(message, hook=hook, status="failed")
    advice = f"to keep it out: openinfer --plugins-block {owner.plugin} ..., or {BLOCK}={owner.plugin}"
    return failed(owner, f"{owner}: {message}; {advice}", hook=hook)


def failed(owner: Owner, message: str, *, hook: str | None = None, status: str = "failed") -> PluginError:
    """Return the error for a plugin; ``message`` is one line."""
    return PluginError(message, plugin=owner.plugin, distribution=owner.distribution, hook=hook, status=status)


def raised(error: BaseException) -> str:
    """Return what an exception says and where it was raised, in one line, whatever its text is."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    # The last frame is where the plugin, or a library that it called, gave up; ours say nothing.
    frames = [(name, line) for name, line in frames if name != __file__ and not name.startswith("<frozen ")]
    place = f" ({frames[-1][0]}:{frames[-1][1]})" if frames else ""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 - the text of an exception is code of the plugin too
        text = "(its text cannot be shown)"
    return f"raised {type(error).__name__}{f': {text[:LONGEST_TEXT]}' if text else ''}{place}"


def shown(value: object) -> str:
    """Return the beginning of the representation of a value, also of one that has none."""
    try:
        return repr(value)[:LONGEST_VALUE]
    except BaseException:  # noqa: BLE001 - representations are code of the plugin too
        return f"an object of type {type(value).__name__} that cannot be shown"


def wrong(found: Any, expected: str) -> str:
    """Return that a value is not what was expected, for messages."""
    return f"returned {shown(found)} ({type(found).__name__}), expected {expected}"


def _let_pass(owner: Owner, action: str, error: BaseException) -> None:
    """Raise an exception that is not the plugin's: an interrupt, which says what was running, or a signal handler's."""
    if isinstance(error, KeyboardInterrupt):
        # The innermost call says the most.
        if not getattr(error, "__notes__", ()):
            error.add_note(f"while running: {action}, {owner}")
        raise error
    if not isinstance(error, Exception) and _is_from_signal_handler(error):
        raise error


def _is_from_signal_handler(error: BaseException) -> bool:
    """Whether a handler of the program, such as one that exits on SIGTERM, was running when an exception was raised."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> Any:
    function = handler.func if isinstance(handler, functools.partial) else handler
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
