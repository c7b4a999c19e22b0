"""The simulator: programs run as they are written, node by node, on any device."""

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
