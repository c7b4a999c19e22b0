"""Which inputs become states, and what they hold before the first step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx_models import agrees, helper, info, model, node, saved, weights

from openinfer import Model, ModelImportError, Simulator
from openinfer.cli import main
from openinfer.importers import ImportedModel, load, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

TO_F32, TO_F64, TO_BOOL, TO_U8, TO_I64 = 1, 11, 9, 2, 7

ONE, ZERO = np.float32(1), np.float32(0)

COPIES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "identity": ([node("Identity", "mask", "mask_out")], {}),
    "identities": ([node("Identity", "mask", "a"), node("Identity", "a", "b"), node("Identity", "b", "mask_out")], {}),
    "cast to its type": ([node("Cast", "mask", "mask_out", to=TO_F32)], {}),
    "cast there and back": ([node("Cast", "mask", "a", to=TO_F64), node("Cast", "a", "mask_out", to=TO_F32)], {}),
    "reshape to its shape": ([node("Reshape", "mask s", "mask_out")], {"s": [2, -1]}),
    "reshape there and back": (
        [node("Reshape", "mask s", "a"), node("Reshape", "a t", "mask_out")],
        {"s": [8], "t": [2, 4]},
    ),
    "dropout": ([node("Dropout", "mask", "mask_out")], {}),
    "transpose": ([node("Transpose", "mask", "mask_out", perm=[0, 1])], {}),
    "transpose twice": ([node("Transpose", "mask", "a"), node("Transpose", "a", "mask_out", perm=[1, 0])], {}),
    "unsqueeze and squeeze": ([node("Unsqueeze", "mask s", "a"), node("Squeeze", "a s", "mask_out")], {"s": [1]}),
    "flatten": ([node("Flatten", "mask", "mask_out")], {}),
    "expand": ([node("Expand", "mask s", "mask_out")], {"s": [1, 4]}),
    "slice": ([node("Slice", "mask s t s", "mask_out")], {"s": [0], "t": [1 << 40]}),
    "concat of one": ([node("Concat", "mask", "mask_out", axis=0)], {}),
    "concat with nothing": ([node("Concat", "s mask", "mask_out", axis=0)], {"s": np.zeros((0, 4), np.float32)}),
    "pad by nothing": ([node("Pad", "mask s", "mask_out")], {"s": [0] * 4}),
    "tile once": ([node("Tile", "mask s", "mask_out")], {"s": [1, 1]}),
    "split in one": ([node("Split", "mask s", "mask_out", axis=0)], {"s": [2]}),
    "sum of one": ([node("Sum", "mask", "mask_out")], {}),
    "product by 1": ([node("Mul", "mask s", "mask_out")], {"s": ONE}),
    "product of a row of 1 with it": ([node("Mul", "s mask", "mask_out")], {"s": np.ones(4, np.float32)}),
    "sum with 0": ([node("Add", "mask s", "mask_out")], {"s": ZERO}),
    "sum of 0 with it": ([node("Add", "s mask", "mask_out")], {"s": ZERO}),
    "difference to 0": ([node("Sub", "mask s", "mask_out")], {"s": ZERO}),
    "quotient by 1": ([node("Div", "mask s", "mask_out")], {"s": ONE}),
    "power of 1": ([node("Pow", "mask s", "mask_out")], {"s": ONE}),
    "negated twice": ([node("Neg", "mask", "a"), node("Neg", "a", "mask_out")], {}),
    "greater of it and itself": ([node("Max", "mask mask", "mask_out")], {}),
    "chosen of it and itself": ([node("Where", "s mask mask", "mask_out")], {"s": np.array([True, False] * 2)}),
    "chosen of copies": (
        [
            node("Greater", "x s", "c"),
            node("Add", "mask s", "a"),
            node("Mul", "mask t", "b"),
            node("Where", "c a b", "mask_out"),
        ],
        {"s": ZERO, "t": ONE},
    ),
    "product by 1 of many": (
        [
            node("ConstantOfShape", "s", "t", value=helper.make_tensor("", 1, [1], [1.0])),
            node("Mul", "mask t", "mask_out"),
        ],
        {"s": [2, 4]},
    ),
    "product by 1 in another type and shape": (
        [
            node("Cast", "mask", "a", to=TO_F64),
            node("Reshape", "a s", "b"),
            node("Mul", "b t", "c"),
            node("Reshape", "c u", "d"),
            node("Cast", "d", "mask_out", to=TO_F32),
        ],
        {"s": [8], "t": np.float64(1), "u": [2, 4]},
    ),
}
"""Nodes whose last result is their input, and their constants."""


def with_mask(nodes: list[Any], constants: dict[str, Any]) -> Any:
    """Return a model of a masked product that returns its mask too."""
    ports = [info("x", [2, 4]), info("mask", [2, 4])]
    results = [info("y", [2, 4]), info("mask_out", [2, 4])]
    return model([*nodes, node("Mul", "x mask", "y")], ports, results, weights(**constants))


@pytest.mark.parametrize("name", COPIES)
def test_an_output_that_is_a_copy_of_an_input_is_not_a_state(name: str, tmp_path: Path) -> None:
    proto = with_mask(*COPIES[name])
    path = saved(proto, tmp_path)
    imported = load(path)
    assert set(imported.report.inputs) == {"x", "mask"}
    assert "persistent" not in imported.text
    rng = np.random.default_rng(3)
    agrees(proto, imported, {each: rng.standard_normal((2, 4)).astype(np.float32) for each in ("x", "mask")})
    with pytest.raises(ModelImportError, match=r"'mask_out' is a copy of input 'mask'.*leave out --feed mask_out=mask"):
        load(path, feeds={"mask_out": "mask"})


NEARLY_COPIES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "rounded on the way": ([node("Cast", "mask", "a", to=10), node("Cast", "a", "mask_out", to=TO_F32)], {}),
    "of another order": ([node("Transpose", "mask", "a"), node("Reshape", "a s", "mask_out")], {"s": [2, 4]}),
    "backwards": ([node("Slice", "mask s t u u", "mask_out")], {"s": [-1], "t": [-(1 << 40)], "u": [-1]}),
    "of another input": ([node("Identity", "x", "mask_out")], {}),
    "doubled": ([node("Mul", "mask s", "mask_out")], {"s": np.float32(2)}),
    "increased": ([node("Add", "mask s", "mask_out")], {"s": ONE}),
    "subtracted from 0": ([node("Sub", "s mask", "mask_out")], {"s": ZERO}),
    "1 divided by it": ([node("Div", "s mask", "a"), node("Clip", "a - t", "mask_out")], {"s": ONE, "t": ONE}),
    "negated": ([node("Neg", "mask", "mask_out")], {}),
    "a product by a row": ([node("Mul", "mask s", "mask_out")], {"s": np.array([1, 1, 1, 2], np.float32)}),
    "chosen of it and another": ([node("Where", "s mask x", "mask_out")], {"s": np.array([True, False] * 2)}),
    "moved": (
        [node("Pad", "mask s", "wide"), node("Slice", "wide t u v", "mask_out")],
        {"s": [0, 1, 0, 0], "t": [0], "u": [4], "v": [1]},
    ),
}


@pytest.mark.parametrize("name", NEARLY_COPIES)
def test_an_output_that_differs_from_the_input_is_a_state(name: str, tmp_path: Path) -> None:
    path = saved(with_mask(*NEARLY_COPIES[name]), tmp_path)
    imported = load(path)
    assert imported.report.feeds == {"mask_out": "mask"}
    assert verify(path, imported, steps=3, initial={"mask": np.arange(8, dtype=np.float32).reshape(2, 4) / 3}).agrees


def test_a_mask_that_is_cast_to_floats_and_back_is_a_copy(tmp_path: Path) -> None:
    nodes = [node("Cast", "mask", "f", to=TO_F32), node("Mul", "x f", "y"), node("Cast", "f", "mask_out", to=TO_BOOL)]
    ports = [info("x", ["n"]), info("mask", ["n"], TO_BOOL)]
    imported = load(saved(model(nodes, ports, [info("y", None), info("mask_out", None, TO_BOOL)]), tmp_path))
    assert set(imported.report.inputs) == {"x", "mask"}


MASKS: dict[str, tuple[int, list[Any], Any]] = {
    "and with true": (TO_BOOL, [node("And", "mask s", "mask_out")], True),
    "and with itself": (TO_BOOL, [node("And", "mask mask", "mask_out")], True),
    "or with false": (TO_BOOL, [node("Or", "s mask", "mask_out")], False),
    "exclusive or with false": (TO_BOOL, [node("Xor", "mask s", "mask_out")], False),
    "not, twice": (TO_BOOL, [node("Not", "mask", "a"), node("Not", "a", "mask_out")], False),
    "and with all bits": (TO_U8, [node("BitwiseAnd", "mask s", "mask_out")], np.uint8(255)),
    "integer plus 0": (TO_I64, [node("Add", "mask s", "mask_out")], np.int64(0)),
}
"""Nodes that return masks as they are: their element type, the nodes, and the constant that they read."""


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_bits_are_copies_too(name: str, tmp_path: Path) -> None:
    kind, nodes, constant = MASKS[name]
    ports = [info("x", ["n"]), info("mask", ["n"], kind)]
    nodes = [*nodes, node("Cast", "mask", "f", to=TO_F32), node("Mul", "x f", "y")]
    results = [info("y", None), info("mask_out", None, kind)]
    imported = load(saved(model(nodes, ports, results, weights(s=constant), opset=18), tmp_path))
    assert set(imported.report.inputs) == {"x", "mask"}


def test_a_loop_that_hands_an_input_on_returns_a_copy(tmp_path: Path) -> None:
    body = helper.make_graph(
        [node("Identity", "going", "goes"), node("Mul", "m one", "kept"), node("Add", "a m", "total")],
        "body",
        [info("i", [], TO_I64), info("going", [], TO_BOOL), info("m", [2, 4]), info("a", [2, 4])],
        [info("goes", [], TO_BOOL), info("kept", [2, 4]), info("total", [2, 4])],
    )
    loop = node("Loop", "turns - mask x", "mask_out total", body=body)
    proto = with_mask([loop, node("Relu", "total", "z")], {"turns": np.int64(3), "one": ONE})
    assert set(load(saved(proto, tmp_path)).report.inputs) == {"x", "mask"}


def test_a_branch_that_returns_an_input_on_both_sides_returns_a_copy(tmp_path: Path) -> None:
    sides = [helper.make_graph([node("Identity", "mask", name)], name, [], [info(name, [2, 4])]) for name in "pq"]
    nodes = [
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total zero", "positive"),
        node("If", "positive", "mask_out", then_branch=sides[0], else_branch=sides[1]),
    ]
    proto = with_mask(nodes, {"zero": np.zeros((), np.float32)})
    imported = load(saved(proto, tmp_path))
    assert set(imported.report.inputs) == {"x", "mask"}
    ones = np.ones((2, 4), np.float32)
    agrees(proto, imported, {"x": ones, "mask": 2 * ones})


def decoder(folder: Path) -> Path:
    """Write a model with a state that an encoder begins, another state, and a mask that it returns."""
    nodes = [
        node("Add", "x hidden", "sum"),
        node("Tanh", "sum", "hidden_out"),
        node("Add", "total x", "totaln"),
        node("Identity", "mask", "mask_out"),
        node("Mul", "hidden_out mask", "y"),
    ]
    ports = [info(name, [1, 3]) for name in ("x", "hidden", "total", "mask")]
    results = [info(name, [1, 3]) for name in ("y", "hidden_out", "totaln", "mask_out")]
    return saved(model(nodes, ports, results), folder, "decoder.onnx")


HIDDEN = np.array([[0.5, -0.25, 2.0]], np.float32)


def stepped(imported: ImportedModel, **initial: Any) -> list[float]:
    with Simulator(imported.model, imported.graph).make_executor() as executor:
        executor.restore(initial)
        executor.step(x=np.zeros((1, 3), np.float32), mask=np.ones((1, 3), np.float32))
        return executor.fetch("y").tolist()[0]


def test_a_state_begins_with_what_the_host_restores(tmp_path: Path) -> None:
    imported = load(decoder(tmp_path))
    assert imported.report.states == {"hidden": "hidden", "total": "total"}
    assert stepped(imported) == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(stepped(imported, hidden=HIDDEN), np.tanh(HIDDEN[0]), rtol=1e-6)


def test_verification_begins_with_the_values_that_are_given(tmp_path: Path) -> None:
    path = decoder(tmp_path)
    imported = load(path)
    assert verify(path, imported, initial={"hidden": HIDDEN}, steps=3).agrees
    assert verify(path, imported, initial={"hidden": 0.5}, steps=3).agrees
    with pytest.raises(ModelImportError, match="'mask' is not a state; inputs that became states: hidden, total"):
        verify(path, imported, initial={"mask": HIDDEN})
    with pytest.raises(ModelImportError, match=r"'hidden' has the shape \[3\], expected \[1, 3\]"):
        verify(path, imported, initial={"hidden": HIDDEN[0]})


KEPT = np.array([2, 4], np.float32)


def keeping(folder: Path) -> Path:
    """Write a model whose state and input are zeros as long as nobody gives them other values."""
    nodes = [node("Mul", "h w", "kept"), node("Add", "kept x", "hn")]
    ports = [info("x", [2]), info("h", [2])]
    return saved(model(nodes, ports, [info("hn", [2])], weights(w=KEPT)), folder, "keeping.onnx")


def spoilt(imported: ImportedModel) -> ImportedModel:
    """Return the program of `keeping` with other weights."""
    return replace(imported, model=Model.from_arrays({"w": KEPT + 1}))


def test_verification_finds_what_only_the_first_values_show(tmp_path: Path) -> None:
    path = keeping(tmp_path)
    imported = load(path)
    given: dict[str, Any] = {"inputs": {"x": np.zeros(2, np.float32)}, "steps": 1}
    assert verify(path, spoilt(imported), **given).agrees
    assert verify(path, imported, **given, initial={"h": [3.0, 5.0]}).agrees
    assert verify(path, spoilt(imported), **given, initial={"h": [3.0, 5.0]}).first.startswith("'kept' by ")


@pytest.mark.parametrize(
    ("arguments", "states"),
    [
        ([], {"hidden", "total"}),
        (["--no-feed"], set()),
        (["--feed", ""], set()),
        (["--no-feed", "hidden"], {"total"}),
        (["--no-feed", "mask"], {"hidden", "total"}),
        (["--no-feed", "hidden", "--no-feed", "total"], set()),
        (["--no-feed", "--no-feed", "hidden"], set()),
        (["--feed", "totaln=total"], {"total"}),
    ],
)
def test_the_command_says_which_inputs_become_states(arguments: list[str], states: set[str], tmp_path: Path) -> None:
    result = converted(decoder(tmp_path), *arguments)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "decoder.oi").read_text()
    declared = text.partition("persistent {")[2].partition("}")[0]
    assert {line.strip().partition(":")[0] for line in declared.splitlines() if line.strip()} == states


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["--no-feed", "x"],
            1,
            "'x' stays an input anyway; inputs that are states by their names: hidden, total, mask",
        ),
        (["--no-feed", "other"], 1, "'other' is not an input"),
        (["--no-feed", "--feed", "totaln=total"], 2, "--feed names all states"),
        (["--feed", "", "--feed", "totaln=total"], 2, "'' is for no states, found 'totaln=total' too"),
        (["--feed", "total"], 2, "expected OUT=IN, or '' for no states, found 'total'"),
        (["--initial", "hidden=1,2,3"], 2, "go with --verify, which is not given"),
        (["--verify", "--initial", "hidden=1", "--initial", "hidden=2"], 2, "--initial hidden=... is given twice"),
        (["--verify", "--initial", "hidden=[1]"], 1, "'hidden' has the shape [1], expected [1, 3]"),
    ],
)
def test_options_of_states_that_do_not_fit_are_refused(
    arguments: list[str], code: int, message: str, tmp_path: Path
) -> None:
    result = converted(decoder(tmp_path), *arguments)
    assert (result.exit_code, message in " ".join(result.output.split())) == (code, True), result.output


def test_a_file_after_no_feed_is_not_taken_for_a_name(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["import", "--no-feed", str(decoder(tmp_path))])
    assert (result.exit_code, "write the file before the option" in " ".join(result.output.split())) == (2, True)


def test_the_command_verifies_from_first_values(tmp_path: Path) -> None:
    np.save(tmp_path / "h.npy", np.array([3, 5], np.float32))
    path = keeping(tmp_path)
    sources = {str(tmp_path / "h.npy"): True, "3,5": True, "random": True, "zeros": False}
    for source, is_shown in sources.items():
        arguments = ["--verify", "--input", "x=zeros", "--steps", "1", "--initial", f"h={source}"]
        right = converted(path, *arguments)
        assert (right.exit_code, "agrees with" in right.output) == (0, True), right.output
        with pytest.MonkeyPatch.context() as patch:
            wrong = spoilt(load(path))
            patch.setattr("openinfer.importers.load", lambda *_, wrong=wrong, **__: wrong)
            result = converted(path, *arguments)
        assert (result.exit_code, "first: 'kept' by" in result.output) == (int(is_shown), is_shown), result.output


def test_the_command_says_what_a_state_is(tmp_path: Path) -> None:
    result = converted(decoder(tmp_path), "--verify")
    assert "`hidden` is a state: each step takes what `hidden_out` was before, the first one zeros" in result.output


def converted(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["import", str(path), "-o", str(path.parent), *arguments])
