"""How an operator is described: signature, rules for types and shapes, and one definition of what it computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from openinfer.compute.stage import Order
from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall


class OpTypeError(OpenInferError):
    """Types, shapes or settings that an operator cannot take; ``code`` is that of the static error catalogue.

    ``position`` is that of the one input at fault, where it is known. ``settings`` are the settings at fault by their
    canonical names, the likeliest first: findings point at the values of those that the statement gives. ``hint`` says
    what to do, where that is known. ``of`` is the operator whose name the message begins with; ``predicate`` is then
    the rest, so that findings can name the statement's operands in its place.
    """

    default_code = "shape-mismatch"

    def __init__(
        self,
        message: str,
        *,
        of: str | None = None,
        code: str | None = None,
        position: int | None = None,
        settings: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message if of is None else f"{of} {message}", code=code)
        self.of = of
        self.predicate = None if of is None else message
        self.hint = hint
        self.position = position
        self.settings = settings


class Required(Enum):
    """Marker for a setting without a default."""

    REQUIRED = "required"


class SettingType(Enum):
    """What a setting takes.

    ``SCALAR`` is a number or bool of whatever type the inputs have, on which no shape depends; ``NUMBER`` may
    decide about a shape and can be an expression of size variables.
    """

    INT = "int"
    FLOAT = "float"
    NUMBER = "int or float"
    SCALAR = "scalar"
    BOOL = "bool"
    STR = "string"
    DTYPE = "dtype"
    INT_LIST = "int list"
    INT_OR_LIST = "int or int list"
    FLOAT_OR_LIST = "float or float list"
    PADDING = "int, int list or name"
    ACC = "dtype or dtype list"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSpec:
    """A setting of an operator.

    Attributes:
        default: value when it is not given; None: the operator works without; `Required.REQUIRED`: it must be given.
        aliases: other names.
        choices: legal values of a string setting.
        doc: what it does, one line.
    """

    name: str
    type: SettingType
    default: SettingValue | Required = Required.REQUIRED
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """An input of an operator.

    Attributes:
        dtypes: legal element types by name; None means those of the operator, all such inputs having one type.
        optional: may be left out; then it is given by name.
        variadic: stands for any number (at least one) of inputs; only the last input may.
        doc: what it is, with its shape, one line.
    """

    name: str
    dtypes: frozenset[str] | None = None
    optional: bool = False
    variadic: bool = False
    doc: str = ""


class InferTypes(Protocol):
    """Rule for output types.

    ``inputs`` has one entry per input of the schema (None for an optional one left out), variadic ones following;
    ``declared`` are the types of the output variables (empty when unknown). Broadcasting, shapes and settings are
    checked here.

    Raises:
        OpTypeError: the operator cannot take these.
    """

    def __call__(
        self,
        inputs: Sequence[TensorType | None],
        settings: Mapping[str, SettingValue],
        declared: Sequence[TensorType],
        /,
    ) -> tuple[TensorType, ...]: ...


class BuildScalar(Protocol):
    """Builds the expression of one output element.

    ``inputs`` are the elements in their compute types (low floats as f32, packed integers as they are), ``out`` is the
    compute type of the output: the result must have it.
    """

    def __call__(self, inputs: Sequence[Expr], settings: Mapping[str, SettingValue], out: DType, /) -> Expr: ...


class ReducedAxes(Protocol):
    """Returns the axes that a reduction folds, ascending and non-negative."""

    def __call__(self, rank: int, settings: Mapping[str, SettingValue], /) -> tuple[int, ...]: ...


class BuildFold(Protocol):
    """Builds the fold for an element of compute type ``element`` and a result of compute type ``out``."""

    def __call__(self, element: DType, settings: Mapping[str, SettingValue], out: DType, /) -> Fold: ...


class Decompose(Protocol):
    """Writes an operator in terms of others through a `Decomposer`; returns the numbers of the output values.

    ``inputs`` has one entry per input of the schema (None for an optional one left out), variadic ones following.
    """

    def __call__(
        self,
        steps: Decomposer,
        inputs: Sequence[int | None],
        settings: Mapping[str, SettingValue],
        /,
    ) -> tuple[int, ...]: ...


class Decomposer(Protocol):
    """What a decomposition is written with: values are numbers, their types can be requested."""

    @property
    def outputs(self) -> tuple[TensorType, ...]:
        """Types of the outputs of the operator that is decomposed."""
        ...

    def type_of(self, value: int) -> TensorType: ...

    def op(self, name: str, *inputs: int | None, **settings: SettingValue) -> int:
        """Append a call of another operator and return its first output.

        An input that is None is left out, as are those after the last one given: both have to be optional.
        """
        ...

    def ops(self, name: str, *inputs: int | None, **settings: SettingValue) -> tuple[int, ...]:
        """Append a call of another operator, as `op` does, and return all of its outputs."""
        ...

    def reshape(self, value: int, shape: tuple[int, ...]) -> int:
        """Append a call of ``reshape`` to exactly this shape, in which 0 and -1 have no meaning of their own."""
        ...


class BuildRefusal(Protocol):
    """Builds the test whether an element is refused, over inputs as for `BuildScalar`; None where none is."""

    def __call__(self, inputs: Sequence[Expr], settings: Mapping[str, SettingValue], /) -> Expr | None: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Elements that an operator has no value for: a step that meets one ends with the error ``out-of-range``.

    Attributes:
        build: the test; a call that has one runs from a stage with a check or by a kernel, as expressions report no
            errors.
        rule: what is reported where an element is refused: what is legal, and what to do.
    """

    build: BuildRefusal
    rule: str


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Each output element is an expression of the input elements at its (broadcast) position.

    ``refusal`` names the elements that are errors; those have a value in the expression all the same.
    """

    build: BuildScalar
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction of the elements at the folded positions.

    Attributes:
        start: accumulator before the first element (over no inputs); None means that the first mapped element starts it
            and that an empty slice is an error.
        element: the mapped element, over input 0.
        combine: the next accumulator, over input 0 (accumulator) and input 1 (mapped element).
        finish: the result, over input 0 (accumulator) and input 1 (number of elements, i64).
        order: whether elements are combined in row-major order, or in any.
    """

    start: Expr | None
    element: Expr
    combine: Expr
    finish: Expr
    order: Order = Order.SEQUENTIAL


