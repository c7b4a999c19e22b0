"""Operator statements against signatures: which input and setting is which. Needs no model, sizes or types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import Related, did_you_mean, in_source_order
from openinfer.errors import OpenInferError
from openinfer.ir.doubts import NO_DOUBTS
from openinfer.ir.findings import Findings
from openinfer.ir.nodes import Assign, Op
from openinfer.ir.places import around, setting_name_place, setting_value_place
from openinfer.ir.text import call_text, type_text
from openinfer.ir.values import BoolValue, DoubleValue, FloatValue, IntValue, Number, UIntValue, VarValue
from openinfer.ops.schema import Required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Graph
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.ops.schema import InputSpec, OpSchema
    from openinfer.plugins.environment import Environment


@dataclass(frozen=True, slots=True)
class Matched:
    """An operator statement with its parts found in the schema.

    Attributes:
        inputs: one entry per input of the schema, None for an optional one left out; variadic ones follow.
        settings: written values by canonical name.
        written: names of settings as written, by canonical name.
    """

    schema: OpSchema
    inputs: tuple[Ref | None, ...]
    settings: Mapping[str, AttrValue]
    written: Mapping[str, str]


def signature_findings(graph: Graph, environment: Environment, doubts: Doubts = NO_DOUBTS) -> tuple[Diagnostic, ...]:
    """Return every mistake in operator names, numbers of inputs and outputs, and names of settings.

    Statements of which something wrong was reported already are left out.
    """
    findings = Findings()
    assigned = (node.kind for _, node in graph.nodes() if isinstance(node.kind, Assign))
    types = {variable.name: type_text(variable.dtype, variable.dims) for variable in (*assigned, *graph.vars.values())}
    for block, node in graph.nodes():
        if isinstance(node.kind, Op) and node.index not in doubts.nodes:
            with findings.at(block, node):
                match_signature(node.kind, environment, findings, lambda ref: types.get(ref.name))
    return in_source_order(findings.items)


def match_signature(
    op: Op, environment: Environment, findings: Findings, type_of: Callable[[Ref], object | None]
) -> Matched | None:
    """Return the statement's parts by their place in the schema; None after errors were recorded.

    Messages show the inputs with the types that ``type_of`` knows.
    """
    try:
        schema = environment.op(op.op)
    except OpenInferError as error:
        findings.error(error.code, str(error), place=findings.places.name)
        return None
    if _is_plain(op, schema):
        return Matched(schema, op.inputs, {}, {})
    before = len(findings.items)
    with findings.about(lambda: call_text(schema.name, _typed_inputs(op, schema, type_of))):
        named = _named_inputs(op, schema, findings)
        inputs = _inputs(op, schema, named, findings)
        settings_written = {name: value for name, value in op.settings.items() if schema.input(name) is None}
        written = _settings(schema, settings_written, findings)
        _check_outputs(op, schema, findings)
    if findings.errors_since(before):
        return None
    settings = {canonical: settings_written[name] for canonical, name in written.items()}
    return Matched(schema, inputs, settings, written)


def _is_plain(op: Op, schema: OpSchema) -> bool:
    """Whether a statement has every input in its place and no setting, as most of a program of thousands have."""
    if op.settings or len(op.inputs) != len(schema.inputs) or len(op.outputs) > len(schema.outputs):
        return False
    return not any(isinstance(spec.default, Required) for spec in schema.settings)


def _typed_inputs(
    op: Op, schema: OpSchema, type_of: Callable[[Ref], object | None]
) -> Iterator[tuple[Ref, object | None]]:
    """Yield the inputs that were written, in their places and by name, with the types that are known."""
    named = (value.ref for name, value in op.settings.items() if schema.input(name) and isinstance(value, VarValue))
    return ((ref, type_of(ref)) for ref in (*op.inputs, *named))


def _check_outputs(op: Op, schema: OpSchema, findings: Findings) -> None:
    if len(op.outputs) > len(schema.outputs) and not schema.variadic_outputs:
        outputs = ", ".join(schema.outputs)
        message = f"has {_counted(len(schema.outputs), 'output')} ({outputs}), found {len(op.outputs)}"
        findings.error("arity", message, place=around(findings.places.writes[len(schema.outputs) :]), is_predicate=True)


def _named_inputs(op: Op, schema: OpSchema, findings: Findings) -> dict[str, Ref]:
    """Settings whose names are inputs of the schema give those inputs."""
    named: dict[str, Ref] = {}
    for name, value in op.settings.items():
        if schema.input(name) is None:
            continue
        number = as_number(value)
        if isinstance(value, VarValue):
            named[name] = value.ref
        elif number is not None:
            named[name] = number
        else:
            place = setting_value_place(findings.places, name)
            findings.error("arity", f"input `{name}` takes a variable or a number", place=place)
    return named


def as_number(value: AttrValue) -> Number | None:
    """Return the number that the value of a setting is, for a setting that gives an input."""
    if isinstance(value, FloatValue):
        return Number(value=DoubleValue(value.value))
    return Number(value=value) if isinstance(value, IntValue | UIntValue | DoubleValue | BoolValue) else None


def _inputs(op: Op, schema: OpSchema, named: Mapping[str, Ref], findings: Findings) -> tuple[Ref | None, ...]:
    refs, specs = op.inputs, schema.inputs
    variadic = bool(specs) and specs[-1].variadic
    if len(refs) > len(specs) and not variadic:
        message = f"takes at most {_counted(len(specs), 'input')} ({_shown(specs)}), found {len(refs)}"
        findings.error("arity", message, place=around(findings.places.reads[len(specs) :]), is_predicate=True)
        return ()
    for spec in specs[: len(refs)]:
        if spec.name in named:
            message = f"input `{spec.name}` is given twice"
            findings.error("arity", message, place=setting_name_place(findings.places, spec.name))
    inputs = [refs[p] if p < len(refs) else named.get(spec.name) for p, spec in enumerate(specs)]
    missing = [s.name for s, ref in zip(specs, inputs, strict=True) if ref is None and not s.optional]
    if missing and not any(schema.input(name) and name not in named for name in op.settings):
        count = len(refs) + len(named)
        counts = f"found {_counted(count, 'input')}, missing: {', '.join(missing)}"
        message = f"takes {_shown(specs)}; {counts}"
        findings.error("arity", message, place=findings.places.name, is_predicate=True)
    return (*inputs, *refs[len(specs) :])


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _shown(specs: Sequence[InputSpec]) -> str:
    return ", ".join(f"{s.name}{'?' if s.optional else '...' if s.variadic else ''}" for s in specs) or "no inputs"


def _settings(schema: OpSchema, names: Iterable[str], findings: Findings) -> dict[str, str]:
    """Return the names of settings as written, by canonical name."""
    by_setting: dict[str, str] = {}
    for name in names:
        place = setting_name_place(findings.places, name)
        spec = schema.setting(name)
        if spec is None:
            accepted = [s.name for s in schema.settings] + [i.name for i in schema.inputs if i.optional]
            message = f"has no setting `{name}`; it has: {', '.join(accepted) or 'none'}"
            aliases = [alias for s in schema.settings for alias in s.aliases]
            findings.error(
                "unknown-setting",
                message,
                place=place,
                hint=did_you_mean(name, [*accepted, *aliases]),
                is_predicate=True,
            )
        elif spec.name in by_setting:
            message = f"`{by_setting[spec.name]}` and `{name}` are both given: they are one setting"
            first = findings.span_at(setting_name_place(findings.places, by_setting[spec.name]))
            related = () if first is None else (Related(f"`{by_setting[spec.name]}` is given here", first),)
            findings.error("duplicate-setting", message, place=place, related=related)
        else:
            by_setting[spec.name] = name
    for spec in schema.settings:
        if isinstance(spec.default, Required) and spec.name not in by_setting:
            message = f"needs the setting `{spec.name}` ({spec.type.value}), which is not given"
            findings.error("missing-setting", message, place=findings.places.name, is_predicate=True)
    return by_setting
