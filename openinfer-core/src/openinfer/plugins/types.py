"""What plugins yield from their hooks: frozen descriptions whose heavy parts are named, not imported.

A heavy part is written ``"module:attribute"`` and is imported when the thing is opened, never when it is listed.
`OpSchema` (`openinfer.ops`) and `DType` (`openinfer.dtypes`) are descriptions too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from openinfer.errors import PluginError
from openinfer.plugins.crossing import Owner, crossing, fault, guarded_in_steps, shown
from openinfer.plugins.process import kept_process
from openinfer.plugins.waiting import naming_slow_import

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall

API_VERSION = 1
"""Version of the hooks and of what `openinfer.plugin` has. A plugin that asks for a greater one is incompatible."""

PASS_STAGES = ("lowered", "plan")
"""Stages for which `openinfer_passes` is called."""


def load_object(path: str, owner: Owner | None = None) -> Any:
    """Import ``"module:attribute"`` and return the attribute.

    Args:
        owner: whose part it is, for OpenInfer's own calls: what the import raises is then a `PluginError` that says so.

    Raises:
        PluginError: the text has another form, or module or attribute cannot be found.
    """
    if owner is None:
        return _imported(path)
    try:
        action = f"import of {path!r}"
        with kept_process(), crossing(owner, action), naming_slow_import(owner, action, path.partition(":")[0]):
            return _imported(path)
    except PluginError as error:
        if error.plugin is not None:
            raise
        raise fault(owner, str(error)) from error


def _imported(path: str) -> Any:
    module_name, colon, attribute = path.partition(":")
    if not colon or not attribute:
        raise PluginError(f"expected 'module:attribute', found {path!r}")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PluginError(f"cannot load {path!r}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """A hand-written kernel of one operator for one device or synth target.

    Attributes:
        op: canonical name of the operator.
        kernel: what the target's backend understands: ``"module:attribute"``, or the object itself.
        dtypes: element types of the inputs that it takes, by name; None for all of the operator's.
        supports: further constraint on a call; None for none.
        cost: among kernels that fit, the lowest is taken.
        epilogue: whether it stores each element of its result once, so that a target that fuses can apply an expression
            there.
        owner: the plugin that offers it; filled in when it is taken in.
    """

    op: str
    kernel: Any
    dtypes: frozenset[str] | None = None
    supports: Callable[[OpCall], bool] | None = None
    cost: float = 1.0
    epilogue: bool = True
    owner: Owner | None = field(default=None, compare=False)

    @property
    def is_foreign(self) -> bool:
        """Whether a third party offers it."""
        return self.owner is not None and self.owner.is_foreign

    def load(self) -> Any:
        """Return the object that ``kernel`` is or names; calls of a third party's are guarded.

        Raises:
            PluginError: the object that it names cannot be imported.
        """
        found = load_object(self.kernel, self.owner) if isinstance(self.kernel, str) else self.kernel
        return self.guarded(found) if callable(found) else found

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the kernel, with its calls guarded if the kernel is a third party's."""
        if self.owner is None or not self.owner.is_foreign:
            return function
        return guarded_in_steps(self.owner, f"kernel {self.title} of {self.op}", function)

    @property
    def title(self) -> str:
        """Where it comes from: its path, or module and name."""
        if isinstance(self.kernel, str):
            return self.kernel
        module, name = (getattr(self.kernel, part, None) for part in ("__module__", "__qualname__"))
        return f"{module}:{name}" if module and name else shown(self.kernel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a device or target can be used here: ``detail`` says what it is, or why not and what to do.

    Attributes:
        hardware: for each piece of hardware, by the name that programs call it, facts by their names: features, limits,
            memory. Only ``openinfer devices --verbose`` and ``--json`` show them.
    """

    available: bool
    detail: str
    hardware: Mapping[str, Mapping[str, bool | int | str]] = field(
        default_factory=dict[str, Mapping[str, bool | int | str]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Where operators run that a device does not support.

    Attributes:
        device: name of the other device.
        dtypes: element types, by name: unsupported operators may run there if one of them is among its inputs and
            outputs, or is what the device cannot compute in within its expression. Whatever else the device does not
            support is an error. None: everything that the device does not support may run there.
    """

    device: str
    dtypes: frozenset[str] | None = None

    def takes(self, call: OpCall, inside: frozenset[str] = frozenset()) -> bool:
        """Whether a call that the device does not support may run on the other one, as far as its types go.

        ``inside`` are types within its expression that the device does not compute in.
        """
        if self.dtypes is None:
            return True
        types = (given for given in (*call.inputs, *call.outputs) if given is not None)
        return bool(self.dtypes & inside) or any(given.dtype.name in self.dtypes for given in types)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device that runs graphs.

    Attributes:
        name: name in ``--device`` and ``with { placement = … }``.
        summary: what it is, one line.
        probe: ``"module:function"`` returning `Availability`; must not raise when something is missing.
        backend: ``"module:class"``, an `openinfer.plugin.DeviceBackend`, called with the ordinal (1 for
            ``vulkan:1``).
        expression_dtypes: element types, by name, that kernels derived from expressions and folds may read, compute in
            and write on this device: all that occur in an expression, but for `bool` in its conditions. None: every one
            of the language.
        optional_dtypes: element types, by name, in which some hardware computes: they may also occur between inputs and
            outputs. Where the hardware that was opened does not have one, a `bind_` method raises
            `openinfer.errors.FeatureMissingError`.
        fallback: where unsupported operators run; None where each of them is an error.
        whole_programs: whether the backend carries out execution plans (it is an
            `openinfer.plugin.ProgramBackend`): a program that no plan holds is refused.
        fitting_programs: whether it carries out execution plans where it can: programs that no plan holds, or that the
            backend refuses, run node by node. Its plans have no layouts and schedules: it chooses these itself.
        state: whether it carries out plans that keep values between steps (it is an
            `openinfer.plugin.StateBackend`).
        computations: whether the backend runs operators that are defined by stages (it is an
            `openinfer.plugin.ComputationBackend`).
        loop_programs: whether the backend runs operators that are defined by loop programs (it is an
            `openinfer.plugin.LoopBackend`).
        functions: ``"module:function"`` from the name of a function of `openinfer.expr.tree` and the types of its
            operands to whether expressions may use it there; None: every function on every type. It does not matter for
            stages that read no input (`openinfer.compute.constants`): those are computed before a program runs.
        replaces: plugin whose device of this name it takes the place of.
    """

    name: str
    summary: str
    probe: str
    backend: str
    expression_dtypes: frozenset[str] | None
    optional_dtypes: frozenset[str] = frozenset()
    fallback: Fallback | None = None
    whole_programs: bool = False
    fitting_programs: bool = False
    state: bool = False
    computations: bool = False
    loop_programs: bool = False
    functions: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthTargetSpec:
    """A target that plans are written out for.

    Attributes:
        name: name in ``--target``.
        summary: what it writes, one line.
        target: ``"module:class"``, an `openinfer.synth.SynthTarget`, called without arguments.
        expression_dtypes: as for a device.
        computations: whether plans may have steps of stages (`openinfer.plan.steps.ComputeStep`).
        loop_programs: whether plans may have steps of loop programs (`openinfer.plan.steps.LoopProgramStep`).
        state: whether plans may keep values between steps (`openinfer.plan.values.StateMemory`).
        profiles: ``"module:mapping"`` from names of devices to functions without arguments, each of which returns the
            document of a device file (`openinfer.DeviceArch`); None where the target has none.
        functions: as for a device.
        probe: ``"module:function"`` returning `Availability`: whether the tools are here that build what the target
            writes, for ``openinfer doctor``; None where it needs none.
    """

    name: str
    summary: str
    target: str
    expression_dtypes: frozenset[str] | None
    computations: bool = False
    loop_programs: bool = False
    state: bool = False
    profiles: str | None = None
    functions: str | None = None
    probe: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec:
    """A profile of a device for a synth target, which may be another plugin's.

    Attributes:
        name: name in ``--arch``.
        synth_target: name of the synth target.
        document: ``"module:function"`` without arguments that returns the document of a device file.
    """

    name: str
    synth_target: str
    document: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSpec:
    """A code of the errors and warnings of a plugin.

    Attributes:
        name: the code, in lower case with hyphens, as its errors carry it.
        text: what it means and what to do, in prose, for ``openinfer explain``.
    """

    name: str
    text: str
    replaces: str | None = None


OptionValue = bool | int | float | str
"""A value of an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """An option of a pass or observer, which users set with ``--plugins-option PART.OPTION=VALUE``.

    Attributes:
        name: keyword argument that the part is called with; an identifier of Python.
        summary: what it does, one line.
        value: its default, whose type is that of the option; in an `Environment` what the user has set.
    """

    name: str
    summary: str
    value: bool | int | float | str


def load_part(path: str, options: Sequence[OptionSpec], owner: Owner) -> Any:
    """Import the function or class of a pass or observer, bound to the values of its options.

    Raises:
        PluginError: as `load_object`.
    """
    part = load_object(path, owner)
    return partial(part, **{option.name: option.value for option in options}) if options else part


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSpec:
    """A rewriting of plans; those of a stage run in order of their names.

    Attributes:
        stage: ``"lowered"``: each operator is a step of its own; ``"plan"``: after operators are fused, before values
            get their places.
        run: ``"module:function"``, an `openinfer.plan.passes.Pass`.
        options: keyword arguments of the function that users can set.
    """

    name: str
    stage: str
    run: str
    options: tuple[OptionSpec, ...] = ()
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFormatSpec:
    """A file format of models.

    Attributes:
        suffixes: file name endings, with the point.
        magic: first bytes of a file; empty when it has none.
        open: ``"module:function"`` from a path to an `openinfer.model.ModelStore`.
        save: ``"module:function"`` that writes to a path an `openinfer.model.ModelContents`; None where the format is
            only read.
        codes: ``"module:mapping"`` from the codes of its findings to what they mean, in prose; None where it has none.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    open: str
    save: str | None = None
    codes: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImporterSpec:
    """A foreign model format that becomes a program with its weights.

    Attributes:
        summary: what it reads, one line.
        suffixes: file name endings, with the point. A suffix that one importer of a third party claims decides.
        magic: first bytes of a file; empty when it has none.
        sniff: ``"module:function"`` from a path to whether the file, or folder, is of the format, for formats that no
            prefix identifies; called where suffixes do not decide. None where ``magic`` and suffixes are enough.
        load: ``"module:function"`` from a path and `openinfer.importers.ImportOptions` to an
            `openinfer.importers.ImportedModel`.
        original: ``"module:function"`` from a path and `ImportOptions` to an
            `openinfer.importers.original.Original`, which runs the model as another program does; None where
            nothing does.
        requantizes: whether it takes another `ImportOptions.requantize` than "f32".
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    load: str
    original: str | None = None
    magic: bytes = b""
    sniff: str | None = None
    requantizes: bool = False
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSpec:
    """A declaration attribute that a plugin understands: it loses the "unknown attribute" warning."""

    name: str
    summary: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec:
    """A way to spread many inputs.

    Attributes:
        name: name in ``--runner``.
        summary: where its workers are, one line.
        runner: ``"module:class"``, an `openinfer.plugin.Runner`, called with the number of workers or None.
    """

    name: str
    summary: str
    runner: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSpec:
    """A listener to trace events.

    Attributes:
        observer: ``"module:class"``, an `openinfer.plugin.Observer`, made for each executor that traces.
        options: keyword arguments of the class that users can set.
    """

    name: str
    summary: str
    observer: str
    options: tuple[OptionSpec, ...] = ()
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A subcommand of ``openinfer``; ``command`` is ``"module:click command"``."""

    name: str
    summary: str
    command: str
    replaces: str | None = None
