"""Tools that look into running programs: breakpoints, watches, comparisons of devices, statistics and benchmarks.

They use an `openinfer.Executor` as any user could: through its methods, its events and its frames.
"""

from openinfer.inspect.breakpoints import (
    BlockBreakpoint,
    Breakpoint,
    ConditionBreakpoint,
    LineBreakpoint,
    NonFiniteBreakpoint,
    OperatorBreakpoint,
    RangeBreakpoint,
    WriteBreakpoint,
)
from openinfer.inspect.divergence import Comparison, check_comparisons, compare_executors
from openinfer.inspect.hits import Hit
from openinfer.inspect.inspector import Inspector, Stop
from openinfer.inspect.memory_use import memory_over_time
from openinfer.inspect.watches import Watch

__all__ = [
    "BlockBreakpoint",
    "Breakpoint",
    "Comparison",
    "ConditionBreakpoint",
    "Hit",
    "Inspector",
    "LineBreakpoint",
    "NonFiniteBreakpoint",
    "OperatorBreakpoint",
    "RangeBreakpoint",
    "Stop",
    "Watch",
    "WriteBreakpoint",
    "check_comparisons",
    "compare_executors",
    "memory_over_time",
]
