"""Shape rules of imported nodes: extents that an operator demands to be equal have one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from openinfer import dims
from openinfer.dims import Condition, Dim, NeedsNumberError, Relation, Space
from openinfer.importers.onnx_files import shape_rules
from openinfer.importers.onnx_files.dimensions import Dimensions
from openinfer.importers.onnx_files.shape_rules import ShapeRules
from openinfer.importers.onnx_files.source import SourceGraph


def test_a_quotient_that_equals_a_size_is_that_size_within_computed_sizes_too() -> None:
    dimensions = Dimensions(SourceGraph("main", (), (), (), {}), {})
    space: Space = dimensions.space
    t, u = space.size("T", 1, 64), space.size("U", 1, 64)
    half: Any = t // 2
    rules = cast("Any", ShapeRules(dimensions))

    rules._note_equation(Condition((half - u).index, Relation.EQUAL).index)

    longest = rules._rewritten_size(dims.max(half, 3) + half)
    assert type(longest) is Dim
    assert longest.index == (dims.max(u, 3) + u).index


def test_a_quotient_that_equals_what_is_computed_from_it_stays() -> None:
    dimensions = Dimensions(SourceGraph("main", (), (), (), {}), {})
    half: Any = dimensions.space.size("T", 1, 64) // 2
    rules = cast("Any", ShapeRules(dimensions))

    rules._note_equation((half - dims.max(half, 3)).index)

    assert rules._rewritten_size(half).index == half.index


@pytest.mark.parametrize("rule", [lambda t, u: t if t >= u else u + 1, lambda t, u: (t, u)[: dims.one_of(t, (1, 2))]])
def test_a_result_of_several_forms_needs_the_number(rule: Callable[[Any, Any], Any]) -> None:
    space: Space = Dimensions(SourceGraph("main", (), (), (), {}), {}).space
    t, u = space.size("T", 1, 2), space.size("U", 1, 64)
    freest = cast("Any", shape_rules)._freest

    with pytest.raises(NeedsNumberError, match=r"one form where .* and another one elsewhere"):
        freest(space.explore(lambda: (rule(t, u),)))
