"""What authors of plugins import: hooks, descriptions, operators, devices, synth targets.

Everything is imported on first use, so that a plugin module that imports its description types only stays
light. Names that are not listed here belong to OpenInfer itself and may change in any release.

`API_VERSION` is the number of these names and of the hooks. It grows when one of them goes, or changes so that a plugin
that was right no longer is: a plugin whose ``OPENINFER_API`` is greater is incompatible, one with a lower number is
loaded as long as this module still carries what that number promised. Names may be added without a new number.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer import codegen, compute, dims, loops
    from openinfer.affine import Index, Quotient, Remainder, Var, Within
    from openinfer.batch import Job, Runner, Session, Worker, WorkerLostError
    from openinfer.codegen import Notation, host_statements, integer_text, loop_program, operands_of
    from openinfer.compute import Builder, Computation, Stage
    from openinfer.compute import Operand as StageOperand
    from openinfer.compute import Value as StageValue
    from openinfer.compute.elementwise import array_expression
    from openinfer.dims import Space
    from openinfer.dtypes import BF16, BOOL, BUILTIN, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType, Kind
    from openinfer.errors import (
        DeviceError,
        ExecutionError,
        FeatureMissingError,
        KernelMissingError,
        MissingDependencyError,
        ModelError,
        ModelImportError,
        OpenInferError,
        PluginError,
        PluginStepError,
        SynthesisError,
        UnsupportedError,
    )
    from openinfer.events import TraceEvent
    from openinfer.expr import Expr, Instruction, Program, linearise, tree
    from openinfer.expr.numpy_renderer import compile_program
    from openinfer.importers import ImportedModel, ImportOptions, ImportReport
    from openinfer.importers.original import DoubtedOriginal, Original
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.loops import Kernel
    from openinfer.loops.reading import parse_kernel
    from openinfer.model import (
        MetadataValue,
        ModelContents,
        ModelStore,
        Quantisation,
        QuantisedStore,
        VarInfo,
        save_model,
    )
    from openinfer.ops import (
        Composite,
        Compute,
        Elementwise,
        Fold,
        InputSpec,
        Loops,
        Operand,
        OpExample,
        OpSchema,
        OpTypeError,
        Primitive,
        Reduction,
        Refusal,
        Required,
        SettingSpec,
        SettingType,
    )
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Decomposer
    from openinfer.plan import ExecutionPlan, steps, values
    from openinfer.plan.passes import Pass
    from openinfer.plugins.crossing import PluginWarning
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.hookspecs import hookimpl
    from openinfer.plugins.loader import load_environment
    from openinfer.plugins.types import (
        API_VERSION,
        AttributeSpec,
        Availability,
        CodeSpec,
        CommandSpec,
        DeviceSpec,
        Fallback,
        ImporterSpec,
        KernelSpec,
        ModelFormatSpec,
        ObserverSpec,
        OptionSpec,
        PassSpec,
        ProfileSpec,
        RunnerSpec,
        SynthTargetSpec,
        load_object,
    )
    from openinfer.scalars import Scalar, encode_bits
    from openinfer.scratch import scratch_directory
    from openinfer.simulate.devices.backend import (
        ComputationBackend,
        DeferredFaultBackend,
        DeviceBackend,
        LendingBackend,
        LoopBackend,
        TimedBackend,
    )
    from openinfer.simulate.devices.derived import bind_expression_computation, bind_fold_computation
    from openinfer.simulate.devices.evaluator import bind_evaluator
    from openinfer.simulate.devices.programs import Fault, ProgramBackend, StateBackend, StateProgram
    from openinfer.simulate.devices.storage import filled
    from openinfer.simulate.execute.observers import Observer
    from openinfer.synth import Bundle, RunResult, SynthTarget
    from openinfer.synth.arrays import file_form, from_bytes, given_arrays
    from openinfer.synth.c_host.toolchain import run_tool
    from openinfer.synth.c_text import comment
    from openinfer.synth.raw_runs import read_run, write_run

__all__ = [
    "API_VERSION",
    "AttributeSpec",
    "Availability",
    "BF16",
    "BOOL",
    "BUILTIN",
    "Builder",
    "Bundle",
    "CodeSpec",
    "CommandSpec",
    "Composite",
    "Computation",
    "ComputationBackend",
    "Compute",
    "DType",
    "Decomposer",
    "DeferredFaultBackend",
    "DeviceBackend",
    "DeviceError",
    "DeviceSpec",
    "DoubtedOriginal",
    "Elementwise",
    "Environment",
    "ExecutionError",
    "ExecutionPlan",
    "Expr",
    "F16",
    "F32",
    "F64",
    "Fallback",
    "Fault",
    "FeatureMissingError",
    "Fold",
    "I16",
    "I32",
    "I64",
    "I8",
    "ImportOptions",
    "ImportReport",
    "ImportedModel",
    "ImporterSpec",
    "Index",
    "InputSpec",
    "Instruction",
    "Job",
    "Kernel",
    "KernelMissingError",
    "KernelSpec",
    "Kind",
    "LendingBackend",
    "LoopBackend",
    "Loops",
    "MetadataValue",
    "MissingDependencyError",
    "ModelContents",
    "ModelError",
    "ModelFormatSpec",
    "ModelImportError",
    "ModelStore",
    "Notation",
    "Observer",
    "ObserverSpec",
    "OpCall",
    "OpExample",
    "OpSchema",
    "OpTypeError",
    "OpenInferError",
    "Operand",
    "OptionSpec",
    "Original",
    "Pass",
    "PassSpec",
    "PluginError",
    "PluginStepError",
    "PluginWarning",
    "Primitive",
    "ProfileSpec",
    "Program",
    "ProgramBackend",
    "Quantisation",
    "QuantisedStore",
    "Quotient",
    "Reduction",
    "Refusal",
    "Remainder",
    "Required",
    "RunResult",
    "Runner",
    "RunnerSpec",
    "Scalar",
    "Session",
    "SettingSpec",
    "SettingType",
    "SettingValue",
    "Space",
    "Stage",
    "StageOperand",
    "StageValue",
    "StateBackend",
    "StateProgram",
    "SynthTarget",
    "SynthTargetSpec",
    "SynthesisError",
    "TensorType",
    "TimedBackend",
    "TraceEvent",
    "U16",
    "U32",
    "U64",
    "U8",
    "UnsupportedError",
    "Var",
    "VarInfo",
    "Within",
    "Worker",
    "WorkerLostError",
    "array_expression",
    "bind_evaluator",
    "bind_expression_computation",
    "bind_fold_computation",
    "codegen",
    "comment",
    "compile_program",
    "compute",
    "dims",
    "encode_bits",
    "file_form",
    "filled",
    "from_bytes",
    "given_arrays",
    "hookimpl",
    "host_statements",
    "integer_text",
    "linearise",
    "load_environment",
    "load_object",
    "loop_program",
    "loops",
    "operands_of",
    "parse_kernel",
    "read_run",
    "run_tool",
    "save_model",
    "scratch_directory",
    "steps",
    "tree",
    "values",
    "write_run",
]

_MODULES = {
    "API_VERSION": "openinfer.plugins.types",
    "AttributeSpec": "openinfer.plugins.types",
    "Availability": "openinfer.plugins.types",
    "BF16": "openinfer.dtypes",
    "BOOL": "openinfer.dtypes",
    "BUILTIN": "openinfer.dtypes",
    "Builder": "openinfer.compute",
    "Bundle": "openinfer.synth",
    "CodeSpec": "openinfer.plugins.types",
    "CommandSpec": "openinfer.plugins.types",
    "Composite": "openinfer.ops",
    "Computation": "openinfer.compute",
    "ComputationBackend": "openinfer.simulate.devices.backend",
    "Compute": "openinfer.ops",
    "DType": "openinfer.dtypes",
    "Decomposer": "openinfer.ops.schema",
    "DeferredFaultBackend": "openinfer.simulate.devices.backend",
    "DeviceBackend": "openinfer.simulate.devices.backend",
    "DeviceError": "openinfer.errors",
    "DeviceSpec": "openinfer.plugins.types",
    "DoubtedOriginal": "openinfer.importers.original",
    "Elementwise": "openinfer.ops",
    "Environment": "openinfer.plugins.environment",
    "ExecutionError": "openinfer.errors",
    "ExecutionPlan": "openinfer.plan",
    "Expr": "openinfer.expr",
    "F16": "openinfer.dtypes",
    "F32": "openinfer.dtypes",
    "F64": "openinfer.dtypes",
    "Fallback": "openinfer.plugins.types",
    "Fault": "openinfer.simulate.devices.programs",
    "FeatureMissingError": "openinfer.errors",
    "Fold": "openinfer.ops",
    "I16": "openinfer.dtypes",
    "I32": "openinfer.dtypes",
    "I64": "openinfer.dtypes",
    "I8": "openinfer.dtypes",
    "ImportOptions": "openinfer.importers",
    "ImportReport": "openinfer.importers",
    "ImportedModel": "openinfer.importers",
    "ImporterSpec": "openinfer.plugins.types",
    "Index": "openinfer.affine",
    "InputSpec": "openinfer.ops",
    "Instruction": "openinfer.expr",
    "Job": "openinfer.batch",
    "Kernel": "openinfer.loops",
    "KernelMissingError": "openinfer.errors",
    "KernelSpec": "openinfer.plugins.types",
    "Kind": "openinfer.dtypes",
    "LendingBackend": "openinfer.simulate.devices.backend",
    "LoopBackend": "openinfer.simulate.devices.backend",
    "Loops": "openinfer.ops",
    "MetadataValue": "openinfer.model",
    "MissingDependencyError": "openinfer.errors",
    "ModelContents": "openinfer.model",
    "ModelError": "openinfer.errors",
    "ModelFormatSpec": "openinfer.plugins.types",
    "ModelImportError": "openinfer.errors",
    "ModelStore": "openinfer.model",
    "Notation": "openinfer.codegen",
    "Observer": "openinfer.simulate.execute.observers",
    "ObserverSpec": "openinfer.plugins.types",
    "OpCall": "openinfer.ops.calls",
    "OpExample": "openinfer.ops",
    "OpSchema": "openinfer.ops",
    "OpTypeError": "openinfer.ops",
    "OpenInferError": "openinfer.errors",
    "Operand": "openinfer.ops",
    "OptionSpec": "openinfer.plugins.types",
    "Original": "openinfer.importers.original",
    "Pass": "openinfer.plan.passes",
    "PassSpec": "openinfer.plugins.types",
    "PluginError": "openinfer.errors",
    "PluginStepError": "openinfer.errors",
    "PluginWarning": "openinfer.plugins.crossing",
    "Primitive": "openinfer.ops",
    "ProfileSpec": "openinfer.plugins.types",
    "Program": "openinfer.expr",
    "ProgramBackend": "openinfer.simulate.devices.programs",
    "Quantisation": "openinfer.model",
    "QuantisedStore": "openinfer.model",
    "Quotient": "openinfer.affine",
    "Reduction": "openinfer.ops",
    "Refusal": "openinfer.ops",
    "Remainder": "openinfer.affine",
    "Required": "openinfer.ops",
    "RunResult": "openinfer.synth",
    "Runner": "openinfer.batch",
    "RunnerSpec": "openinfer.plugins.types",
    "Scalar": "openinfer.scalars",
    "Session": "openinfer.batch",
    "SettingSpec": "openinfer.ops",
    "SettingType": "openinfer.ops",
    "SettingValue": "openinfer.ir.resolved",
    "Space": "openinfer.dims",
    "Stage": "openinfer.compute",
    "StateBackend": "openinfer.simulate.devices.programs",
    "StateProgram": "openinfer.simulate.devices.programs",
    "SynthTarget": "openinfer.synth",
    "SynthTargetSpec": "openinfer.plugins.types",
    "SynthesisError": "openinfer.errors",
    "TensorType": "openinfer.ir.types",
    "TimedBackend": "openinfer.simulate.devices.backend",
    "TraceEvent": "openinfer.events",
    "U16": "openinfer.dtypes",
    "U32": "openinfer.dtypes",
    "U64": "openinfer.dtypes",
    "U8": "openinfer.dtypes",
    "UnsupportedError": "openinfer.errors",
    "Var": "openinfer.affine",
    "VarInfo": "openinfer.model",
    "Within": "openinfer.affine",
    "Worker": "openinfer.batch",
    "WorkerLostError": "openinfer.batch",
    "array_expression": "openinfer.compute.elementwise",
    "bind_evaluator": "openinfer.simulate.devices.evaluator",
    "bind_expression_computation": "openinfer.simulate.devices.derived",
    "bind_fold_computation": "openinfer.simulate.devices.derived",
    "comment": "openinfer.synth.c_text",
    "compile_program": "openinfer.expr.numpy_renderer",
    "encode_bits": "openinfer.scalars",
    "file_form": "openinfer.synth.arrays",
    "filled": "openinfer.simulate.devices.storage",
    "from_bytes": "openinfer.synth.arrays",
    "given_arrays": "openinfer.synth.arrays",
    "hookimpl": "openinfer.plugins.hookspecs",
    "host_statements": "openinfer.codegen",
    "integer_text": "openinfer.codegen",
    "linearise": "openinfer.expr",
    "load_environment": "openinfer.plugins.loader",
    "load_object": "openinfer.plugins.types",
    "loop_program": "openinfer.codegen",
    "operands_of": "openinfer.codegen",
    "parse_kernel": "openinfer.loops.reading",
    "read_run": "openinfer.synth.raw_runs",
    "run_tool": "openinfer.synth.c_host.toolchain",
    "save_model": "openinfer.model",
    "scratch_directory": "openinfer.scratch",
    "write_run": "openinfer.synth.raw_runs",
}

_RENAMED = {
    "StageOperand": ("openinfer.compute", "Operand"),
    "StageValue": ("openinfer.compute", "Value"),
}
"""Names of the stage builder that others have here too."""

_WHOLE = {
    "codegen": "openinfer.codegen",
    "compute": "openinfer.compute",
    "dims": "openinfer.dims",
    "loops": "openinfer.loops",
    "steps": "openinfer.plan.steps",
    "tree": "openinfer.expr.tree",
    "values": "openinfer.plan.values",
}
"""Modules, whose members are used under their names: `tree.add`."""


def __getattr__(name: str) -> Any:
    value = _fetched(name)
    globals()[name] = value
    return value


def _fetched(name: str) -> Any:
    if name in _WHOLE:
        return import_module(_WHOLE[name])
    module, attribute = _RENAMED.get(name, (_MODULES.get(name), name))
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
