"""Tolerances are written in one form: `[DTYPE=]ABS[,REL]`."""

from __future__ import annotations

import pytest

from openinfer.tolerances import BETWEEN_DEVICES, OF_OUTPUTS, Tolerance, parse_tolerance, widened


@pytest.mark.parametrize(
    ("text", "name", "tolerance"),
    [
        ("1e-3", "", Tolerance(1e-3, 1e-3)),
        ("1e-3,0", "", Tolerance(1e-3, 0.0)),
        ("f16=0.01", "f16", Tolerance(0.01, 0.01)),
        (" f32 = 1e-6 , 1e-5 ", "f32", Tolerance(1e-6, 1e-5)),
        ("i8=1", "i8", Tolerance(1.0, 0.0)),
        ("u8=2,0.5", "u8", Tolerance(2.0, 0.5)),
        ("0", "", Tolerance(0.0, 0.0)),
    ],
)
def test_what_a_tolerance_says(text: str, name: str, tolerance: Tolerance) -> None:
    assert parse_tolerance(text) == (name, tolerance)


@pytest.mark.parametrize("text", ["", "f32=", "f32", "1,2,3", "-1", "nan", "inf", "1e-3,inf", "f32=1e-3,", "=1"])
def test_another_form_is_refused_with_the_form_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected \[DTYPE=\]ABS\[,REL\] with finite numbers.*such as 1e-3.*found"):
        parse_tolerance(text)


def test_an_unknown_type_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"'f33=1' with the unknown type 'f33'; known: f8, bf16, f16, f32"):
        parse_tolerance("f33=1")


def test_a_tolerance_for_all_floats_leaves_integers_exact_and_single_types_decide() -> None:
    table = widened(OF_OUTPUTS, {"": Tolerance(1, 1), "f16": Tolerance(2, 2), "i8": Tolerance(3, 0)})
    assert table["f32"] == Tolerance(1, 1)
    assert (table["f16"], table["i8"]) == (Tolerance(2, 2), Tolerance(3, 0))
    assert "i16" not in table


def test_outputs_are_compared_more_closely_than_nodes_on_other_devices() -> None:
    assert all(tolerance.relative <= BETWEEN_DEVICES[name].relative for name, tolerance in OF_OUTPUTS.items())
