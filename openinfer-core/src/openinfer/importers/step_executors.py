"""The executors that run an imported program step by step, within bounds of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from openinfer.importers.step_sizes import values_nbytes
from openinfer.simulate import Simulator

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from openinfer.importers.imported import ImportedModel
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plugins.environment import Environment
    from openinfer.simulate import Executor

    Array = npt.NDArray[Any]

KEPT_NBYTES = 1 << 26
"""Bytes of values at the sizes of earlier steps that an executor may keep: small programs change sizes as users do."""


class StepExecutors:
    """Executors of one program, of which the next goes on from the state of the one before; one is open at a time.

    An executor keeps the values of the sizes that it has run. Another takes over where they are more than
    `KEPT_NBYTES`.
    """

    def __init__(
        self,
        imported: ImportedModel,
        limits: Mapping[str, int],
        environment: Environment,
        begin: Mapping[str, Array],
    ) -> None:
        """Begin before the first step.

        Args:
            limits: how large sizes of steps may be, and how far indices of caches may grow.
            begin: what states hold, by the names of the program.
        """
        self._imported, self._limits, self._environment = imported, limits, environment
        self._begin = begin
        self._executor: Executor | None = None
        self._nbytes: dict[tuple[int, ...], int] = {}

    def at(self, program: ResolvedGraph) -> Executor:
        """Return the executor for a step with the sizes of a program."""
        sizes = tuple(program.sizes.values())
        others = sum(nbytes for key, nbytes in self._nbytes.items() if key != sizes)
        before = None if self._executor is None else self._executor.snapshot()
        if before is not None and others > KEPT_NBYTES:
            self.close()
        if self._executor is None:
            self._executor = self._opened(program.sizes)
            self._executor.restore(self._begin if before is None else before)
        self._nbytes[sizes] = values_nbytes(program)
        return self._executor

    def first(self) -> Executor:
        """Return one more executor before the first step, at the least sizes."""
        executor = self._opened(self._imported.model.sizevars)
        executor.restore(self._begin)
        return executor

    def _opened(self, sizes: Mapping[str, int]) -> Executor:
        return Simulator(
            self._imported.model,
            self._imported.graph,
            sizes=sizes,
            limits=self._limits,
            environment=self._environment,
        ).make_executor()

    def close(self) -> None:
        """Close the executor, and let its memory go."""
        if self._executor is not None:
            self._executor.close()
        self._executor = None
        self._nbytes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
