"""Programs bound to memory, for the sizes of steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from openinfer.errors import ShapeError, ValidationError
from openinfer.simulate.program.failures import Place
from openinfer.simulate.program.items import Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.simulate.consumers.runs import ConsumerRuns
    from openinfer.simulate.execute.whole_program import WholeProgram
    from openinfer.simulate.program.items import Code
    from openinfer.simulate.state.host import Host, Inputs
    from openinfer.simulate.state.program_memory import ProgramMemory


MOST_SIZES = 16
"""Most sizes of steps, apart from the usual ones, for which an executor keeps the program bound."""


@dataclass(frozen=True, eq=False)
class Binding:
    """A program bound to memory for the sizes of a step.

    Attributes:
        compile: binds the blocks node by node.
        whole: the program as the device runs it whole; None where it does not.
        reasons: why a device that runs whole programs does not run this one whole.
    """

    resolved: ResolvedGraph
    memory: ProgramMemory
    compile: Callable[[], Mapping[str, Code]]
    consumers: ConsumerRuns
    whole: WholeProgram | None
    reasons: tuple[Diagnostic, ...]
    inputs: Inputs
    host: Host

    @cached_property
    def codes(self) -> Mapping[str, Code]:
        """The blocks, bound node by node when somebody first needs them.

        Raises:
            ExecutionError: an operator cannot be bound on the device.
        """
        return self.compile()

    def need_codes(self) -> None:
        """Bind the blocks at once, so that errors come early; raises as `codes` does."""
        _ = self.codes

    @cached_property
    def last(self) -> Leave:
        """The return at the end of ``entry``, where a program ends that the device runs whole."""
        node = self.resolved.graph.blocks["entry"].nodes[-1]
        return Leave(place=Place(node, "entry"))


class Bindings:
    """The bindings of an executor: that of the usual sizes, and those of the other sizes used last.

    Attributes:
        usual: the binding that the executor was made with.
    """

    def __init__(
        self,
        usual: Binding,
        resized: Callable[[Mapping[str, int]], ResolvedGraph],
        bound: Callable[[ResolvedGraph, ProgramMemory], Binding],
        most: Mapping[str, int],
    ) -> None:
        """Begin with the usual sizes.

        Args:
            usual: the program with its usual sizes.
            resized: returns the program with other sizes; a ValidationError says that it does not fit them.
            bound: returns a program bound to memory that shares the persistent values and weights of another.
            most: the largest values of sizes that have limits.
        """
        self.usual = usual
        self._resized = resized
        self._bound = bound
        self._most = most
        self._others: dict[tuple[tuple[str, int], ...], Binding] = {}

    def of(self, sizes: Mapping[str, int], in_use: Collection[Binding] = ()) -> Binding:
        """Return the program bound to the sizes of a step; sizes that are not given have their defaults.

        If there are too many, the least recently used binding that is not one of ``in_use`` is dropped.

        Raises:
            ShapeError: the program does not fit the sizes, or one is above its limit.
        """
        self._need_within_limits(sizes)
        usual = self.usual.resolved.sizes
        key = tuple(sorted((size, extent) for size, extent in sizes.items() if usual[size] != extent))
        if not key:
            return self.usual
        binding = self._others.pop(key, None)
        if binding is None:
            binding = self._made(dict(key))
        self._others[key] = binding
        idle = [key for key, other in self._others.items() if other is not binding and other not in in_use]
        for unused in idle[: max(len(self._others) - MOST_SIZES, 0)]:
            self._others.pop(unused).consumers.close()
        return binding

    def _need_within_limits(self, sizes: Mapping[str, int]) -> None:
        for size, most in self._most.items():
            extent = sizes.get(size, 0)
            if extent > most:
                message = f"size `{size}` is {extent}, and its limit is {most}"
                raise ShapeError(f"{message}: give a smaller value, or raise the limit", code="insert-mismatch")

    def _made(self, sizes: Mapping[str, int]) -> Binding:
        try:
            resolved = self._resized(sizes)
        except ValidationError as error:
            given = ", ".join(f"{size} = {extent}" for size, extent in sizes.items())
            raise ShapeError(f"the program does not fit {given}: {error}", code="insert-mismatch") from error
        return self._bound(resolved, self.usual.memory)

    def __iter__(self) -> Iterator[Binding]:
        yield self.usual
        yield from self._others.values()
