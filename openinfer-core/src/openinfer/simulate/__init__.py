"""The simulator: programs run as they are written, node by node, on any device.

It is correct before it is fast: no statement is reordered, fused or left out, unless the device runs the program whole.
Of its packages, each imports only those below it: `execute`, `consumers`, `compile`, `program`, `state`, `devices`.
What looks into running programs is `openinfer.inspect`, what runs many inputs `openinfer.batch`.
"""

from openinfer.simulate.devices.opening import Device
from openinfer.simulate.execute.executor import Executor
from openinfer.simulate.execute.futures import StepFuture
from openinfer.simulate.execute.node_run import NodeRun
from openinfer.simulate.formatting import format_truncated
from openinfer.simulate.random import Random
from openinfer.simulate.simulator import Simulator
from openinfer.simulate.state.snapshot import Snapshot
from openinfer.simulate.values import Tensor

__all__ = [
    "Device",
    "Executor",
    "NodeRun",
    "Random",
    "Simulator",
    "Snapshot",
    "StepFuture",
    "Tensor",
    "format_truncated",
]
