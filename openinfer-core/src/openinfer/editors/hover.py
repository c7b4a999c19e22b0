"""What a name means, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import printable
from openinfer.dtypes import BY_NAME
from openinfer.editors.outline import Role, Sort
from openinfer.ops.schema import Required

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.editors.analysis import Analysis
    from openinfer.editors.outline import Definition, Occurrence
    from openinfer.ops.schema import OpSchema, SettingSpec
    from openinfer.plugins.environment import Environment


def hover(analysis: Analysis, occurrence: Occurrence, environment: Environment) -> str | None:
    """Return what is known of a name: declaration with shape, operator, setting, element type or size."""
    definition = analysis.outline.definition(occurrence)
    if definition is not None:
        return _defined(analysis, definition)
    if occurrence.role is Role.OP:
        schema = operator(environment, occurrence.name)
        return None if schema is None else operator_text(schema)
    if occurrence.role is Role.SETTING:
        return _setting_or_input(environment, occurrence)
    dtype = BY_NAME.get(occurrence.name)
    if dtype is not None and occurrence.role in (Role.DTYPE, Role.VALUE):
        return dtype_text(dtype)
    if occurrence.role is Role.ATTRIBUTE:
        spec = environment.attributes.get(occurrence.name)
        return None if spec is None else f"attribute `@{spec.name}`: {spec.summary}"
    if occurrence.role in (Role.SIZE, Role.VALUE):
        return _size(analysis, occurrence.name)
    return None


def operator(environment: Environment, name: str) -> OpSchema | None:
    """Return the operator of that name or alias, None if there is none."""
    return environment.ops.get(environment.op_aliases.get(name, name))


def _defined(analysis: Analysis, definition: Definition) -> str:
    lines = [_code(definition.text)]
    if definition.sort is Sort.VARIABLE:
        lines.append(f"{definition.section} variable")
    elif definition.sort in (Sort.TEMPORARY, Sort.INDEX):
        what = "temporary" if definition.sort is Sort.TEMPORARY else "loop index"
        lines.append(f"{what} of block `{definition.section}`")
    lines += _known(analysis, definition)
    return "\n\n".join(lines)


def _known(analysis: Analysis, definition: Definition) -> list[str]:
    """Return shape and size of a variable, if a model says them."""
    resolved = analysis.resolved
    if resolved is None or definition.sort not in (Sort.VARIABLE, Sort.TEMPORARY):
        return []
    table = resolved.tables.get(definition.name)
    variable = resolved.variables.get(definition.name)
    type_ = table.type if table is not None else variable.type if variable is not None else None
    if type_ is None:
        return []
    shape = ", ".join(map(str, type_.shape))
    return [f"with this model: `{type_.dtype.name}[{shape}]`, {type_.nbytes} bytes" + (" an entry" if table else "")]


def _size(analysis: Analysis, name: str) -> str | None:
    if analysis.resolved is None:
        return f"`{name}`: a size variable of the model"
    value = analysis.resolved.sizes.get(name)
    return None if value is None else f"`{name}` = {value}, a size variable of the model"


def dtype_text(dtype: DType) -> str:
    """Return what an element type is."""
    packed = ", several elements in a byte" if dtype.is_packed else ""
    limits = "" if dtype.minimum is None else f", {dtype.minimum} to {dtype.maximum}"
    aliases = f"; also called {', '.join(dtype.aliases)}" if dtype.aliases else ""
    return f"`{dtype.name}`: {dtype.kind.value}, {dtype.bits} bits{limits}{packed}{aliases}"


# Operators


def operator_text(schema: OpSchema) -> str:
    """Return signature, meaning, inputs and settings of an operator."""
    lines = [_code(signature(schema)), schema.summary]
    lines += [f"* `{item.name}`: {item.doc}" for item in schema.inputs if item.doc]
    lines += [setting_text(setting) for setting in schema.settings]
    lines.append(f"Element types: {', '.join(sorted(schema.dtypes))}")
    if schema.aliases:
        lines.append(f"Also called {', '.join(schema.aliases)}")
    return "\n\n".join(lines)


def signature(schema: OpSchema) -> str:
    """Return how an operator is written, optional parts in brackets."""
    inputs = [f"[{i.name}]" if i.optional else f"{i.name}, …" if i.variadic else i.name for i in schema.inputs]
    settings = [s.name if s.default is Required.REQUIRED else f"[{s.name}]" for s in schema.settings]
    outputs = ", ".join(schema.outputs) + ("..." if schema.variadic_outputs else "")
    return f"op {schema.name}({', '.join([*inputs, *settings])}) >> {outputs};"


def setting_text(setting: SettingSpec) -> str:
    """Return name, type, default and meaning of a setting."""
    if setting.default is Required.REQUIRED:
        default = "required"
    else:
        default = "optional" if setting.default is None else f"default {setting.default}"
    choices = f", one of {', '.join(setting.choices)}" if setting.choices else ""
    doc = f": {setting.doc}" if setting.doc else ""
    names = " or ".join(f"`{name}`" for name in (setting.name, *setting.aliases))
    return f"* {names} ({setting.type.value}{choices}, {default}){doc}"


def _setting_or_input(environment: Environment, occurrence: Occurrence) -> str | None:
    schema = operator(environment, occurrence.context)
    if schema is None:
        return None
    setting = schema.setting(occurrence.name)
    if setting is not None:
        return setting_text(setting)
    given = schema.input(occurrence.name)
    return None if given is None else f"* `{given.name}`: input of `{schema.name}`. {given.doc}".rstrip()


def _code(text: str) -> str:
    fence = "~" * 4
    return f"{fence}openinfer\n{printable(text)}\n{fence}"
