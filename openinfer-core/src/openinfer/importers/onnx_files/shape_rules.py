"""Types of results: the shape rule of an operator, run on sizes, and what it demands of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index, Quotient, Remainder, Var
from openinfer.dims import Condition, Dim, Let, LetKind, NeedsNumberError, Path, Relation, sources
from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers.onnx_files.demands import fixing, is_bound, take
from openinfer.importers.onnx_files.size_words import condition_in_words
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine.index import Atom
    from openinfer.importers.onnx_files.dimensions import Dimensions
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import OpSchema


_TypesPath: TypeAlias = "Path[tuple[TensorType, ...]]"


class FixedSizesError(ModelImportError):
    """An operator that leaves sizes no freedom.

    Attributes:
        sizes: the numbers of dimensions, or the dimensions that they equal, by the names of the model, where it accepts
            no others.
    """

    def __init__(self, message: str, *, sizes: Mapping[str, int | str]) -> None:
        super().__init__(message, code="import-unsupported")
        self.sizes = sizes


class ShapeRules:
    """Runs shape rules on the sizes of a model, and collects what they demand."""

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions
        self._space = dimensions.space
        self._equal: dict[Atom, Index] = {}

    def types(
        self,
        schema: OpSchema,
        inputs: Sequence[TensorType | None],
        settings: Mapping[str, SettingValue],
        declared: Sequence[TensorType],
    ) -> tuple[TensorType, ...]:
        """Return the types of the results of a call.

        Raises:
            ModelImportError: the operator cannot take these inputs, or only at certain sizes.
        """
        inputs = [None if value is None else self._rewritten(value) for value in inputs]
        declared = [self._rewritten(value) for value in declared]

        def rule() -> tuple[TensorType, ...]:
            return call_of(schema, inputs, settings, declared).outputs

        try:
            if not _have_sizes(inputs, settings, declared):
                return rule()
            paths = self._space.explore(rule)
            path, guards = _freest(paths)
        except NeedsNumberError as error:
            message = f"{schema.name}: {self._dimensions.needs_number(error)}"
            raise ModelImportError(message, code="import-unsupported") from error
        except OpenInferError as error:
            raise ModelImportError(str(error), code="import-unsupported") from error
        self._take(schema, guards, paths)
        if path.value is None:
            raise TypeError(schema.name)
        return path.value

    def _take(self, schema: OpSchema, guards: Sequence[Condition], paths: Sequence[_TypesPath]) -> None:
        equations = [equation for guard in guards if (equation := fixing(guard, self._space))]
        if equations:
            demands = " and ".join(map(condition_in_words, equations))
            message = f"{schema.name} needs {demands}: fix the size with {self._dimensions.advice(equations)}"
            raise FixedSizesError(message, sizes=self._dimensions.numbers(self._certain(equations, paths)))
        for guard in guards:
            take(self._space, guard)
            if guard.relation is Relation.EQUAL:
                self._note_equation(guard.index)

    def _certain(self, equations: Sequence[Condition], paths: Sequence[_TypesPath]) -> list[Condition]:
        """Return the equations without which a rule accepts no sizes."""
        accepted = [path for path in paths if path.error is None]
        demands = [{fixing(guard, self._space) for guard in path.guards} for path in accepted]
        return [equation for equation in equations if all(equation in demand for demand in demands)]

    def _note_equation(self, index: Index) -> None:
        """Let a quotient that equals other sizes be them, so that equal extents have one form."""
        for atoms, factor in reversed(index.terms):
            if len(atoms) != 1 or abs(factor) != 1 or not isinstance(atoms[0], Quotient):
                continue
            rest = (index - Index(((atoms, factor),))) * -factor
            if not _occurs(atoms[0], rest):
                self._equal[atoms[0]] = rest
                return

    def _rewritten(self, value: TensorType) -> TensorType:
        if not self._equal:
            return value
        return TensorType(value.dtype, tuple(map(self._rewritten_size, value.shape)))

    def _rewritten_size(self, size: int) -> int:
        if not isinstance(size, Dim):
            return size
        return Dim(self._rewritten_index(size.index), size.asked) + 0

    def _rewritten_index(self, index: Index) -> Index:
        total = Index()
        for atoms, factor in index.terms:
            product = Index.of(factor)
            for atom in atoms:
                product = product * self._rewritten_atom(atom)
            total = total + product
        return total

    def _rewritten_atom(self, atom: Atom) -> Index:
        if atom in self._equal:
            return self._rewritten_index(self._equal[atom])
        if isinstance(atom, Let):
            parts = tuple(map(self._rewritten_index, atom.parts))
            if parts == atom.parts:
                return Index.of(atom)
            return parts[0] if atom.kind is LetKind.SUM else Index.of(Let.of(atom.kind, *parts))
        if isinstance(atom, Var):
            return Index.of(atom)
        inner = self._rewritten_index(atom.of)
        if inner == atom.of:
            return Index.of(atom)
        return inner % atom.by if isinstance(atom, Remainder) else inner // atom.by


def _freest(paths: Sequence[_TypesPath]) -> tuple[_TypesPath, list[Condition]]:
    """Return the way through a rule that leaves sizes the most freedom, and what it demands of them.

    Raises:
        OpenInferError: the rule accepts no sizes.
        NeedsNumberError: results have several forms, between which no bound of a size decides.
    """
    freest = min(paths, key=_narrowness)
    if freest.error is not None:
        raise freest.error
    guards: list[Condition] = []
    for number, guard in enumerate(freest.guards):
        # A question with the same outcome for both answers demands nothing.
        others = [path for path in paths if path.guards[: number + 1] == (*freest.guards[:number], guard.negated())]
        if others and all(path.error is None and path.value == freest.value for path in others):
            continue
        is_form = guard in freest.choices or (guard.relation is Relation.AT_LEAST and not is_bound(guard))
        if is_form and any(path.error is None for path in others):
            message = f"the result has one form where {condition_in_words(guard)}, and another one elsewhere"
            raise NeedsNumberError(message, sizes=sources(guard.index))
        guards.append(guard)
    return freest, guards


def _narrowness(path: _TypesPath) -> tuple[bool, int, int]:
    equations = sum(guard.relation is Relation.EQUAL for guard in path.guards)
    return path.error is not None, equations, sum(map(_is_upper_bound, path.guards))


def _have_sizes(
    inputs: Sequence[TensorType | None], settings: Mapping[str, SettingValue], declared: Sequence[TensorType]
) -> bool:
    shapes = [value.shape for value in (*inputs, *declared) if value is not None]
    lists = [value if isinstance(value, tuple) else (value,) for value in settings.values()]
    return any(isinstance(part, Dim) for part in _flat([*shapes, *lists]))


def _flat(lists: Sequence[tuple[object, ...]]) -> Iterator[object]:
    for parts in lists:
        yield from parts


def _is_upper_bound(guard: Condition) -> bool:
    return guard.relation is Relation.AT_LEAST and all(factor < 0 for atoms, factor in guard.index.terms if atoms)


def _occurs(atom: Atom, index: Index) -> bool:
    """Whether an atom is part of an index, also within other atoms."""
    for atoms, _ in index.terms:
        for other in atoms:
            inner = other.parts if isinstance(other, Let) else () if isinstance(other, Var) else (other.of, other.by)
            if other == atom or any(_occurs(atom, part) for part in inner):
                return True
    return False