@dataclass(frozen=True, slots=True)
class Reduction:
    """The output folds the input over some axes."""

    axes: ReducedAxes
    build: BuildFold


@dataclass(frozen=True, slots=True)
class Composite:
    """The operator is a rewriting into others."""

    decompose: Decompose


class DefineStages(Protocol):
    """Writes the stages of a call with a builder, whose inputs and outputs are those of the call."""

    def __call__(self, k: Builder, call: OpCall, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Compute:
    """Each output element is an expression over index space: contractions, windows, data movement, lookups.

    ``define`` reads elements in their stored types; the value of a stage is converted to the type of its output.

    Attributes:
        in_order: whether the result has the elements of the one input in row-major order, whatever its shape is. Where
            shapes are known at run time only they are copied as one row, so that no place needs a proof.
    """

    define: DefineStages
    in_order: bool = False


class DefineLoops(Protocol):
    """Writes the loop program of a call.

    Its buffers are the inputs that are given, in their order, and then the outputs: row-major, in global memory, of the
    types and sizes that the call says.
    """

    def __call__(self, call: OpCall, /) -> Kernel: ...


@dataclass(frozen=True, slots=True)
class Loops:
    """The operator is a loop program: for what has no expression for each element, such as sorting.

    ``define`` builds it from `openinfer.loops`, or reads it from text (`openinfer.loops.reading.parse_kernel`).
    ``stages``, where given, computes the same results place by place, in more steps altogether: devices of many threads
    take it, which do not take loop programs.
    """

    define: DefineLoops
    stages: DefineStages | None = None


@dataclass(frozen=True, slots=True)
class Primitive:
    """The operator has kernels only: contractions and data movement."""


Definition: TypeAlias = Elementwise | Reduction | Composite | Compute | Loops | Primitive


def _no_settings() -> Mapping[str, SettingValue]:
    return {}


def _no_domain() -> Mapping[str, tuple[float, float]]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An input or output of an example.

    Attributes:
        dtype: name of its element type; None: the type that the example is made for, one of the operator's.
        low, high: least and greatest value, inclusive, for inputs such as indices; None: any that the type holds.
    """

    shape: tuple[int, ...]
    dtype: str | None = None
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpExample:
    """A legal call: shown in the documentation and run by the conformance tests for every type of the operator.

    Attributes:
        inputs: one entry per input, None for an optional one left out; variadic ones follow.
        settings: those that differ from their defaults.
        outputs: types of the output variables, where the operator takes them from there.
        dtypes: names of the types that the example is for; None: all of the operator's.
    """

    inputs: tuple[Operand | None, ...]
    settings: Mapping[str, SettingValue] = field(default_factory=_no_settings)
    outputs: tuple[Operand, ...] = ()
    dtypes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScales:
    """Inputs that the model supplies when they are not given: how another input, a quantised tensor, is quantised.

    Attributes:
        of: name of the quantised input.
        scale, zero_point: names of the inputs that are supplied.
        axis: from the settings to the dim of the quantised input that scales must go along.
        sets_axis: name of the setting that says so itself, which is set from the model when it is not given.
    """

    of: str
    scale: str = "scale"
    zero_point: str = "zero_point"
    axis: Callable[[Mapping[str, SettingValue]], int] | None = None
    sets_axis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSchema:
    """An operator.

    Attributes:
        name: canonical name, snake_case.
        summary: formula and meaning, one or two lines.
        category: family, for listings.
        inputs, outputs, settings: the signature.
        counted: results whose first dim is known only once the operator has run. The second output, an i64 scalar,
            holds it; ``infer`` returns the most rows that there may be (`openinfer.ops.counting`).
        variadic_outputs: whether the last output stands for any number (at least one) of outputs.
        dtypes: names of the element types that the inputs without types of their own may have.
        infer: rule for output types.
        definition: what is computed.
        broadcast: whether inputs broadcast against each other.
        in_place: whether an output may be one of the inputs (results are computed from the values before the operator).
        aliases: other names.
        onnx: nearest ONNX operator, or the operators that make it up in their order, separated by commas.
        stored_scales: inputs that a quantised tensor of the model supplies.
        examples: legal calls at several shapes, each setting used; elementwise operators need none.
        oracle: ``"module:function"``, an `openinfer.testing.oracle.Oracle` that computes the operator in another way:
            the conformance kit compares devices with it. For the operators of core it has its own.
        tolerance: units in the last place that floats may be off there, of the type that they are computed in; 0: every
            bit is compared. None: as it follows from the definition.
        domain: least and greatest value that the kit gives inputs, by name; any where there is none.
        replaces: provider (plugin name) whose operator of this name it takes the place of.
    """

    name: str
    summary: str
    category: str
    inputs: tuple[InputSpec, ...]
    dtypes: frozenset[str]
    infer: InferTypes
    definition: Definition
    outputs: tuple[str, ...] = ("y",)
    counted: tuple[str, ...] = ()
    variadic_outputs: bool = False
    settings: tuple[SettingSpec, ...] = ()
    broadcast: bool = False
    in_place: bool = False
    aliases: tuple[str, ...] = ()
    onnx: str | None = None
    stored_scales: StoredScales | None = None
    examples: tuple[OpExample, ...] = ()
    oracle: str | None = None
    tolerance: float | None = None
    domain: Mapping[str, tuple[float, float]] = field(default_factory=_no_domain)
    replaces: str | None = None

    def setting(self, name: str) -> SettingSpec | None:
        """Return the setting of that name or alias."""
        return next((s for s in self.settings if name == s.name or name in s.aliases), None)

    def input(self, name: str) -> InputSpec | None:
        """Return the input of that name."""
        return next((i for i in self.inputs if i.name == name), None)
