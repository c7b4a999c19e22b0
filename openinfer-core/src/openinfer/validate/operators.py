"""Operator statements: inputs, settings and outputs against the schema (``specification: runtime.checks.7``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from openinfer.diagnostics import Related
from openinfer.errors import PluginError
from openinfer.ir.places import around, part, setting_value_place
from openinfer.ir.resolved import Mode, ResolvedOp, RuntimeInts, RuntimeScalar, Storage
from openinfer.ir.text import call_text
from openinfer.ir.values import Number, VarValue
from openinfer.ops.applying import call_of
from openinfer.ops.counting import counted_places
from openinfer.ops.schema import OpTypeError, Required, SettingType
from openinfer.validate.numbers import NumberTypeError, number_element
from openinfer.validate.op_inference import DependsOnDeclarationError, stand_in
from openinfer.validate.references import readable_type
from openinfer.validate.settings import SettingError, setting_value
from openinfer.validate.signature import Matched, match_signature
from openinfer.validate.stored_scales import with_stored_scales

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from openinfer.ir.findings import Findings
    from openinfer.ir.nodes import Op
    from openinfer.ir.places import Place
    from openinfer.ir.resolved import ResolvedVar, SettingValue, UnresolvedSetting
    from openinfer.ir.types import TensorType
    from openinfer.ir.values import Ref
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.validate.scope import Scope


def resolve_op(op: Op, index: int, environment: Environment, scope: Scope, findings: Findings) -> ResolvedOp | None:
    """Return the operator of a node with schema rules applied; None after errors were recorded."""
    matched = scope.matched.get(index)
    if matched is None:
        matched = match_signature(op, environment, findings, lambda ref: scope.type_of(ref.name))
    return None if matched is None else _Resolution(op, matched, scope, findings, scope.calls.get(index)).result()


@dataclass
class _Resolution:
    """One operator statement being checked against its schema.

    Attributes:
        inferred: its call, as types were inferred from it.
    """

    op: Op
    matched: Matched
    scope: Scope
    findings: Findings
    inferred: OpCall | None = None

    @property
    def schema(self) -> OpSchema:
        return self.matched.schema

    def result(self) -> ResolvedOp | None:
        return self._plain() or self._checked_result()

    def _plain(self) -> ResolvedOp | None:
        """Return the operator where inference has settled everything: it reads and makes plain values, and no settings.

        A program of thousands of statements without declarations consists of such.
        """
        call, inputs, variables = self.inferred, self.matched.inputs, self.scope.variables
        if call is None or self.matched.settings or self.schema.stored_scales is not None:
            return None
        if any(ref is None or ref.indices or ref.name in self.scope.indices for ref in inputs):
            return None
        operands = [variables.get(ref.name) for ref in inputs if ref is not None]
        made = [variables.get(name) for name in self.op.outputs]
        plain = [variable for variable in (*operands, *made) if variable is not None and not variable.varying]
        if len(plain) < len(operands) + len(made) or any(variable.storage is Storage.PERSISTENT for variable in plain):
            return None
        read = {variable.name for variable in plain[: len(operands)]}
        if any(not variable.inferred or variable.name in read for variable in plain[len(operands) :]):
            return None
        types = tuple(variable.type for variable in plain)
        if types[: len(operands)] != call.inputs or types[len(operands) :] != call.outputs:
            return None
        return ResolvedOp(
            op=self.schema.name,
            inputs=inputs,
            outputs=self.op.outputs,
            input_types=call.inputs,
            output_types=call.outputs,
            settings=call.settings,
            runtime_settings={},
        )

    def _checked_result(self) -> ResolvedOp | None:
        before = len(self.findings.items)
        inputs = self.matched.inputs
        with self._about(inputs):
            settings = self._settings()
            try:
                inputs, settings = with_stored_scales(self.schema, inputs, settings, self.scope)
            except OpTypeError as error:
                self._record(error)
                return None
            except PluginError as error:
                self.findings.fault(error, self.findings.places.name)
                return None
        types = [None if ref is None else self._read(ref) for ref in inputs]
        variable_types = [
            writable_type(name, self.scope, self.findings, part(self.findings.places.writes, position))
            for position, name in enumerate(self.op.outputs)
        ]
        outputs = [type_ for type_ in variable_types if type_ is not None]
        if self.findings.errors_since(before):
            return None
        self._report_untyped_numbers(inputs, types)
        if self.findings.errors_since(before):
            return None
        if self._depends_on_mistake(inputs, types, outputs):
            self._report_cannot_infer(inputs, types, settings)
            return None
        with self._about(inputs):
            return self._checked(inputs, types, settings, outputs)

    def _report_untyped_numbers(self, inputs: Sequence[Ref | None], types: Sequence[TensorType | None]) -> None:
        """Record why the first number has no type, where all other inputs have one."""
        numbers = [position for position, ref in enumerate(inputs) if isinstance(ref, Number)]
        untyped = {position for position, ref in enumerate(inputs) if ref is not None and types[position] is None}
        if not untyped <= set(numbers):
            return
        for position in sorted(untyped):
            try:
                number_element(position, self.schema, inputs, types)
            except NumberTypeError as error:
                with self._about(inputs):
                    ref = inputs[position]
                    place = None if ref is None else self._places.get(ref)
                    self.findings.error(error.code, str(error), place=place, hint=error.hint)
                return

    def _about(self, inputs: Sequence[Ref | None]) -> AbstractContextManager[None]:
        """Have errors name the operator with its inputs."""
        type_of = self.scope.type_of
        refs = [ref for ref in inputs if ref is not None]
        return self.findings.about(lambda: call_text(self.schema.name, ((r, type_of(r.name)) for r in refs)))

    def _read(self, ref: Ref) -> TensorType | None:
        return readable_type(ref, self.scope, self.findings, self._places.get(ref))

    @cached_property
    def _places(self) -> Mapping[Ref, Place]:
        """Where each input is written first: among the inputs, or as a setting that has the name of one."""
        written, settings = self.findings.places, self.op.settings
        named = {
            value.ref: written.settings[name][1]
            for name, value in settings.items()
            if isinstance(value, VarValue) and name in written.settings
        }
        # The last entry of a key stays, so what comes first is put in last.
        from_last = zip(reversed(self.op.inputs), reversed(written.reads), strict=False)
        return {**named, **dict(from_last)}

    def _depends_on_mistake(
        self, inputs: Sequence[Ref | None], types: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> bool:
        """Whether a variable here has no type because its declaration is wrong, which is reported there."""
        unknown = any(ref is not None and type_ is None for ref, type_ in zip(inputs, types, strict=True))
        return unknown or len(outputs) < len(self.op.outputs)

    def _report_cannot_infer(
        self,
        inputs: Sequence[Ref | None],
        types: Sequence[TensorType | None],
        settings: Mapping[str, SettingValue | UnresolvedSetting],
    ) -> None:
        """Record why an output without a declaration has no type, where all inputs have one."""
        missing = [
            name for name in self.op.outputs if name not in self.scope.variables and name in self.scope.inferable
        ]
        if not missing or any(ref is not None and kind is None for ref, kind in zip(inputs, types, strict=True)):
            return
        place = part(self.findings.places.writes, self.op.outputs.index(missing[0]))
        hint = f"declare it in front: `assign {missing[0]}: DTYPE[DIMS];`"
        error = self.scope.uninferred.get(missing[0])
        if isinstance(error, PluginError):
            self.findings.fault(error, self.findings.places.name)
        elif isinstance(error, DependsOnDeclarationError):
            message = f"the type of `{missing[0]}` does not follow from {self.schema.name}: it yields what is declared"
            self.findings.error("cannot-infer", message, place=place, hint=hint)
        elif isinstance(error, OpTypeError) and not self._waits(inputs, settings):
            with self._about(inputs):
                self._record(error, self._sized(inputs, error.code))
        elif error is not None:
            message = f"the type of `{missing[0]}` is known only when the program runs ({error})"
            self.findings.error("cannot-infer", message, place=place, hint=hint)

    def _waits(self, inputs: Sequence[Ref | None], settings: Mapping[str, SettingValue | UnresolvedSetting]) -> bool:
        """Whether only the running program knows a shape or a setting here."""
        return self._varies(inputs) or any(isinstance(v, RuntimeInts | RuntimeScalar) for v in settings.values())

    def _settings(self) -> dict[str, SettingValue | UnresolvedSetting]:
        values: dict[str, SettingValue | UnresolvedSetting] = {}
        for name, value in self.matched.settings.items():
            spec = self.schema.setting(name)
            written = self.matched.written[name]
            try:
                if spec is not None:
                    values[name] = setting_value(replace(spec, name=written), value, self.scope)
            except SettingError as error:
                place = setting_value_place(self.findings.places, written)
                if error.word is not None:
                    place = self.findings.place_of_word(error.word, place)
                self.findings.error(error.code, str(error), place=place, hint=error.hint)
        if self.findings.strict:
            self._demand_constants(values)
        return values

    def _demand_constants(self, values: Mapping[str, SettingValue | UnresolvedSetting]) -> None:
        """Strict mode takes settings from constants only (``specification: language.settings.6``)."""
        for name, value in values.items():
            variable = self.scope.variables.get(value.name) if isinstance(value, RuntimeScalar) else None
            if variable is not None and variable.storage is not Storage.CONSTANT:
                written = self.matched.written[name]
                message = f"setting `{written}` reads `{variable.name}`, which is not constant"
                place = setting_value_place(self.findings.places, written)
                self.findings.error("setting-type", message, place=place, decl=variable.decl)

    def _checked(
        self,
        inputs: Sequence[Ref | None],
        types: Sequence[TensorType | None],
        settings: Mapping[str, SettingValue | UnresolvedSetting],
        outputs: Sequence[TensorType],
    ) -> ResolvedOp | None:
        if not self._aliasing_fits(inputs, settings):
            return None
        at_planning = {n: v for n, v in settings.items() if not isinstance(v, RuntimeScalar | RuntimeInts)}
        later = {n: v for n, v in settings.items() if isinstance(v, RuntimeScalar | RuntimeInts)}
        varying = self._varies(inputs)
        filled = self._filled(inputs, types, at_planning, later, outputs, varying=varying)
        if filled is None:
            return None
        return ResolvedOp(
            op=self.schema.name,
            inputs=tuple(inputs),
            outputs=self.op.outputs,
            input_types=tuple(types),
            output_types=tuple(outputs),
            settings=filled,
            runtime_settings=later,
            mode=self._mode(inputs, filled),
        )

    def _varies(self, inputs: Sequence[Ref | None]) -> bool:
        names = [ref.name for ref in inputs if ref is not None] + list(self.op.outputs)
        return any(name in self.scope.variables and self.scope.variables[name].varying for name in names)

    def _filled(
        self,
        inputs: Sequence[Ref | None],
        types: Sequence[TensorType | None],
        at_planning: Mapping[str, SettingValue],
        later: Mapping[str, UnresolvedSetting],
        outputs: Sequence[TensorType],
        *,
        varying: bool,
    ) -> dict[str, SettingValue] | None:
        """Return the settings with defaults filled in, after checking what the operator infers from the types."""
        specs = [spec for spec in self.schema.settings if spec.name in later]
        shapes_known = not varying and all(spec.type in _SHAPELESS for spec in specs)
        stand_ins = {spec.name: stand_in(spec, later[spec.name]) for spec in specs}
        try:
            settings = {**at_planning, **stand_ins}
            call = self._as_inferred(types, settings) or call_of(self.schema, types, settings, outputs)
        except PluginError as error:
            if later:
                # A rule may need a setting that is known only when the operator runs.
                return {**_defaults(self.schema), **at_planning}
            self.findings.fault(error, self.findings.places.name)
            return None
        except OpTypeError as error:
            if not shapes_known and error.code in _LATER:
                return {**_defaults(self.schema), **at_planning}
            self._record(error, self._sized(inputs, error.code))
            return None
        if not self._outputs_fit(call.outputs, outputs, shapes=shapes_known):
            return None
        return {name: value for name, value in call.settings.items() if name not in later}

    def _as_inferred(self, types: Sequence[TensorType | None], settings: Mapping[str, SettingValue]) -> OpCall | None:
        """Return the call that was inferred, if it is of these types and settings: its rule saw no declarations."""
        call = self.inferred
        if call is None or call.inputs != tuple(types) or not settings.items() <= call.settings.items():
            return None
        return call

    def _outputs_fit(self, inferred: Sequence[TensorType], declared: Sequence[TensorType], *, shapes: bool) -> bool:
        for position, (wanted, own) in enumerate(zip(inferred, declared, strict=False)):
            name, place = self.op.outputs[position], part(self.findings.places.writes, position)
            variable = self.scope.variables[name]
            if wanted.dtype is not own.dtype:
                message = f"yields {wanted.dtype}, `{name}` is {_declared(variable)}{own}"
                sized = (variable,) if variable.inferred else ()
                self.findings.error(
                    "output-dtype", message, place=place, decl=variable.decl, sized=sized, is_predicate=True
                )
                return False
            counts = position in counted_places(self.schema) and len(wanted.shape) != len(own.shape)
            if (shapes and wanted.shape != own.shape) or counts:
                message = f"yields {wanted}, `{name}` is {_declared(variable)}{own}"
                sized = (*self._sized(self.matched.inputs, "shape-mismatch"), variable)
                self.findings.error("shape-mismatch", message, place=place, sized=sized, is_predicate=True)
                return False
        return True

    def _record(self, error: OpTypeError, sized: Sequence[ResolvedVar] = ()) -> None:
        """Record an error of the operator at the setting or input at fault, with the other settings involved."""
        places, written = self.findings.places, self.matched.written
        at_fault = [name for name in error.settings if name in written]
        names = [written[name] for name in at_fault]
        place = setting_value_place(places, names[0]) if names else self._input_at_fault(error)
        others = ((name, self.findings.span_at(setting_value_place(places, name))) for name in names[1:])
        related = tuple(Related(f"`{name}` is given here", span) for name, span in others if span is not None)
        renamed = (f"`{written[name]}` is the setting `{name}`" for name in at_fault if written[name] != name)
        hint = "; ".join((*([] if error.hint is None else [error.hint]), *renamed)) or None
        predicate = error.predicate if error.of == self.schema.name else None
        self.findings.error(
            error.code,
            predicate or str(error),
            place=place,
            hint=hint,
            related=related,
            sized=sized,
            is_predicate=predicate is not None,
        )

    def _input_at_fault(self, error: OpTypeError) -> Place | None:
        """Return the place of the input that an operator does not take; else of all its inputs."""
        places = self.findings.places
        if error.code in _ABOUT_SETTINGS:
            return places.name
        ref = self.matched.inputs[error.position] if error.position is not None else None
        return self._places.get(ref) if ref is not None else around(places.reads) or places.name

    def _sized(self, inputs: Sequence[Ref | None], code: str) -> tuple[ResolvedVar, ...]:
        """Return the variables whose extents a finding about shapes is about."""
        if code != "shape-mismatch":
            return ()
        names = [ref.name for ref in inputs if ref is not None]
        return tuple(self.scope.variables[name] for name in names if name in self.scope.variables)

    def _aliasing_fits(
        self, inputs: Sequence[Ref | None], settings: Mapping[str, SettingValue | UnresolvedSetting]
    ) -> bool:
        aliased = next((ref.name for ref in inputs if ref is not None and ref.name in self.op.outputs), None)
        accumulates = settings.get("acc") is not None
        if aliased is None or (self.schema.in_place and not accumulates):
            return True
        message = f"{'with acc ' if accumulates else ''}cannot write to its own input `{aliased}`"
        place = part(self.findings.places.writes, self.op.outputs.index(aliased))
        self.findings.error("inplace-denied", message, place=place, is_predicate=True)
        return False

    def _mode(self, inputs: Sequence[Ref | None], settings: Mapping[str, SettingValue]) -> Mode:
        if settings.get("acc") is not None:
            return Mode.ACCUMULATE
        in_place = any(ref is not None and ref.name in self.op.outputs for ref in inputs)
        return Mode.IN_PLACE if in_place else Mode.NORMAL


_ABOUT_SETTINGS = frozenset({"setting-type", "missing-setting", "acc-rules"})
"""Findings about settings and not about inputs."""

_LATER = frozenset({"shape-mismatch", "setting-type"})
"""Findings that may come from a stand-in for a setting: the executor checks again when the value is known."""

_SHAPELESS = frozenset({SettingType.SCALAR, SettingType.FLOAT})
"""Settings on which no type or shape depends."""


def _declared(variable: ResolvedVar) -> str:
    """Return a word for the source of a type: empty if another statement determined it."""
    return "" if variable.inferred else "declared "


def _defaults(schema: OpSchema) -> dict[str, SettingValue]:
    return {spec.name: spec.default for spec in schema.settings if not isinstance(spec.default, Required)}


def writable_type(name: str, scope: Scope, findings: Findings, place: Place | None) -> TensorType | None:
    """Return the type of a variable that a statement writes; None after an error was recorded."""
    variable = scope.variables.get(name)
    if variable is None:
        return None
    if variable.storage is Storage.CONSTANT:
        message = f"`{name}` is constant: it cannot be written"
        findings.error("write-constant", message, place=place, decl=variable.decl)
        return None
    if variable.storage is Storage.PERSISTENT:
        findings.error(
            "persistent-direct",
            f"`{name}` is persistent: it cannot be written here",
            place=place,
            hint=f"use `cache.write ... >> {name};`",
            decl=variable.decl,
        )
        return None
    return variable.type
