"""The simulator: programs run as they are written, node by node, on any device."""

from openinfer.simulate.device import Device
from openinfer.simulate.executor import Executor, NodeRun
from openinfer.simulate.formatting import format_truncated
from openinfer.simulate.random import Random
from openinfer.simulate.simulator import Simulator
from openinfer.simulate.state import Snapshot
from openinfer.simulate.values import Tensor

__all__ = ["Device", "Executor", "NodeRun", "Random", "Simulator", "Snapshot", "Tensor", "format_truncated"]
