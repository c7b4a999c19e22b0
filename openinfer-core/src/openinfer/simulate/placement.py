"""Operators that run on another device than their program, where the hint ``placement`` says so.

Values stay with the program's device: what a placed operator reads is brought over before it runs and what it writes is
brought back after, each as a transfer of its own in the trace. Model data and constants are brought over once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import DeviceError
from openinfer.ir.text import node_desc
from openinfer.ir.values import StrValue
from openinfer.simulate.aside_memory import AsideMemory
from openinfer.simulate.describe import Description, always
from openinfer.simulate.device import choose_device, open_device
from openinfer.simulate.operators import OperatorCompiler
from openinfer.simulate.program import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedOp
    from openinfer.ir.values import Attrs
    from openinfer.plugins.environment import Environment
    from openinfer.simulate.backend import BoundCall, DeviceBackend
    from openinfer.simulate.device import DeviceChoice
    from openinfer.simulate.failures import Place
    from openinfer.simulate.memory import Memory
    from openinfer.simulate.names import Names


def placed_on(hints: Attrs, around: str | None = None) -> str | None:
    """Return the device that hints name, or else that of what is around them."""
    found = hints.get("placement")
    return found.value if isinstance(found, StrValue) else around


class Placements:
    """The devices that the hints of a program name.

    Raises:
        DeviceError: one of them is unknown, or cannot be used here.
    """

    def __init__(self, graph: Graph, main: str, environment: Environment) -> None:
        self._environment = environment
        self._choices: dict[str, DeviceChoice] = {}
        for name, where in _named(graph):
            if name != main and name not in self._choices:
                try:
                    self._choices[name] = choose_device(name, environment)
                except DeviceError as error:
                    raise DeviceError(f"{where} is placed on `{name}`: {error}", code=error.code) from error

    def opened(self, memory: Memory) -> dict[str, PlacedDevice]:
        """Return every device, opened anew, with memory beside that of the program; to be closed by the caller."""
        found: dict[str, PlacedDevice] = {}
        for name, choice in self._choices.items():
            backend, binder = open_device(choice, self._environment)
            beside = AsideMemory(memory, frozenset(memory.variables), backend, frozenset(memory.tables))
            found[name] = PlacedDevice(name, memory, beside, backend, OperatorCompiler(beside, backend, binder))
        return found


def _named(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the devices that hints name, and what names them."""
    for block in graph.blocks.values():
        hinted = [(block.hints, f"block `{block.name}`")]
        hinted += [(node.hints, f"`{node_desc(node)}` in block `{block.name}`") for node in block.walk() if node.hints]
        for hints, what in hinted:
            name = placed_on(hints)
            if name is not None:
                yield name, what


class PlacedDevice:
    """One device that operators are placed on."""

    def __init__(
        self, name: str, memory: Memory, beside: AsideMemory, backend: DeviceBackend, operators: OperatorCompiler
    ) -> None:
        self.name = name
        self.backend = backend
        self._memory = memory
        self._beside = beside
        self._operators = operators

    def bind(self, op: ResolvedOp, names: Names) -> BoundCall:
        """Return the call of an operator on this device, on values that are there."""
        return self._operators.compile(op, names)

    def items(self, op: ResolvedOp, call: Action) -> list[Action]:
        """Return a placed operator with the transfers before and after it."""
        read = dict.fromkeys(ref.name for ref in op.inputs if ref is not None and not ref.indices)
        plain = [name for name in read if name in self._memory.variables]
        for name in filter(self._memory.is_fixed, plain):
            self._bring(name)()
        moved = [name for name in plain if not self._memory.is_fixed(name)]
        return [
            *(self._transfer(call.place, name, self._bring(name), name, f"{self.name}:{name}") for name in moved),
            call,
            *(self._transfer(call.place, name, self._take(name), f"{self.name}:{name}", name) for name in op.outputs),
        ]

    def _transfer(self, place: Place, name: str, call: BoundCall, source: str, target: str) -> Action:
        return Action(
            place=place,
            call=call,
            describe=always(Description(f"transfer {source} >> {target}", (source,), (target,))),
            reads=self._memory.conditional.intersection((name,)),
            kind="Transfer",
        )

    def _bring(self, name: str) -> BoundCall:
        return lambda: self._beside.load(name, self._memory.save(name))

    def _take(self, name: str) -> BoundCall:
        return lambda: self._memory.load(name, self._beside.save(name))
