"""How the element types are called elsewhere: suggestions for names that are none of ours."""

from __future__ import annotations

from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import BY_NAME

_OTHER_SPELLINGS = {
    "bf16": "bfloat16 bfloat",
    "bool": "boolean logical",
    "f8": "float8 fp8",
    "f16": "float16 fp16 half",
    "f32": "float32 fp32 float single",
    "f64": "float64 fp64 double",
    "i1": "int1",
    "i2": "int2",
    "i4": "int4",
    "i8": "int8 char",
    "i16": "int16 short",
    "i32": "int32 int integer",
    "i64": "int64 long",
    "u1": "uint1",
    "u2": "uint2",
    "u4": "uint4",
    "u8": "uint8 byte",
    "u16": "uint16",
    "u32": "uint32 uint",
    "u64": "uint64 size",
}
"""How other languages and frameworks call the element types; a final ``_t`` does not matter."""

_MEANT = {word: name for name, words in _OTHER_SPELLINGS.items() for word in (name, *words.split())}


def near_dtype(name: str) -> str:
    """Return the hint for a name that is not an element type."""
    meant = _MEANT.get(name.lower().removesuffix("_t"))
    if meant is not None:
        return f"did you mean `{meant}`?"
    return did_you_mean(name.lower(), BY_NAME) or f"known: {', '.join(dict.fromkeys(d.name for d in BY_NAME.values()))}"
