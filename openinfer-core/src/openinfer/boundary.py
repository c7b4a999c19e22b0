"""Short tracebacks: what the user called and the error, without the frames of OpenInfer in between.

Functions that users call are marked with `public`. Frames of other code, such as a plugin's kernel, are kept. With the
environment variable ``OPENINFER_DEBUG`` set, as under ``openinfer --debug``, tracebacks are whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from openinfer.errors import ExecutionError, OpenInferError, PluginError

DEBUG = "OPENINFER_DEBUG"
_PACKAGES = ("openinfer", "openinfer_oinf")

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C")


def public(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Shorten the tracebacks of errors that a function raises on purpose or of files; also those of a generator."""
    if isgeneratorfunction(function):
        return cast("Callable[_P, _R]", _public_generator(function))

    @wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*arguments, **named)
        except (OpenInferError, OSError) as error:
            _shorten(error)
            raise

    return call


def public_methods(kind: type[_C]) -> type[_C]:
    """Mark every method of a class whose name has no underscore in front, and its constructor."""
    for name, value in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isfunction(value):
            setattr(kind, name, public(value))
        elif isinstance(value, staticmethod | classmethod):
            wrapped = cast("staticmethod[..., Any] | classmethod[Any, ..., Any]", value)
            setattr(kind, name, type(wrapped)(public(wrapped.__func__)))
    return kind


def _public_generator(function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from function(*arguments, **named))
        except (OpenInferError, OSError) as error:
            _shorten(error)
            raise

    return call


def _shorten(error: OpenInferError | OSError) -> None:
    """Leave the frame of the public function in a traceback, and those that are not of OpenInfer.

    The traceback starts with the frame of the wrapper, which is left out: raising the error again adds none.
    """
    if os.environ.get(DEBUG) or error.__traceback__ is None:
        return
    called = error.__traceback__.tb_next
    if called is not None:
        error.__traceback__ = _entry(called, _foreign(called.tb_next))
    # Where foreign code failed is wanted; where a reader of JSON did is not.
    keeps = isinstance(error, ExecutionError | PluginError)
    inner = error.__cause__ or error.__context__
    while inner is not None and inner.__traceback__ is not None and _is_ours(inner.__traceback__):
        inner.__traceback__ = _foreign(inner.__traceback__) if keeps else None
        inner = inner.__cause__ or inner.__context__


def _foreign(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of OpenInfer's packages."""
    kept: list[TracebackType] = []
    while traceback is not None:
        if not _is_ours(traceback):
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for entry in reversed(kept):
        found = _entry(entry, found)
    return found


def _is_ours(entry: TracebackType) -> bool:
    return str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0] in _PACKAGES


def _entry(entry: TracebackType, following: TracebackType | None) -> TracebackType:
    return TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
