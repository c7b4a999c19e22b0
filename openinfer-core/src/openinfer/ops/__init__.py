"""Operators: what each one takes, yields and means, defined once for every backend.

`schema` is the language in which an operator is described, `calls` an operator applied to types, and `catalog` the
built-in operators, found by scanning that package.
"""

from openinfer.ops.schema import (
    Composite,
    Compute,
    Definition,
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

__all__ = [
    "Composite",
    "Compute",
    "Definition",
    "Elementwise",
    "Fold",
    "InputSpec",
    "Loops",
    "OpExample",
    "OpSchema",
    "OpTypeError",
    "Operand",
    "Primitive",
    "Reduction",
    "Refusal",
    "Required",
    "SettingSpec",
    "SettingType",
]
