"""Types that an operator yields without a declaration of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from openinfer.errors import OpenInferError
from openinfer.ir.resolved import RuntimeInts
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import SettingType
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema, SettingSpec


class DependsOnDeclarationError(OpenInferError):
    """What an operator yields is what its outputs are declared as."""

    default_code = "cannot-infer"


class _Undeclared(Sequence[TensorType]):
    """Outputs without declarations: a rule may ask how many there are, but not what they are declared as."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: object) -> NoReturn:
        raise DependsOnDeclarationError(f"output {position} is not declared")


def yielded(
    schema: OpSchema, types: Sequence[TensorType | None], settings: Mapping[str, SettingValue], count: int
) -> tuple[TensorType, ...]:
    """Return the types that an operator yields to ``count`` outputs, whatever they are declared as.

    Raises:
        DependsOnDeclarationError: they are those of the declaration, in part or whole.
        OpTypeError: the operator does not take these types or settings.
        PluginError: the operator's rule failed.
        NeedsNumberError: the rule needs the number of an extent that is known at run time only.
    """
    return inferred_call(schema, types, settings, count).outputs


def inferred_call(
    schema: OpSchema, types: Sequence[TensorType | None], settings: Mapping[str, SettingValue], count: int
) -> OpCall:
    """Return the call of an operator whose rule sees no declarations; raises as `yielded` does."""
    return call_of(schema, types, settings, _Undeclared(count))


_OF_KIND: Mapping[SettingType, SettingValue] = {
    SettingType.FLOAT: 1.0,
    SettingType.BOOL: False,
    SettingType.INT_LIST: (0,),
}


def stand_in(spec: SettingSpec, value: UnresolvedSetting) -> SettingValue:
    """Return a value of the right kind for a setting that is only known at run time, so that types can be inferred."""
    if isinstance(value, RuntimeInts) and value.is_list:
        return tuple(expr.value if isinstance(expr, Const) else 1 for expr in value.exprs)
    return _OF_KIND.get(spec.type, 1 if spec.type is SettingType.SCALAR else 0)
