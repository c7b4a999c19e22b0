"""Operator statements: inputs, settings and outputs against the schema (runtime specification, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.errors import OpenInferError
from openinfer.ir.resolved import Mode, ResolvedOp, RuntimeInts, RuntimeScalar, Storage
from openinfer.ir.values import VarValue
from openinfer.ops.calls import call_of
from openinfer.ops.schema import OpTypeError
from openinfer.validate.references import readable_type
from openinfer.validate.settings import SettingError, setting_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.nodes import Op
    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.ir.types import TensorType
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.ops.schema import InputSpec, OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.validate.findings import Findings
    from openinfer.validate.scope import Scope


def resolve_op(op: Op, environment: Environment, scope: Scope, findings: Findings) -> ResolvedOp | None:
    """Return the operator with schema rules applied; None after errors were recorded."""
    try:
        schema = environment.op(op.op)
    except OpenInferError as error:
        findings.error(error.code, str(error))
        return None
    return _Resolution(op, schema, scope, findings).result()


@dataclass
class _Resolution:
    """One operator statement being checked against its schema."""

    op: Op
    schema: OpSchema
    scope: Scope
    findings: Findings

    def result(self) -> ResolvedOp | None:
        before = len(self.findings.items)
        named = self._named_inputs()
        settings = self._settings({n: v for n, v in self.op.settings.items() if n not in named})
        inputs = self._inputs(named)
        types = [None if ref is None else readable_type(ref, self.scope, self.findings) for ref in inputs]
        outputs = self._outputs()
        if self.findings.has_errors and any(i.severity.value == "error" for i in self.findings.items[before:]):
            return None
        return self._checked(inputs, types, settings, outputs)

    def _named_inputs(self) -> dict[str, Ref]:
        """Settings whose names are inputs of the schema give those inputs."""
        named: dict[str, Ref] = {}
        for name, value in self.op.settings.items():
            spec = self.schema.input(name)
            if spec is None:
                continue
            if isinstance(value, VarValue):
                named[name] = value.ref
            else:
                self.findings.error("arity", f"input `{name}` of {self.schema.name} takes a variable")
        return named

    def _inputs(self, named: Mapping[str, Ref]) -> list[Ref | None]:
        given = list(self.op.inputs)
        specs = self.schema.inputs
        variadic = bool(specs) and specs[-1].variadic
        required = [spec for spec in specs if not spec.optional]
        if len(given) > len(specs) and not variadic:
            self._arity(f"takes at most {len(specs)} inputs ({_signature(specs)}), found {len(given)}")
            return []
        inputs: list[Ref | None] = []
        for position, spec in enumerate(specs):
            positional = given[position] if position < len(given) else None
            if positional is not None and spec.name in named:
                self._arity(f"input `{spec.name}` of {self.schema.name} is given twice")
            inputs.append(positional if positional is not None else named.get(spec.name))
        missing = [s.name for s, ref in zip(specs, inputs, strict=True) if ref is None and s in required]
        if missing:
            count = len(given) + len(named)
            self._arity(f"takes {_signature(specs)}; found {count} inputs, missing: {', '.join(missing)}")
        return [*inputs, *given[len(specs) :]]

    def _arity(self, message: str) -> None:
        text = message if message.startswith("input") else f"{self.schema.name} {message}"
        self.findings.error("arity", text)

    def _settings(self, written: Mapping[str, AttrValue]) -> dict[str, SettingValue | UnresolvedSetting]:
        values: dict[str, SettingValue | UnresolvedSetting] = {}
        for name, value in written.items():
            spec = self.schema.setting(name)
            if spec is None:
                known = [s.name for s in self.schema.settings] + [i.name for i in self.schema.inputs if i.optional]
                message = f"{self.schema.name} has no setting `{name}`; it has: {', '.join(known) or 'none'}"
                self.findings.error("unknown-setting", message, hint=did_you_mean(name, known))
                continue
            if spec.name in values:
                self.findings.error(
                    "duplicate-setting", f"`{name}` is another name of `{spec.name}`, which is given too"
                )
                continue
            try:
                values[spec.name] = setting_value(spec, value, self.scope)
            except SettingError as error:
                self.findings.error(error.code, f"{self.schema.name}: {error}", hint=error.hint)
        return values

    def _outputs(self) -> list[TensorType]:
        names = self.op.outputs
        if len(names) > len(self.schema.outputs):
            self._arity(
                f"has {len(self.schema.outputs)} outputs ({', '.join(self.schema.outputs)}), found {len(names)}"
            )
        return [t for t in (writable_type(name, self.scope, self.findings) for name in names) if t is not None]

    def _checked(
        self,
        inputs: Sequence[Ref | None],
        types: Sequence[TensorType | None],
        settings: Mapping[str, SettingValue | UnresolvedSetting],
        outputs: Sequence[TensorType],
    ) -> ResolvedOp | None:
        if not self._dtypes_fit(types) or not self._aliasing_fits(inputs, settings):
            return None
        known = {n: v for n, v in settings.items() if not isinstance(v, RuntimeScalar | RuntimeInts)}
        later = {n: v for n, v in settings.items() if isinstance(v, RuntimeScalar | RuntimeInts)}
        varying = self._varies(inputs)
        filled = self._filled(types, known, later, outputs, varying=varying)
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
        types: Sequence[TensorType | None],
        known: Mapping[str, SettingValue],
        later: Mapping[str, UnresolvedSetting],
        outputs: Sequence[TensorType],
        *,
        varying: bool,
    ) -> dict[str, SettingValue] | None:
        """Return the settings with defaults filled in, after checking what the operator infers from the types."""
        stand_ins = {name: _stand_in(value) for name, value in later.items()}
        try:
            call = call_of(self.schema, types, {**known, **stand_ins}, outputs)
        except OpTypeError as error:
            if varying and error.code == "shape-mismatch":
                return dict(known)
            self.findings.error(error.code, f"{self._subject(types)}: {error}")
            return None
        if not later and not varying and not self._outputs_fit(call.outputs, outputs, types):
            return None
        return {name: value for name, value in call.settings.items() if name not in later}

    def _outputs_fit(
        self, inferred: Sequence[TensorType], declared: Sequence[TensorType], types: Sequence[TensorType | None]
    ) -> bool:
        for name, wanted, found in zip(self.op.outputs, inferred, declared, strict=False):
            variable = self.scope.variables[name]
            if wanted.dtype is not found.dtype:
                message = f"{self._subject(types)} yields {wanted.dtype}, `{name}` is declared {found}"
                self.findings.error("output-dtype", message, decl=variable.decl)
                return False
            if wanted.shape != found.shape:
                message = f"{self._subject(types)} yields {wanted}, `{name}` is declared {found}"
                self.findings.error("shape-mismatch", message, decl=variable.decl)
                return False
        return True

    def _dtypes_fit(self, types: Sequence[TensorType | None]) -> bool:
        specs = [*self.schema.inputs, *([self.schema.inputs[-1]] * (len(types) - len(self.schema.inputs)))]
        common: TensorType | None = None
        for spec, found in zip(specs, types, strict=True):
            if found is None:
                continue
            legal = spec.dtypes if spec.dtypes is not None else self.schema.dtypes
            if found.dtype.name not in legal:
                listed = ", ".join(sorted(legal))
                message = (
                    f"{self._subject(types)}: input `{spec.name}` is {found.dtype}, {self.schema.name} takes {listed}"
                )
                self.findings.error("dtype-unsupported", message)
                return False
            if spec.dtypes is None and common is not None and common.dtype is not found.dtype:
                message = f"{self._subject(types)}: inputs must have one dtype, found {common.dtype} and {found.dtype}"
                self.findings.error("dtype-unsupported", message, hint="convert one of them with `op cast(x, to=...)`")
                return False
            common = found if spec.dtypes is None else common
        return True

    def _aliasing_fits(
        self, inputs: Sequence[Ref | None], settings: Mapping[str, SettingValue | UnresolvedSetting]
    ) -> bool:
        aliased = next((ref.name for ref in inputs if ref is not None and ref.name in self.op.outputs), None)
        if aliased is None:
            return True
        if settings.get("acc") is not None:
            self.findings.error(
                "inplace-denied", f"{self.schema.name} with acc cannot write to its own input `{aliased}`"
            )
            return False
        if not self.schema.in_place:
            self.findings.error("inplace-denied", f"{self.schema.name} cannot write to its own input `{aliased}`")
            return False
        return True

    def _mode(self, inputs: Sequence[Ref | None], settings: Mapping[str, SettingValue]) -> Mode:
        if settings.get("acc") is not None:
            return Mode.ACCUMULATE
        in_place = any(ref is not None and ref.name in self.op.outputs for ref in inputs)
        return Mode.IN_PLACE if in_place else Mode.NORMAL

    def _subject(self, types: Sequence[TensorType | None]) -> str:
        refs = [*self.op.inputs]
        shown = ", ".join(
            f"{ref.name}: {found}" for ref, found in zip(refs, [t for t in types if t is not None], strict=False)
        )
        return f"{self.schema.name}({shown})"


def _signature(specs: Sequence[InputSpec]) -> str:
    return ", ".join(spec.name + ("?" if spec.optional else "...") * (spec.optional or spec.variadic) for spec in specs)


def _stand_in(value: UnresolvedSetting) -> SettingValue:
    """Return a value of the right kind for a setting that is only known at run time, so that types can be inferred."""
    if isinstance(value, RuntimeScalar):
        return 1
    return tuple(1 for _ in value.exprs) if value.is_list else 1


def writable_type(name: str, scope: Scope, findings: Findings) -> TensorType | None:
    """Return the type of a variable that a statement writes; None after an error was recorded."""
    variable = scope.variables.get(name)
    if variable is None:
        return None
    if variable.storage is Storage.CONSTANT:
        findings.error("write-constant", f"`{name}` is constant: it cannot be written", decl=variable.decl)
        return None
    if variable.storage is Storage.PERSISTENT:
        findings.error(
            "persistent-direct",
            f"`{name}` is persistent: it cannot be written here",
            hint=f"use `cache.write ... >> {name};`",
            decl=variable.decl,
        )
        return None
    return variable.type
