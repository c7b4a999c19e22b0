"""Device architecture files (``specification: json.devices``): explicit, extensible, and given back as written."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from marshmallow import INCLUDE

from openinfer.arch import Compiler, Cycles, DeviceArch, Features, Limits, Memory, MemoryBank, Preferences, TargetInfo
from openinfer.diagnostics import Severity, as_errors, summary
from openinfer.dtypes import BY_NAME
from openinfer.errors import SerializationError
from openinfer.serialize.documents import fail, finding, problem_found, read_document
from openinfer.serialize.forms import (
    BOOLEAN,
    COUNT,
    MISSING,
    TEXT,
    Form,
    FormError,
    Problem,
    collected,
    integer,
    list_of,
    members,
    one_of,
    shown,
    wrong,
)
from openinfer.serialize.objects import Member, object_form

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping

    from openinfer.diagnostics import Diagnostic

VERSION = 2
"""The newest version of device files; those without ``version`` have version 1."""

_PRECISIONS = {"fp16": "f16", "fp32": "f32", **{name: d.name for name, d in BY_NAME.items() if d.is_float}}
_POSITIVE = integer(1)


def _read_workgroup(value: object) -> tuple[int, ...]:
    sizes = list_of(_POSITIVE).read(value)
    if len(sizes) != 3:
        raise wrong(f"expected three integers, found {len(sizes)}")
    return sizes


_THREE = {"type": "array", "items": _POSITIVE.schema, "minItems": 3, "maxItems": 3}
_LIMITS: dict[str, Form[Any]] = {
    "max_workgroup_size": Form(list, _read_workgroup, _THREE),
    "max_shared_memory_bytes": COUNT,
    "max_push_constants_bytes": COUNT,
    "max_storage_buffer_range_bytes": _POSITIVE,
}
_FURTHER_LIMITS: dict[str, Form[Any]] = dict.fromkeys(("max_workgroup_invocations", "subgroup_size"), _POSITIVE)
"""Limits that no file has to state."""

_FEATURES: dict[str, Form[Any]] = dict.fromkeys(("fp16", "int8", "subgroup_ops", "cooperative_matrix"), BOOLEAN)
_MEMORY: dict[str, Form[Any]] = dict.fromkeys(("global_bytes", "shared_bytes_per_sm", "l2_bytes"), COUNT)
_PREFERENCES: dict[str, Form[Any]] = {
    "default_precision": Form(
        str, lambda value: _PRECISIONS[one_of(value, _PRECISIONS, "a float dtype")], {"enum": list(_PRECISIONS)}
    ),
    "prefer_fusion": BOOLEAN,
    "prefer_persistent_kv": BOOLEAN,
    "max_kernel_ops": _POSITIVE,
}


_MOST_LANES = 1 << 11
"""Those of 65,536 bits, the widest vector registers of RISC-V."""

_LANES = integer(1, _MOST_LANES)


def _read_lanes(value: object) -> int:
    number = _LANES.read(value)
    if number & (number - 1):
        raise wrong(f"expected a power of two, found {number}")
    return number


_DIALECTS = ("c99", "vector", "mve")
_FPUS = ("none", "single", "double")
_FLAG = r"-[A-Za-z0-9][A-Za-z0-9_=+.,-]*"
"""A flag of a compiler, without what a shell or make reads otherwise."""


def _read_flag(value: object) -> str:
    text = TEXT.read(value)
    if not re.fullmatch(_FLAG, text):
        raise wrong(f"expected a flag such as -march=native, found {text!r}")
    return text


_MOST_CACHES = 3
_CACHES = list_of(_POSITIVE, least=1)


def _read_caches(value: object) -> tuple[int, ...]:
    sizes = _CACHES.read(value)
    if len(sizes) > _MOST_CACHES:
        raise wrong(f"expected the sizes of at most {_MOST_CACHES} caches, found {len(sizes)}")
    return sizes


_CYCLES = object_form(
    {field.name: Member(_POSITIVE, load_default=field.default) for field in fields(Cycles)}, lambda data: Cycles(**data)
)

_TARGET: dict[str, Form[Any]] = {
    "lanes": Form(int, _read_lanes, _LANES.schema),
    **dict.fromkeys(("registers", "integer_registers", "multiply_adds", "loads", "line"), _POSITIVE),
    **dict.fromkeys(("fma", "dot4", "dsp", "mve"), BOOLEAN),
    "fpu": Form(str, lambda value: one_of(value, _FPUS, "a floating-point unit"), {"enum": list(_FPUS)}),
    "cycles": _CYCLES,
    "caches": Form(list, _read_caches, {**_CACHES.schema, "maxItems": _MOST_CACHES}),
    "dialect": Form(str, lambda value: one_of(value, _DIALECTS, "a dialect"), {"enum": list(_DIALECTS)}),
    "flags": list_of(Form(str, _read_flag, {"type": "string", "pattern": f"^{_FLAG}$"})),
}


def _section(forms: Mapping[str, Form[Any]], build: Callable[..., Any], *, required: Collection[str] = ()) -> Form[Any]:
    """Return the form of a section: keys with forms are members, all others are kept in ``extra``."""
    fields = {name: form if name in required else Member(form, load_default=None) for name, form in forms.items()}

    def made(data: dict[str, Any]) -> Any:
        fields = {name: value for name, value in data.items() if name in forms and value is not None}
        return build(**fields, extra=MappingProxyType({n: v for n, v in data.items() if n not in forms}))

    return object_form(fields, made, unknown=INCLUDE)


def _features(**fields: Any) -> Features:
    extra = fields["extra"]
    collected(((name, value) for name, value in extra.items()), BOOLEAN.read)
    return Features(**fields)


@dataclass(frozen=True, slots=True)
class _Target:
    """The section ``target``."""

    processor: TargetInfo
    compiler: Compiler


_SINGLE_NBYTES = 4
"""Bytes of the f32 that ``lanes`` counts."""


def _target(
    *,
    lanes: int | None = None,
    line: int | None = None,
    caches: tuple[int, ...] = (),
    dialect: str = "c99",
    flags: tuple[str, ...] = (),
    **fields: Any,
) -> _Target:
    sizes = {
        "vector_nbytes": None if lanes is None else _SINGLE_NBYTES * lanes,
        "line_nbytes": line,
        "l1_nbytes": caches[0] if caches else None,
        "l2_nbytes": caches[min(1, len(caches) - 1)] if caches else None,
    }
    known_sizes = {name: size for name, size in sizes.items() if size is not None}
    return _Target(TargetInfo(**known_sizes, **fields), Compiler(dialect=dialect, flags=flags))


_KINDS = ("tcm", "sram", "external", "flash")
_BANK_NAME = r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*"
_LONGEST_BANK_NAME = 31
"""Characters, so that macros with a prefix differ within the 63 by which C99 tells identifiers apart."""


def _read_bank_name(value: object) -> str:
    text = TEXT.read(value)
    if len(text) > _LONGEST_BANK_NAME or not re.fullmatch(_BANK_NAME, text):
        wanted = f"letters, digits and single underscores between them, at most {_LONGEST_BANK_NAME}, such as dtcm"
        raise wrong(f"expected {wanted}, found {text!r}")
    return text


_BANK_NAME_SCHEMA = {"type": "string", "pattern": f"^{_BANK_NAME}$", "maxLength": _LONGEST_BANK_NAME}


_BANKS = list_of(
    object_form(
        {
            "name": Form(str, _read_bank_name, _BANK_NAME_SCHEMA),
            "bytes": _POSITIVE,
            "kind": Form(str, lambda value: one_of(value, _KINDS, "a kind of memory"), {"enum": list(_KINDS)}),
            "wait_states": Member(COUNT, load_default=0),
        },
        lambda data: MemoryBank(
            name=data["name"], nbytes=data["bytes"], kind=data["kind"], wait_states=data["wait_states"]
        ),
    )
)


def _read_banks(value: object) -> tuple[MemoryBank, ...]:
    banks = _BANKS.read(value)
    for number, bank in enumerate(banks):
        if bank.wait_states and bank.kind != "flash":
            message = f"only loads of weights are counted by wait states, and {bank.name!r} is {bank.kind}, not flash"
            raise wrong(message).within(number, "wait_states")
    names = [bank.name.upper() for bank in banks]
    for number, name in enumerate(names):
        if name in names[:number]:
            message = f"another memory has the name {banks[number].name!r}; case does not distinguish names"
            raise wrong(message).within(number, "name")
    return banks


_GPU_LIMITS = _section({**_LIMITS, **_FURTHER_LIMITS}, Limits, required=_LIMITS)
_SECTIONS: dict[str, Form[Any]] = {
    "limits": _section({**_LIMITS, **_FURTHER_LIMITS}, Limits),
    "features": _section(_FEATURES, _features),
    "memory": _section(_MEMORY, Memory),
    "preferences": _section(_PREFERENCES, Preferences),
    "target": _section(_TARGET, _target),
    "memories": Form(list, _read_banks, _BANKS.schema),
}
_SINCE = {"target": 2, "memories": 2}
"""The version of files from which on they may have a section."""


_IDENTITY = ("type", "api", "vendor", "name", "architecture", "driver")
_NEEDED = ("type", "api")
_DEVICE: Form[dict[str, Any]] = object_form(
    {name: TEXT if name in _NEEDED else Member(TEXT, load_default="") for name in _IDENTITY},
    dict[str, Any],
    unknown=INCLUDE,
)


def device_schema() -> dict[str, Any]:
    """Return the JSON Schema of device files."""
    version = {"anyOf": [integer(1, VERSION).schema, {"type": "null"}]}
    sections = {name: {"anyOf": [form.schema, {"type": "null"}]} for name, form in _SECTIONS.items()}
    is_gpu = {"properties": {"device": {"properties": {"type": {"const": "gpu"}}, "required": ["type"]}}}
    return {
        "type": "object",
        "properties": {"device": _DEVICE.schema, "version": version, **sections},
        "required": ["device"],
        "if": is_gpu,
        "then": {"properties": {"limits": _GPU_LIMITS.schema}, "required": ["limits"]},
    }


def load_arch(source: Mapping[str, Any] | str | os.PathLike[str], *, strict: bool = False) -> DeviceArch:
    """Return the device of a file or document; see `DeviceArch.load`."""
    document = read_document(Path(source) if isinstance(source, str) else source, "device file")
    if not isinstance(document, dict):
        fail(f"expected an object, found {shown(document)}", "wrong-type")
    try:
        arch = _arch(cast("dict[str, object]", document))
    except FormError as error:
        findings = [problem_found(problem) for problem in error.problems]
        raise SerializationError(summary(findings), diagnostics=findings) from error
    if strict and arch.warnings:
        errors = as_errors(arch.warnings)
        raise SerializationError(summary(errors), diagnostics=errors)
    return arch


def arch_to_json(arch: DeviceArch) -> dict[str, Any]:
    """Return the document that a device was read from."""
    return copy.deepcopy(dict(arch.document))


def _arch(document: dict[str, object]) -> DeviceArch:
    version = _version(document.get("version"))
    early = [name for name, since in _SINCE.items() if version < since and document.get(name) is not None]
    if early:
        raise FormError(*(Problem(f'needs "version": {_SINCE[name]} in the file', path=(name,)) for name in early))
    if "device" not in document:
        raise FormError(MISSING.within(("device",)))
    device = collected([("device", document["device"])], _DEVICE.read)[0]
    forms = {**_SECTIONS, "limits": _GPU_LIMITS} if device["type"] == "gpu" else _SECTIONS
    fields = {name: document.get(name) for name in forms}
    if device["type"] == "gpu" and fields["limits"] is None:
        message = "is missing: a gpu file states its limits"
        raise FormError(replace(MISSING, message=message, path=("limits",)))
    present = [name for name, value in fields.items() if value is not None]
    read = collected(((name, (name, fields[name])) for name in present), lambda pair: forms[pair[0]].read(pair[1]))
    extra = {name: value for name, value in document.items() if name not in (*forms, "device", "version")}
    sections = dict(zip(present, read, strict=True))
    target: _Target | None = sections.pop("target", None)
    if target is not None:
        sections |= {"processor": target.processor, "compiler": target.compiler}
    arch = DeviceArch(
        **{name: device[name] for name in _IDENTITY},
        **sections,
        extra=MappingProxyType(extra),
        document=MappingProxyType(copy.deepcopy(document)),
    )
    return _with_warnings(arch, members(document["device"], "an object"))


def _version(version: object) -> int:
    if version is None:
        return 1
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise wrong(f"expected a positive integer, found {shown(version)}", "version")
    if version > VERSION:
        message = f"the file has version {version}, this reader knows versions up to {VERSION}"
        raise wrong(message, "version")
    return version


def _with_warnings(arch: DeviceArch, device: dict[str, object]) -> DeviceArch:
    sections = {
        "limits": arch.limits.extra,
        "features": arch.features.extra,
        "memory": arch.memory.extra,
        "preferences": arch.preferences.extra,
        "target": arch.processor.extra,
    }
    unknown = [("device", name) for name in device if name not in _IDENTITY]
    unknown += [(section, name) for section, extra in sections.items() for name in extra]
    warnings = [
        _warning("unknown-field", (name,), f"unknown section `{name}`: kept for the target") for name in arch.extra
    ]
    warnings += [_warning("unknown-field", path, f"unknown key `{path[-1]}`: kept for the target") for path in unknown]
    shared, limit = arch.memory.shared_bytes_per_sm, arch.limits.max_shared_memory_bytes
    if 0 < shared < limit:
        message = f"{shared} is below limits.max_shared_memory_bytes, which is {limit}"
        warnings.append(_warning("shared-memory", ("memory", "shared_bytes_per_sm"), message))
    preferences = arch.preferences
    if preferences.default_precision == "f16" and not arch.features.fp16:
        warnings.append(
            _warning(
                "default-precision",
                ("preferences", "default_precision"),
                "f16 arithmetic is preferred, but features.fp16 is not set: f32 is used",
            )
        )
        preferences = replace(preferences, default_precision="f32")
    return replace(arch, preferences=preferences, warnings=tuple(warnings))


def _warning(code: str, path: tuple[str, ...], message: str) -> Diagnostic:
    return finding(path, message, code, Severity.WARNING)
