"""``cache.increment`` and ``cache.decrement``: a plain persistent scalar plus an amount."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import ExecutionError
from openinfer.expr.counting import counted, counting
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.symbolic import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.bound_calls import BoundCall
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.program.integers import IntReader
    from openinfer.symbolic import IntExpr

MOST_AMOUNTS = 64
"""Maximum number of amounts for which a statement caches its counter."""


def bind_count(backend: DeviceBackend, binder: Binder, target: Buffer, amount: int) -> BoundCall:
    """Return a call that adds ``amount``: integers wrap at their width, floats add.

    A device that does not compute in the type of the scalar leaves it to the host.
    """
    dtype = target.type.dtype
    result = counting(dtype, counted(amount, dtype))
    if binder.computes(dtype):
        return backend.bind_expression(result, [target], target)
    program = compile_program(linearise(result))

    def on_host() -> None:
        value = backend.read(target)
        program([value], value)
        backend.write(target, value)

    return on_host


def counted_by(read: IntReader, amount: IntExpr, bind: Callable[[int], BoundCall]) -> BoundCall:
    """Return a call that counts by the present value of an expression; bound calls are cached by amount.

    Raises:
        ExecutionError: the call does, where the amount is negative (``integer-range``).
    """
    calls: dict[int, BoundCall] = {}

    def run() -> None:
        by = read()
        if by < 0:
            message = f"the amount `{text(amount)}` is {by}: it must not be negative"
            raise ExecutionError(message, code="integer-range")
        if by not in calls:
            if len(calls) >= MOST_AMOUNTS:
                calls.clear()
            calls[by] = bind(by)
        calls[by]()

    return run
