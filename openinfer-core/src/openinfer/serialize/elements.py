"""``@init`` values as JSON: the tag is that of the element type (``specification: json.graphs.6``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.dtypes import BY_JSON_TAG, DType, Kind
from openinfer.scalars import check_fits, decode_bits, encode_bits, round_to
from openinfer.serialize.forms import BOOLEAN, NUMBER, FormError, integer, one_of, shown, tagged, union_schema, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.scalars import Scalar


def write_element(dtype: DType, value: Scalar) -> dict[str, Any]:
    """Return an element as JSON."""
    if dtype.name in ("f32", "f64"):
        return {dtype.json_tag: NUMBER.write(float(value))}
    return {dtype.json_tag: {"bits": encode_bits(dtype, value)} if _is_bits(dtype) else value}


def read_element(dtype: DType, value: object) -> Scalar:
    """Return the element that JSON holds for a variable of an element type.

    Raises:
        FormError: the tag is another type's, or the payload does not fit.
    """
    tag, payload = tagged(value, "an element")
    if tag != dtype.json_tag:
        raise wrong(f"the element is tagged {shown(tag)}, the variable is {dtype.json_tag}")
    try:
        return _payload(dtype, payload)
    except FormError as error:
        raise error.within(tag) from error


def _is_bits(dtype: DType) -> bool:
    """Return whether elements are written as a bit pattern."""
    return dtype.is_low_float or dtype.is_packed or dtype.kind in (Kind.BITSET, Kind.TERNARY)


def _payload(dtype: DType, payload: object) -> Scalar:
    if dtype.kind is Kind.BOOL:
        return BOOLEAN.read(payload)
    if _is_bits(dtype):
        return _from_bits(dtype, payload)
    if not dtype.is_float:
        return integer(dtype.minimum or 0, dtype.maximum or 0).read(payload)
    number = NUMBER.read(payload)
    misfit = check_fits(dtype, number)
    if misfit is not None:
        raise wrong(misfit)
    return round_to(dtype, number)


def _from_bits(dtype: DType, payload: object) -> Scalar:
    name, bits = tagged(payload, "a bit pattern")
    one_of(name, ("bits",), "the key of a bit pattern")
    try:
        return decode_bits(dtype, integer(0, 2**16 - 1).read(bits))
    except FormError as error:
        raise error.within("bits") from error
    except ValueError as error:
        raise wrong(str(error)).within("bits") from error


def _payload_schema(dtype: DType) -> Mapping[str, Any]:
    if dtype.kind is Kind.BOOL:
        return BOOLEAN.schema
    if _is_bits(dtype):
        bits = {"bits": integer(0, 2**16 - 1).schema}
        return {"type": "object", "properties": bits, "required": ["bits"], "additionalProperties": False}
    return NUMBER.schema if dtype.is_float else integer(dtype.minimum or 0, dtype.maximum or 0).schema


ELEMENT_SCHEMA = union_schema({tag: _payload_schema(dtype) for tag, dtype in sorted(BY_JSON_TAG.items())})
"""JSON Schema of an element of any type."""
