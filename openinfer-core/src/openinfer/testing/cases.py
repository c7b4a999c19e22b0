"""Conformance cases of an operator, generated from its schema: shapes, settings, modes and values."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import DType
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, refused_expression
from openinfer.ops.examples import operand_type
from openinfer.ops.schema import Elementwise, OpTypeError, Reduction, Required, SettingType
from openinfer.testing.known_large import known_large
from openinfer.testing.large_examples import LARGE_TYPES
from openinfer.testing.legality import is_legal
from openinfer.testing.sum_errors import counted_sums
from openinfer.testing.values import Draw, bounded, draw, generator, held_within, specials, types_of_language

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import InputSpec, Operand, OpExample, OpSchema, SettingSpec
    from openinfer.testing.values import Array

    Settings = Mapping[str, SettingValue]

LARGE = 70_001
"""Elements of the large shape of operators on elements: odd, and more than tables and integers are worked on at a
time."""

LARGE_F32 = 140_003
"""The same for f32: expressions of several functions go block by block from 131,072 elements on."""

IN_PLACE_LARGE = frozenset({"f32", "i8"})
"""Element types of which large results are written over inputs too: a block must not overwrite what another reads."""

LONG = 10_007
"""Elements of other large shapes, such as those of reductions: odd, and few enough that sums of squares are exact in
f32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call with the way to make its inputs.

    Attributes:
        call: the operator with every type and setting.
        settings: those that the program gives.
        shapes: what kind of shapes it has, for reports.
        draws: one entry per input (None where left out).
        bounds: least and greatest value of each input, where it has any.
        domains: bounds of values that are drawn without them: whatever is within them stays.
        declared: types that the program declares for its results, where it has to; none otherwise.
        target: number of the input that the result is written over, or None.
    """

    call: OpCall
    settings: Settings
    shapes: str
    draws: tuple[Draw | None, ...]
    bounds: tuple[tuple[int, int] | None, ...]
    domains: tuple[tuple[float, float] | None, ...] = ()
    declared: tuple[TensorType, ...] = ()
    target: int | None = None

    def __str__(self) -> str:
        given = [f"{n}={v}" for n, v in self.settings.items()]
        types = ["-" if t is None else str(t) for t in self.call.inputs]
        over = "" if self.target is None else f" over input {self.target}"
        return f"{self.call.op}({', '.join([*types, *given])}){over}"

    def inputs(self) -> list[Array | None]:
        """Return the inputs, the same each time."""
        random = generator(self)
        found: list[Array | None] = []
        for given, how, limits in zip(self.call.inputs, self.draws, self.bounds, strict=True):
            if given is None or how is None:
                found.append(None)
            elif limits is not None:
                found.append(bounded(given.dtype, given.shape, *limits, random))
            else:
                found.append(draw(given.dtype, given.shape, how, random))
        for place, limits in enumerate(self.domains):
            given, drawn = self.call.inputs[place], found[place]
            if limits is not None and given is not None and drawn is not None and self.bounds[place] is None:
                found[place] = held_within(drawn, given.dtype, *limits, random)
        return found


def sampled(found: Sequence[Case], every: int) -> list[Case]:
    """Return about one case in ``every``, the same each time, and the first one in any event.

    Which ones depends on their text alone, so that over all element types every setting and kind of shape is met.
    """
    return [case for number, case in enumerate(found) if not number or zlib.crc32(repr(case).encode()) % every == 0]


def cases(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> list[Case]:
    """Return the cases of an operator for an element type, none for others than its own; ``dtypes`` finds element types
    by name.

    Raises:
        OpTypeError: the operator does not take one of its examples or what the specification allows, or takes what the
            specification refuses.
    """
    if dtype.name not in schema.dtypes:
        return []
    dtypes = types_of_language(dtypes)
    drafts = [*_from_examples(schema, dtype, dtypes)]
    if isinstance(schema.definition, Elementwise):
        drafts += _elementwise(schema, dtype, dtypes)
    if isinstance(schema.definition, Reduction):
        drafts += _reductions(schema, dtype)
    drafts += _large(schema, dtype, dtypes)
    normal = [case for draft in drafts if (case := _case(schema, draft)) is not None]
    written_over = [replace(case, target=n) for case in normal for n in _targets(schema, case)]
    return [legal for case in (*normal, *written_over) for legal in _accepted(schema, case)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    inputs: tuple[TensorType | None, ...]
    settings: Settings
    shapes: str
    draws: tuple[Draw, ...]
    bounds: tuple[tuple[int, int] | None, ...]
    declared: tuple[TensorType, ...] = ()
    is_example: bool = False


def _case(schema: OpSchema, draft: _Draft) -> Case | None:
    """Return the case of a draft, or None where the operator does not take it.

    Raises:
        OpTypeError: it does not take what is an example of it or what the specification allows, or takes what the
            specification refuses.
    """
    legal = is_legal(schema.name, draft.inputs, draft.settings)
    given = ", ".join([*map(str, draft.inputs), *(f"{name}={value}" for name, value in draft.settings.items())])
    try:
        call = call_of(schema, draft.inputs, draft.settings, draft.declared)
    except OpTypeError as error:
        if not legal and not draft.is_example:
            return None
        what = f"its example ({given})" if draft.is_example else f"({given})"
        raise OpTypeError(f"does not take {what}: {error}", of=schema.name, code=error.code) from None
    if legal is False:
        raise OpTypeError(f"takes ({given}), which the specification refuses", of=schema.name)
    draws = tuple(None if t is None else how for t, how in zip(draft.inputs, draft.draws, strict=True))
    return Case(
        call=call,
        settings=draft.settings,
        shapes=draft.shapes,
        draws=draws,
        bounds=draft.bounds,
        domains=_domains(schema, len(draft.inputs)),
        declared=draft.declared,
    )


def _domains(schema: OpSchema, inputs: int) -> tuple[tuple[float, float] | None, ...]:
    """Return the domain of each input of a call; none where no input of the operator has one."""
    if not schema.domain:
        return ()
    specs = [schema.inputs[min(place, len(schema.inputs) - 1)] for place in range(inputs)]
    return tuple(schema.domain.get(spec.name) for spec in specs)


def _accepted(schema: OpSchema, case: Case) -> Iterator[Case]:
    """Yield the case; where the operator refuses some of its elements, those of small whole numbers that it takes."""
    if not _refuses(schema, case):
        yield case
        return
    for low, high in ((1, 7), (-7, -1)):
        bounds = tuple(None if given is None else _within(given.dtype, low, high) for given in case.call.inputs)
        changed = replace(case, bounds=bounds)
        if all(limits is None or limits[0] <= limits[1] for limits in bounds) and not _refuses(schema, changed):
            yield changed


def _refuses(schema: OpSchema, case: Case) -> bool:
    test = refused_expression(schema, case.call)
    if test is None:
        return False
    refused = np.empty(case.call.outputs[0].shape, np.bool_)
    with np.errstate(all="ignore"):
        compile_program(linearise(test))(case.inputs(), refused)
    return bool(refused.any())


def _within(dtype: DType, low: int, high: int) -> tuple[int, int]:
    least, greatest = dtype.minimum, dtype.maximum
    return low if least is None else max(low, least), high if greatest is None else min(high, greatest)


def _targets(schema: OpSchema, case: Case) -> Iterator[int]:
    if not schema.in_place or case.settings.get("acc") is not None or len(case.call.outputs) != 1:
        return
    if case.shapes == "large" and case.call.outputs[0].dtype.name not in IN_PLACE_LARGE:
        return
    for number, given in enumerate(case.call.inputs):
        if given == case.call.outputs[0]:
            yield number


def _from_examples(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> Iterator[_Draft]:
    for example in _fitting(schema, dtype):
        for settings in _variants(schema, example.settings, dtypes):
            draft = _example_draft(schema, example, settings, dtype, dtypes)
            yield draft
            yield from _strewn(schema, draft)
            yield from _rough(schema, draft)


def _example_draft(
    schema: OpSchema, example: OpExample, settings: Settings, dtype: DType, dtypes: Mapping[str, DType]
) -> _Draft:
    inputs = tuple(None if o is None else operand_type(o, dtype, dtypes) for o in example.inputs)
    how = Draw.SPECIAL if isinstance(schema.definition, Elementwise) else Draw.DYADIC
    return _Draft(
        inputs=inputs,
        settings=settings,
        shapes="example",
        draws=(Draw.CODES if schema.category == "movement" else how,) * len(inputs),
        bounds=tuple(_bounds(o) for o in example.inputs),
        declared=tuple(operand_type(o, dtype, dtypes) for o in example.outputs),
        is_example=settings == example.settings,
    )


def _strewn(schema: OpSchema, draft: _Draft) -> Iterator[_Draft]:
    """Yield the draft with NaN, infinities and zeros in one of its inputs that are free to have them, each in turn."""
    for place, given in enumerate(draft.inputs):
        is_free = draft.bounds[place] is None and not _is_parameter(schema, place)
        if given is None or not given.dtype.is_float or not given.count or not is_free:
            continue
        if draft.draws[place] is Draw.DYADIC:
            draws = (*draft.draws[:place], Draw.STREWN, *draft.draws[place + 1 :])
            yield replace(draft, shapes="strewn", draws=draws)


def _rough(schema: OpSchema, draft: _Draft) -> Iterator[_Draft]:
    """Yield the draft with floats whose sums round, where it is known how far they may be off."""
    floats = any(given is not None and given.dtype.is_float for given in draft.inputs)
    if floats and draft.is_example and schema.name in counted_sums():
        yield replace(draft, shapes="rough", draws=(Draw.ROUGH,) * len(draft.draws))


def _is_parameter(schema: OpSchema, place: int) -> bool:
    """Whether an input is a number of the model, of which the specification leaves open what infinite ones make of
    zeros: of those in the margins of a convolution, and of stored weights that are scaled after they are summed."""
    scales = schema.stored_scales
    is_scale = scales is not None and place < len(schema.inputs) and schema.inputs[place].name == scales.scale
    return is_scale or (schema.category == "convolution" and place > 0)


def _reductions(schema: OpSchema, dtype: DType) -> Iterator[_Draft]:
    """Yield inputs of any shape, reduced to one element."""
    for name, (shape,) in (*_shapes(1, broadcast=False), ("large", [(LONG,)])):
        draft = _shaped([dtype], [shape], _required(schema, dtype), name, Draw.DYADIC, ())
        yield draft
        yield from _strewn(schema, draft)


def _large(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> Iterator[_Draft]:
    """Yield large calls of operators that their kind alone does not determine."""
    if dtype.name not in LARGE_TYPES:
        return
    for example in known_large().get(schema.name, ()):
        if example.dtypes is None or dtype.name in example.dtypes:
            yield replace(_example_draft(schema, example, example.settings, dtype, dtypes), shapes="large")


def _bounds(operand: Operand | None) -> tuple[int, int] | None:
    if operand is None or operand.low is None or operand.high is None:
        return None
    return operand.low, operand.high


def _elementwise(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> Iterator[_Draft]:
    base = _required(schema, dtype)
    bounds = _example_bounds(schema, dtype)
    shown = [e.settings for e in _fitting(schema, dtype) if e.settings not in ({}, base)]
    for types in _element_types(schema, dtype, dtypes):
        for settings in (*_variants(schema, base, dtypes), *shown):
            several = [(_special_count(dtype, len(types)),)] * len(types)
            yield _shaped(types, several, settings, "special", Draw.SPECIAL, bounds)
        shapes = _shapes(len(types), broadcast=schema.broadcast, large=_large_count(dtype))
        for number, (name, each) in enumerate(shapes):
            settings = {**_types_in_turn(schema, dtype, dtypes, number), **base}
            yield _shaped(types, each, settings, name, Draw.CODES, bounds)


def _large_count(dtype: DType) -> int:
    """Return the elements of the large shape: fewer for types that are worked on like another one."""
    if dtype.bits not in (4, 8, 32):
        return LONG
    return LARGE_F32 if dtype.name == "f32" else LARGE


def _types_in_turn(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType], number: int) -> Settings:
    """Return an element type for each setting that takes one: another one for each type and each kind of shape."""
    every = list(dtypes.values())
    other = every[(every.index(dtype) + number + 1) % len(every)]
    return {spec.name: other for spec in schema.settings if spec.type is SettingType.DTYPE}


def _fitting(schema: OpSchema, dtype: DType) -> Iterator[OpExample]:
    """Yield the examples for a type."""
    return (example for example in schema.examples if example.dtypes is None or dtype.name in example.dtypes)


def _example_bounds(schema: OpSchema, dtype: DType) -> tuple[tuple[int, int] | None, ...]:
    """Return the limits of each input in the first example for a type: elsewhere the operator reports an error."""
    example = next(_fitting(schema, dtype), None)
    return () if example is None else tuple(_bounds(operand) for operand in example.inputs)


def _required(schema: OpSchema, dtype: DType) -> Settings:
    """Return the settings that must be given, as the first example for a type has them; element types vary anyway."""
    if not any(isinstance(s.default, Required) and s.type is not SettingType.DTYPE for s in schema.settings):
        return {}
    example = next(_fitting(schema, dtype), None)
    return {} if example is None else example.settings


def _shaped(
    types: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    settings: Settings,
    name: str,
    how: Draw,
    bounds: tuple[tuple[int, int] | None, ...],
) -> _Draft:
    inputs = tuple(TensorType(dtype, shape) for dtype, shape in zip(types, shapes, strict=True))
    limits = bounds if len(bounds) == len(inputs) else (None,) * len(inputs)
    return _Draft(inputs=inputs, settings=settings, shapes=name, draws=(how,) * len(inputs), bounds=limits)


def _special_count(dtype: DType, inputs: int) -> int:
    """Return a number of elements with which combinations of special values occur."""
    return len(specials(dtype)) ** min(inputs, 2) + 3 if dtype.name != "bool" else 32


def _shapes(inputs: int, *, broadcast: bool, large: int | None = None) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    for name, shape in (("scalar", ()), ("empty", (2, 0, 3)), ("odd", (3, 5, 7)), ("one", (1,))):
        yield name, [shape] * inputs
    if large:
        yield "large", [(large,)] * inputs
    if broadcast and inputs > 1:
        others: list[tuple[int, ...]] = [(2, 3, 5), (5,), (3, 1), (), (1, 1, 5)]
        for shift in range(len(others)):
            yield "broadcast", [others[(shift + number) % len(others)] for number in range(inputs)]
        yield "broadcast", [(0, 3), *[(1, 3)] * (inputs - 1)]
        if large == LARGE_F32:
            # One type stands for all: the loops over rows and columns are the same.
            wide: list[tuple[int, ...]] = [(37, 131), (131,), (37, 1)]
            for shift in range(2):
                yield "broadcast", [wide[(shift + number) % len(wide)] for number in range(inputs)]


def _element_types(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> Iterator[list[DType]]:
    """Yield the types of the inputs: with ``dtype`` where it may be, and another where inputs have their own."""
    given = [spec for spec in schema.inputs if not spec.optional]
    first = [_element_type(spec, dtype, dtypes) for spec in given]
    yield first
    if any(spec.dtypes is not None and "bool" in spec.dtypes for spec in given) and dtypes["bool"] not in first:
        yield [dtypes["bool"] if spec.dtypes and "bool" in spec.dtypes else dtype for spec in given]


def _element_type(spec: InputSpec, dtype: DType, dtypes: Mapping[str, DType]) -> DType:
    if spec.dtypes is None or dtype.name in spec.dtypes:
        return dtype
    return next(found for name, found in dtypes.items() if name in spec.dtypes)


def _variants(schema: OpSchema, base: Settings, dtypes: Mapping[str, DType]) -> Iterator[Settings]:
    """Yield settings: those given, then each other value of every setting that has few, one setting at a time."""
    every = [spec for spec in schema.settings if spec.type is SettingType.DTYPE]
    bases: list[Settings] = [
        {**base, **dict(zip([spec.name for spec in every], values, strict=True))}
        for values in product(dtypes.values(), repeat=len(every))
    ]
    for one in bases:
        yield one
        for spec in schema.settings:
            if spec.name not in base:
                yield from ({**one, spec.name: value} for value in _other_values(spec, dtypes))


def _other_values(spec: SettingSpec, dtypes: Mapping[str, DType]) -> Iterator[SettingValue]:
    if spec.type is SettingType.BOOL:
        yield not spec.default
    elif spec.type is SettingType.ACC:
        wide = [d for d in dtypes.values() if d.bits >= 8 and (d.is_integer or d.is_float)]
        yield from wide
        yield from ((d, dtypes[last]) for d in wide for last in ("i8", "f16"))
    else:
        yield from (choice for choice in spec.choices if choice != spec.default)
