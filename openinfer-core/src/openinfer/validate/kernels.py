"""Which device carries out each operator of a graph: the program's, one that a hint names, or one to fall back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import ComputationError
from openinfer.errors import PluginError
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.selection import KernelTable, kernel_table, missing_kernels
from openinfer.validate.op_inference import stand_in
from openinfer.validate.placement import hinted_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedOp
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import Missing
    from openinfer.plugins.types import DeviceSpec


def check_kernels(
    graph: Graph,
    ops: Mapping[int, ResolvedOp],
    device: str,
    environment: Environment,
    findings: Findings,
    *,
    placement: bool = False,
) -> dict[int, str]:
    """Record every operator for which its device has no kernel, expression or decomposition.

    It is a warning if such operators fall back to another device, and otherwise an error.

    Args:
        placement: whether operators run on the devices that hints name. Operators on unknown devices are not
            checked.

    Returns:
        The devices by node index of operators that do not run on ``device``.

    Raises:
        DeviceError: ``device`` is unknown.
    """
    environment.device(_kind(device))
    hinted: Mapping[int, str] = hinted_devices(graph) if placement else {}
    kernels = _Kernels(environment, findings)
    placed: dict[int, str] = {}
    for block, node in graph.nodes():
        op = ops.get(node.index)
        if op is None:
            continue
        with findings.at(block, node):
            chosen = kernels.device_for(op, hinted.get(node.index, device))
        if chosen != device:
            placed[node.index] = chosen
    return placed


def call_of_node(op: ResolvedOp, schema: OpSchema) -> OpCall:
    """Return the call of a node with its declared types, and inferred ones for results that it leaves out.

    Settings known only at run time are absent, and have stand-ins where results are inferred; what cannot be inferred
    with these is left out.
    """
    outputs, late = op.output_types, op.runtime_settings
    stand_ins = {spec.name: stand_in(spec, late[spec.name]) for spec in schema.settings if spec.name in late}
    try:
        made = call_of(schema, op.input_types, {**op.settings, **stand_ins}, outputs).outputs
        # Kernels of counted results have room for the most rows, whatever their variables are declared as.
        outputs = made if schema.counted else (*outputs, *made[len(outputs) :])
    except _passed_over(op):
        pass
    return OpCall(op=op.op, inputs=op.input_types, outputs=outputs, settings=op.settings)


def _passed_over(op: ResolvedOp) -> tuple[type[Exception], ...]:
    """Return what rules, kernels and definitions may raise of an operator that is selected again when it runs.

    Those of plugins may need a setting that is known only then; stages fit declared types only where shapes are known.
    """
    waiting = (OpTypeError, ComputationError)
    return (*waiting, KeyError, PluginError) if op.runtime_settings else waiting


def _kind(device: str) -> str:
    """Return the name of a device without its number."""
    return device.partition(":")[0]


class _Kernels:
    """The kernels of the devices of a program."""

    def __init__(self, environment: Environment, findings: Findings) -> None:
        self._environment = environment
        self._findings = findings
        self._tables: dict[str, KernelTable] = {}
        # A model repeats a few operators on equal types thousands of times.
        self._carried_out: set[tuple[object, ...]] = set()

    def device_for(self, op: ResolvedOp, device: str) -> str:
        """Return the device that carries out an operator placed on ``device``, and report what that does not do."""
        spec = self._environment.devices.get(_kind(device))
        missing = [] if spec is None else self._missing(op, spec)
        if spec is None or not missing:
            return device
        if spec.fallback is None or not all(kernel.is_taken_by(spec.fallback) for kernel in missing):
            for kernel in missing:
                self._findings.error("kernel-missing", kernel.reason)
            return device
        return self._fallen_back(op, spec, spec.fallback.device, _reasons(missing)) or device

    def _fallen_back(self, op: ResolvedOp, spec: DeviceSpec, name: str, reason: str) -> str | None:
        """Return the name of the device to fall back to, if it carries the operator out."""
        other = self._environment.devices.get(name)
        if other is None:
            hint = f"install a package that offers the device {name}, or unblock it: see `openinfer plugins`"
            message = f"{reason}, and no loaded plugin offers {name}, to which {spec.name} leaves it"
            self._findings.error("kernel-missing", message, hint=hint)
            return None
        missing = self._missing(op, other)
        if missing:
            message = f"{reason}, and {name}, to which {spec.name} leaves it, cannot run it either: {_reasons(missing)}"
            self._findings.error("kernel-missing", message)
            return None
        self._findings.warn(
            "kernel-fallback", f"{reason}: it runs on {name}, and its values are brought there and back"
        )
        return name

    def _missing(self, op: ResolvedOp, spec: DeviceSpec) -> list[Missing]:
        key = None if op.runtime_settings else _key(op, spec)
        if key in self._carried_out:
            return []
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = kernel_table(self._environment, spec)
        try:
            call = call_of_node(op, self._environment.op(op.op))
            missing = list(missing_kernels(self._environment, table, call, passed_over=_passed_over(op)))
        except PluginError as error:
            # A kernel that refuses shapes is selected again when the operator runs: those known here may be stand-ins.
            if not isinstance(error.__cause__, OpTypeError):
                self._findings.fault(error)
            return []
        if key is not None and not missing:
            self._carried_out.add(key)
        return missing


def _key(op: ResolvedOp, spec: DeviceSpec) -> tuple[object, ...]:
    """Return what is equal for calls that a device carries out alike."""
    # Texts of settings tell 1 from 1.0 and True.
    return (spec.name, op.op, op.input_types, op.output_types, repr(sorted(op.settings.items())))


def _reasons(missing: list[Missing]) -> str:
    return "; ".join(dict.fromkeys(kernel.reason for kernel in missing))
