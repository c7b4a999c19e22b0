"""Observers: listeners of plugins to the trace events of every step that is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openinfer.plugins.crossing import crossing, guarded_methods, members
from openinfer.plugins.types import load_part
from openinfer.simulate.devices.floating_point import restoring_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.events import TraceEvent
    from openinfer.plugins.environment import Environment


class Observer(Protocol):
    """Listens to one executor. Made when an executor with tracing is, with its options as keyword arguments."""

    def observe(self, events: Sequence[TraceEvent]) -> None:
        """Take the events of a step, in the order in which nodes ran, after it has ended or failed."""
        ...


class Observers:
    """The observers of one executor, in order of their names.

    Raises:
        PluginError: one cannot be made, or is without a method.
    """

    def __init__(self, environment: Environment) -> None:
        self._observe = [_opened(environment, name) for name in sorted(environment.observers)]
        self._seen = 0

    def observe(self, events: Sequence[TraceEvent]) -> None:
        """Hand over what has been added to the events since the last time.

        Raises:
            PluginError: an observer failed.
        """
        fresh = tuple(events[self._seen :])
        self._seen = len(events)
        for observe in self._observe if fresh else ():
            observe(fresh)

    def forget(self) -> None:
        """Start again: the events so far are dropped."""
        self._seen = 0


def _opened(environment: Environment, name: str) -> Callable[[Sequence[TraceEvent]], None]:
    spec, owner = environment.observers[name], environment.owner("observer", name)
    make = load_part(spec.observer, spec.options, owner)
    with crossing(owner, f"making observer {name}"):
        observer: Observer = make()
    return restoring_errors(guarded_methods(owner, f"observer {name}", observer, members(Observer))["observe"])
