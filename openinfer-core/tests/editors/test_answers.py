"""Findings, hover and completion, from a text with a ``^`` where the cursor is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from openinfer.editors.analysis import analyse
from openinfer.editors.completion import completions
from openinfer.editors.hover import hover
from openinfer.model import Model
from openinfer.ops.schema import OpSchema
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import AttributeSpec

DECLARED = """
dynamic { x: f32[B]; flag: bool; }
volatile { y: f32[B]; W(l): f32[B, B] @pattern("W.{l}"); }
persistent { step: i32 @init(0); K(l): f32[B] @table; }
block other { return; }
"""


@pytest.fixture
def environment(catalog: Mapping[str, OpSchema]) -> Environment:
    aliases = {alias: schema.name for schema in catalog.values() for alias in schema.aliases}
    layout = AttributeSpec(name="layout", summary="order in memory")
    return Environment(ops=catalog, op_aliases=aliases, attributes={"layout": layout})


@pytest.fixture
def model() -> Model:
    arrays = {f"W.{i}": np.zeros((3, 3), np.float32) for i in range(2)}
    return Model.from_arrays(arrays, sizevars={"B": 3})


def hovered(text: str, environment: Environment, model: Model | None = None) -> str | None:
    offset = text.index("^")
    analysis = analyse(text.replace("^", "", 1), environment, model)
    occurrence = analysis.outline.at(offset)
    return None if occurrence is None else hover(analysis, occurrence, environment)


def proposed(statement: str, environment: Environment, model: Model | None = None) -> set[str]:
    """The labels proposed at the ``^`` of a statement in ``entry``."""
    text = f"{DECLARED} block entry {{ assign t: f32[B]; loop n (i in 0..2) {{ {statement} }} return; }}"
    offset = text.index("^")
    analysis = analyse(text.replace("^", "", 1), environment, model)
    return {proposal.label for proposal in completions(analysis, offset, environment, model)}


# Findings


def test_findings_of_every_phase_have_places(environment: Environment, model: Model) -> None:
    def codes(text: str, with_model: Model | None = None) -> list[str]:
        found = analyse(text, environment, with_model).findings
        assert all(finding.span is not None for finding in found)
        return [finding.code for finding in found]

    assert codes("block entry { op relu(x >> y; op } ") == ["syntax", "syntax", "no-return"]
    assert codes("dynamic { x: f31; } block entry { return; }") == ["unknown-dtype"]
    assert codes("block entry { branch nowhere; return; }") == ["unknown-block"]
    assert codes("dynamic { x: f32; } block entry { op rleu(x) >> x; return; }") == ["unknown-op"]
    assert codes("dynamic { x: f32[C]; } block entry { return; }", model) == ["unknown-sizevar"]
    assert codes("dynamic { x: f32[C]; } block entry { return; }") == []


def test_findings_of_all_phases_are_reported_together(environment: Environment, model: Model) -> None:
    text = (
        "dynamic { x: f31; z: f32[B]; } volatile { y: f32[2]; }"
        " block entry { op relu(z >> y; branch nowhere; op rleu(z) >> y; op relu(z) >> y; }"
    )

    without_model = analyse(text, environment)
    found = analyse(text, environment, model)

    assert [f.code for f in without_model.findings] == [
        "syntax",
        "unknown-dtype",
        "unknown-block",
        "unknown-op",
        "no-return",
    ]
    assert [f.code for f in found.findings] == [
        "syntax",
        "unknown-dtype",
        "unknown-block",
        "unknown-op",
        "shape-mismatch",
        "no-return",
    ]
    assert found.resolved is None


def test_a_program_that_fits_keeps_its_warnings_and_its_sizes(environment: Environment, model: Model) -> None:
    text = "dynamic { z: f32[B]; } volatile { y: f32[B]; } block entry { op relu(z) >> y; }"
    found = analyse(text, environment, model)
    assert [f.code for f in found.findings] == ["no-return"]
    assert found.resolved is not None
    assert found.resolved.variables["z"].type.shape == (3,)


def test_a_finding_after_a_byte_order_mark_has_its_place_in_the_text_shown(environment: Environment) -> None:
    text = "\ufeffblock entry { branch nowhere; return; }"
    (finding,) = analyse(text, environment).findings

    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] in ("branch nowhere", "nowhere")


def test_what_is_no_text_has_its_finding(environment: Environment) -> None:
    assert [f.code for f in analyse("block \ud800 {}", environment).findings] == ["not-text"]


# Hover


def test_hover_shows_a_declaration_with_its_shape(environment: Environment, model: Model) -> None:
    text = f"{DECLARED} block entry {{ op relu(^x) >> y; return; }}"

    assert "x: f32[B];" in (hovered(text, environment) or "")
    assert "dynamic variable" in (hovered(text, environment) or "")
    assert "with this model" not in (hovered(text, environment) or "")
    assert "with this model: `f32[3]`, 12 bytes" in (hovered(text, environment, model) or "")


def test_hover_shows_a_prefix_table_entry_by_entry(environment: Environment, model: Model) -> None:
    text = f"{DECLARED} block entry {{ op matmul(^W[0], W[1]) >> y; return; }}".replace("y: f32[B]", "y: f32[B, B]")

    assert "`f32[3, 3]`, 36 bytes an entry" in (hovered(text, environment, model) or "")


def test_hover_documents_operators_and_settings(environment: Environment) -> None:
    text = "block entry { op %s(x, %s=1.0) >> y; }"

    operator = hovered(text % ("^relu", "alpha"), environment) or ""
    assert environment.ops["relu"].summary in operator
    assert "op relu(x" in operator
    assert "negative_slope" in operator
    assert "`alpha` or `negative_slope`" in (hovered(text % ("relu", "^negative_slope"), environment) or "")
    assert hovered(text % ("^no_such_op", "alpha"), environment) is None


def test_hover_shows_types_sizes_and_attributes(environment: Environment, model: Model) -> None:
    text = "dynamic { x: %s[%s] @%s(nchw); } block entry { return; }"

    assert "8 bits, -128 to 127" in (hovered(text % ("^i8", "B", "layout"), environment) or "")
    assert "size variable" in (hovered(text % ("i8", "^B", "layout"), environment) or "")
    assert "`B` = 3" in (hovered(text % ("i8", "^B", "layout"), environment, model) or "")
    assert "order in memory" in (hovered(text % ("i8", "B", "^layout"), environment) or "")


# Completion


def test_a_statement_begins_with_a_keyword(environment: Environment) -> None:
    assert {"op", "cache", "loop", "return"} <= proposed("^", environment)
    assert {"op", "cache"} <= proposed("o^", environment)


def test_operators_with_their_aliases(environment: Environment) -> None:
    found = proposed("op re^", environment)

    assert set(environment.ops) <= found
    assert set(environment.op_aliases) <= found


def test_arguments_are_variables_and_settings_that_are_not_given(environment: Environment) -> None:
    found = proposed("op relu(x, clamp_max=1.0, ^", environment)

    assert {"x", "y", "t", "W", "i", "flag", "alpha="} <= found
    assert not {"clamp_max=", "step", "K"} & found
    assert "bias=" in proposed("op conv2d(x, W[0], ^) >> y;", environment)


def test_values_of_settings_follow_their_type(environment: Environment) -> None:
    assert {"f32", "i8"} <= proposed("op cast(x, to=^) >> y;", environment)
    assert {"true", "false"} <= proposed("op matmul(x, W[0], trans_b=^) >> y;", environment)
    assert "f32" not in proposed("op relu(x, alpha=^) >> y;", environment)


def test_outputs_can_be_written(environment: Environment) -> None:
    found = proposed("op relu(x) >> ^;", environment)

    assert {"x", "y", "t"} <= found
    assert not {"step", "K", "other"} & found


def test_caches(environment: Environment) -> None:
    assert proposed("cache.^", environment) == {"read", "write", "increment", "decrement", "reset"}
    assert proposed("cache.read ^", environment) == {"step", "K"}
    assert proposed("cache.write x >> ^", environment) == {"step", "K"}
    assert "K" not in proposed("cache.write ^", environment)
    assert {"i", "step"} <= proposed("cache.read K[^] >> y;", environment)


def test_branches_blocks_and_hints(environment: Environment) -> None:
    assert {"flag", "other"} <= proposed("branch ^", environment)
    assert "entry" not in proposed("branch ^", environment)
    assert {"fuse", "placement"} <= proposed("op relu(x) >> y with { ^ };", environment)
    assert proposed("op relu(x) >> y with { fuse = ^ };", environment) == {"true", "false"}


def declaration(text: str, environment: Environment, model: Model | None = None) -> set[str]:
    plain = f"persistent {{ {text} }} block entry {{ return; }}"
    analysis = analyse(plain.replace("^", "", 1), environment, model)
    return {found.label for found in completions(analysis, plain.index("^"), environment, model)}


def test_declarations(environment: Environment, model: Model) -> None:
    assert {"f32", "bitset"} <= declaration("x: ^", environment)
    assert declaration("x: f32[^", environment, model) == {"B"}
    assert {"@init", "@table", "@layout"} <= declaration("x: f32 ^", environment)
    assert {"@init", "@table", "@layout"} <= declaration("x: f32 @^;", environment)
    assert declaration("K(l, t): f32 @table @fixed(^);", environment) == {"l", "t"}
    assert declaration("^", environment) == set()


def test_sections_at_the_top(environment: Environment) -> None:
    analysis = analyse("", environment)

    assert {found.label for found in completions(analysis, 0, environment, None)} == {
        *("dynamic", "volatile", "constant", "constants", "persistent", "block"),
    }


def test_nothing_inside_strings(environment: Environment) -> None:
    assert proposed('scope "a^" { barrier; }', environment) == set()
