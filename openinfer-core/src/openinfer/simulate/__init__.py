"""The simulator: programs run as they are written, node by node, on any device."""

from openinfer.simulate.breakpoints import (
    BlockBreakpoint,
    Breakpoint,
    ConditionBreakpoint,
    LineBreakpoint,
    NonFiniteBreakpoint,
    OperatorBreakpoint,
    RangeBreakpoint,
    WriteBreakpoint,
)
from openinfer.simulate.device import Device
from openinfer.simulate.divergence import Comparison, check_comparisons, compare_executors
from openinfer.simulate.executor import Executor
from openinfer.simulate.formatting import format_truncated
from openinfer.simulate.futures import StepFuture
from openinfer.simulate.hits import Hit
from openinfer.simulate.inspector import Inspector, Stop
from openinfer.simulate.memory_use import memory_over_time
from openinfer.simulate.node_run import NodeRun
from openinfer.simulate.random import Random
from openinfer.simulate.simulator import Simulator
from openinfer.simulate.state import Snapshot
from openinfer.simulate.values import Tensor
from openinfer.simulate.watches import Watch

__all__ = [
    "BlockBreakpoint",
    "Breakpoint",
    "Comparison",
    "ConditionBreakpoint",
    "Device",
    "Executor",
    "Hit",
    "Inspector",
    "LineBreakpoint",
    "NodeRun",
    "NonFiniteBreakpoint",
    "OperatorBreakpoint",
    "Random",
    "RangeBreakpoint",
    "Simulator",
    "Snapshot",
    "StepFuture",
    "Stop",
    "Tensor",
    "Watch",
    "WriteBreakpoint",
    "check_comparisons",
    "compare_executors",
    "format_truncated",
    "memory_over_time",
]
