"""Operators that run on another device than their program: by a hint, or because its device does not support them.

Values stay with the program's device: what such an operator reads is brought over before it runs and what it writes is
brought back, each as a transfer of its own in the trace. Model data and constants are read from the model, once.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from openinfer.bound_calls import in_order
from openinfer.errors import DeviceError
from openinfer.ir.text import node_desc
from openinfer.simulate.compile.operators import OperatorCompiler
from openinfer.simulate.devices.opening import choose_device, open_device
from openinfer.simulate.logs import LogKind, log
from openinfer.simulate.program.describe import Description, always
from openinfer.simulate.program.items import Action
from openinfer.simulate.state.overlay import OverlayMemory
from openinfer.validate.placement import hinted_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.bound_calls import BoundCall
    from openinfer.errors import FeatureMissingError
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp
    from openinfer.plugins.environment import Environment
    from openinfer.simulate.compile.names import Names
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.devices.opening import DeviceChoice
    from openinfer.simulate.program.failures import Place
    from openinfer.simulate.state.memory import Memory


class Placements:
    """The other devices that operators of an executor run on.

    Args:
        fallback: name of the device to fall back to where the hardware of the program's device does not have an
            optional feature; None where that is an error.

    Raises:
        DeviceError: one of those that are known beforehand is unknown, or cannot be used here.
    """

    def __init__(self, resolved: ResolvedGraph, fallback: str | None, environment: Environment) -> None:
        self.placed = resolved.placed
        self.fallback = fallback
        self._environment = environment
        self._choices: dict[str, DeviceChoice] = {}
        self._backends: list[DeviceBackend] = []
        hinted: Mapping[int, str] = hinted_devices(resolved.graph) if resolved.placed else {}
        for block, node in resolved.graph.nodes():
            name = resolved.placed.get(node.index)
            if name is not None:
                verb = "is placed on" if hinted.get(node.index) == name else "falls back to"
                self._choose(name, f"`{node_desc(node)}` in block `{block.name}` {verb}")

    def open(self, name: str) -> tuple[DeviceBackend, Binder]:
        """Open one of the devices again, since each serves one thread.

        Raises:
            DeviceError: it is the one to fall back to, and is unknown, or cannot be used here.
        """
        self._choose(name, "operators fall back to")
        backend, binder = open_device(self._choices[name], self._environment)
        self._backends.append(backend)
        return backend, binder

    def close(self) -> None:
        """Release every device that was opened."""
        with ExitStack() as closing:
            while self._backends:
                closing.callback(self._backends.pop().close)

    def _choose(self, name: str, why: str) -> None:
        if name in self._choices:
            return
        try:
            self._choices[name] = choose_device(name, self._environment)
        except DeviceError as error:
            raise DeviceError(f"{why} `{name}`: {error}", code=error.code) from error


class OtherDevices:
    """The other devices for operators on some memory, each opened when the first operator is bound on it."""

    def __init__(self, placements: Placements, memory: Memory) -> None:
        self._placements = placements
        self._memory = memory
        self._opened: dict[str, PlacedDevice] = {}

    def named_for(self, node: Node) -> PlacedDevice | None:
        """Return the device that an operator is placed on; None for that of its program."""
        name = self._placements.placed.get(node.index)
        return None if name is None else self._device(name)

    def instead(self, place: Place, error: FeatureMissingError) -> PlacedDevice:
        """Return the device to fall back to for an operator for which the program's is without a feature, and log it.

        Raises:
            FeatureMissingError: ``error``, where there is no device to fall back to.
            DeviceError: it is unknown, or cannot be used here.
        """
        name = self._placements.fallback
        if name is None:
            raise error
        log(LogKind.WARNING, f"`{place.desc}` in block `{place.block}` runs on {name}: {error}")
        return self._device(name)

    def while_running(self, place: Place, op: ResolvedOp, names: Names) -> Callable[[FeatureMissingError], BoundCall]:
        """Return the fallback, as `instead` does, of an operator that is bound while the program runs.

        Its transfers are part of its call: the statements of a running program stay what they are.
        """
        return lambda error: self.instead(place, error).call(op, names)

    def _device(self, name: str) -> PlacedDevice:
        if name not in self._opened:
            memory = self._memory
            backend, binder = self._placements.open(name)
            own = OverlayMemory(memory, backend, copied=frozenset(memory.variables), tables=frozenset(memory.tables))
            operators = OperatorCompiler(own, backend, binder)
            self._opened[name] = PlacedDevice(name, memory, own, operators)
        return self._opened[name]


class PlacedDevice:
    """One device that operators are placed on."""

    def __init__(self, name: str, memory: Memory, own: OverlayMemory, operators: OperatorCompiler) -> None:
        self.name = name
        self._memory = memory
        self._own = own
        self._operators = operators

    def bind(self, op: ResolvedOp, names: Names) -> BoundCall:
        """Return the call of an operator on transferred inputs, which transfers its outputs back."""
        return in_order([self._operators.compile(op, names), *map(self._take, op.outputs)])

    def call(self, op: ResolvedOp, names: Names) -> BoundCall:
        """Return the call of an operator, which transfers its inputs too."""
        return in_order([*map(self._bring, self._moved(op)), self.bind(op, names)])

    def items(self, op: ResolvedOp, work: Action) -> list[Action]:
        """Return a placed operator with the transfers before and after it.

        Those after it show what its call has done already: whoever stops at the operator sees its results.
        """
        moved = self._moved(op)
        return [
            *(self._transfer(work.place, name, self._bring(name), name, f"{self.name}:{name}") for name in moved),
            work,
            *(self._transfer(work.place, name, partial(int), f"{self.name}:{name}", name) for name in op.outputs),
        ]

    def _moved(self, op: ResolvedOp) -> list[str]:
        """Return the variables that an operator reads, but for those that never change."""
        read = dict.fromkeys(ref.name for ref in op.inputs if ref is not None and not ref.indices)
        return [name for name in read if name in self._memory.variables and not self._memory.is_fixed(name)]

    def _transfer(self, place: Place, name: str, call: BoundCall, source: str, target: str) -> Action:
        return Action(
            place=place,
            call=call,
            describe=always(Description(f"transfer {source} >> {target}", (source,), (target,))),
            reads=self._memory.conditional.intersection((name,)),
            kind="Transfer",
        )

    def _bring(self, name: str) -> BoundCall:
        return lambda: self._own.load(name, self._memory.save(name))

    def _take(self, name: str) -> BoundCall:
        return lambda: self._memory.load(name, self._own.save(name))
