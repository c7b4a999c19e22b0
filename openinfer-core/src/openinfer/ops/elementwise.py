"""How elementwise operators are written down: one call per operator, the rest follows from its expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, I8, U8, DType, Kind
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.accumulate import ACC, accumulated, accumulator, delivered
from openinfer.ops.schema import BuildScalar, Elementwise, InferTypes, InputSpec, Operand, OpExample, OpSchema, Refusal
from openinfer.ops.shapes import broadcast, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import SettingSpec

    Settings = Mapping[str, SettingValue]
    CheckSettings = Callable[[DType, Settings], object]


def work_type(dtype: DType) -> DType:
    """Return the type in which expressions compute: f32 for low floats, a byte for packed types and bitset."""
    if dtype.is_low_float:
        return F32
    if dtype.kind is Kind.BITSET or (dtype.is_packed and dtype.kind is Kind.UNSIGNED):
        return U8
    return I8 if dtype.is_packed else dtype


def elementwise(
    name: str,
    inputs: str,
    dtypes: frozenset[str],
    build: BuildScalar,
    *,
    summary: str,
    category: str,
    settings: tuple[SettingSpec, ...] = (),
    check: CheckSettings | None = None,
    result: DType | None = None,
    specs: tuple[InputSpec, ...] = (),
    aliases: tuple[str, ...] = (),
    onnx: str | None = None,
    examples: tuple[OpExample, ...] = (),
    refusal: Refusal | None = None,
) -> OpSchema:
    """Return an elementwise operator whose inputs broadcast.

    Args:
        inputs: names of the inputs, separated by spaces.
        dtypes: element types of the inputs, which all have one (``specs`` replaces those of the same name).
        build: the expression, over inputs in their work types (with ``acc`` among the settings: in the accumulator),
            of any type that a cast turns into the output's.
        check: called with the element type and the settings; raises `OpTypeError` when a setting does not fit.
        result: output type; None: that of the inputs, or what ``acc`` says.
        refusal: which elements are errors, tested on inputs in their work types.
    """
    own = {spec.name: spec for spec in specs}
    signature = tuple(own.get(word, InputSpec(name=word)) for word in inputs.split())
    typed = next(place for place, spec in enumerate(signature) if spec.dtypes is None)
    return OpSchema(
        name=name,
        summary=summary,
        category=category,
        inputs=signature,
        dtypes=dtypes,
        settings=settings,
        infer=_inference(typed, result, check, accumulates=ACC in settings),
        definition=Elementwise(_in_work_types(build, typed, accumulates=ACC in settings), _widened(refusal)),
        broadcast=len(signature) > 1,
        in_place=True,
        aliases=aliases,
        onnx=onnx,
        examples=examples,
    )


def example(dtypes: frozenset[str], *, inputs: int = 1, **settings: SettingValue) -> OpExample:
    """Return an example that shows settings, for the element types that may have them."""
    return OpExample(inputs=(Operand(shape=(5,)),) * inputs, settings=settings, dtypes=dtypes)


def _inference(typed: int, result: DType | None, check: CheckSettings | None, *, accumulates: bool) -> InferTypes:
    def infer(
        inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
    ) -> tuple[TensorType, ...]:
        del declared
        dtype = needed(inputs, typed).dtype
        if check is not None:
            check(dtype, settings)
        shape = broadcast(*(given.shape for given in inputs if given is not None))
        return (TensorType(result or (accumulated(dtype, settings) if accumulates else dtype), shape),)

    return infer


def _in_work_types(build: BuildScalar, typed: int, *, accumulates: bool) -> BuildScalar:
    def built(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
        widened = [tree.cast(given, work_type(given.dtype)) for given in inputs]
        if accumulates:
            wide = work_type(accumulator(inputs[typed].dtype, settings))
            widened = [tree.cast(given, wide) for given in widened]
        return delivered(build(widened, settings, out), settings, out)

    return built


def _widened(refusal: Refusal | None) -> Refusal | None:
    """Return a refusal that tests elements in their work types."""
    if refusal is None:
        return None
    build = refusal.build

    def built(inputs: Sequence[Expr], settings: Settings) -> Expr | None:
        return build([tree.cast(given, work_type(given.dtype)) for given in inputs], settings)

    return Refusal(built, refusal.rule)


def of_elements(function: Callable[..., Expr]) -> BuildScalar:
    """Return the builder of a function of the elements alone."""

    def build(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
        del settings, out
        return function(*inputs)

    return build
