"""Binds a program to memory: its consumers, its code, and the whole program where the device runs that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.ir.concurrency import reached_blocks
from openinfer.simulate.compile.compiler import compile_graph
from openinfer.simulate.compile.placement import OtherDevices
from openinfer.simulate.consumers.runs import ConsumerRuns
from openinfer.simulate.consumers.sharing import sharing
from openinfer.simulate.execute.bindings import Binding
from openinfer.simulate.execute.node_by_node import notes
from openinfer.simulate.execute.whole_program import WholeProgram, whole_program
from openinfer.simulate.logs import LogKind, log
from openinfer.simulate.state.host import Host, Inputs
from openinfer.simulate.state.program_memory import ProgramMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.simulate.compile.placement import Placements
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.execute.sized_programs import SizedPrograms
    from openinfer.simulate.program.items import Code
    from openinfer.simulate.program.recording import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramBinder:
    """What the bindings of an executor have in common.

    Attributes:
        tracing: whether events are recorded.
        limits: how far caches may grow, by their names.
        sized: the program for all sizes within limits; None where each size has a plan of its own.
    """

    model: Model
    backend: DeviceBackend
    binder: Binder
    placements: Placements
    recorder: Recorder
    tracing: bool
    limits: Mapping[str, int] | None
    sized: SizedPrograms | None

    def bind(self, resolved: ResolvedGraph, base: ProgramMemory | None = None) -> Binding:
        """Return a program bound to memory; persistent values and weights are those of ``base``, if there is one.

        Raises:
            ExecutionError: an operator cannot be bound on the device.
            SynthesisError: the device cannot run the program whole, as it has to.
        """
        backend, binder, placements = self.backend, self.binder, self.placements
        memory = ProgramMemory(resolved, self.model, backend, base)
        with np.errstate(all="ignore"):
            shared = sharing(resolved.graph)
            blocks = None if shared is None else reached_blocks(resolved.graph, "entry")
            others = OtherDevices(placements, memory)
            consumers = ConsumerRuns(
                resolved, shared, memory, backend, binder, placements, self.recorder, trace=self.tracing
            )
        inspected = binder.runs_fitting and (self.tracing or self.recorder.timer)
        # With tracing no step runs whole, so that nothing is compiled for all sizes.
        sized = None if self.tracing else self.sized
        made = () if inspected else whole_program(resolved, self.model, backend, binder, memory, self.limits, sized)
        whole = made if isinstance(made, WholeProgram) else None
        reasons = notes(binder.device, made) if isinstance(made, tuple) else ()
        for reason in reasons:
            log(LogKind.TRACE, str(reason))

        def compiled() -> Mapping[str, Code]:
            with np.errstate(all="ignore"):
                return compile_graph(resolved, memory, backend, binder, others, blocks)

        binding = Binding(resolved, memory, compiled, consumers, whole, reasons, Inputs(memory), Host(memory, backend))
        if whole is None or not (binder.runs_fitting or whole.is_opened):
            binding.need_codes()
        return binding
