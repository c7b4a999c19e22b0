"""The digest of a program, by which generated C knows the states that it may load."""

from __future__ import annotations

import pytest

import openinfer as oi


def digest(text: str) -> str:
    return oi.Synthesizer("c").synthesize(oi.Model.from_arrays({}), text).plan.program_digest


def program(name: str, extent: int) -> str:
    return (
        f"dynamic {{ {name}: f32[{extent}]; }} volatile {{ y: f32[3]; }} block entry {{ op fill(y, value=1.0) >> y; }}"
    )


def test_equal_texts_have_one_digest() -> None:
    assert digest(program("x", 2)) == digest(program("x", 2))


@pytest.mark.parametrize("name", ["x", "uuid"])
def test_another_declaration_is_another_program(name: str) -> None:
    assert digest(program(name, 2)) != digest(program(name, 3))
