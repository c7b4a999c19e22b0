"""Free dimensions of a model are sizes: what operators demand of them, and what graphs compute from them."""

from __future__ import annotations

import cProfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import agrees, info, model, node, saved, weights

from openinfer import ModelImportError
from openinfer.dims import Condition, Relation, Space, index_of
from openinfer.importers import load
from openinfer.importers.onnx_files.demands import take
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(31)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (25, 10), (64, 63), (400, 160), (1024, 512)])
def test_windows_and_strides_of_any_length_have_their_extent_and_least_size(
    kernel: int, stride: int, tmp_path: Path
) -> None:
    conv = node("Conv", "x w", "y", strides=[stride])
    proto = model([conv], [info("x", [1, 1, "samples"])], [info("y", None)], weights(w=rand(2, 1, kernel)))
    imported = load(saved(proto, tmp_path))
    assert imported.model.sizevars == {"samples": kernel}
    for samples in (kernel, kernel + stride - 1, kernel + 2 * stride):
        agrees(proto, imported, {"x": rand(1, 1, samples)})


@pytest.mark.parametrize("dim", [-1, "-1", "?", "", None])
def test_dims_without_a_name_are_sizes_of_their_own(dim: int | str | None, tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y")], [info("x", [dim, 3, dim])], [info("y", None)])
    imported = load(saved(proto, tmp_path))
    assert "x: f32[x_0, 3, x_2];" in imported.text
    agrees(proto, imported, {"x": rand(2, 3, 4)})


@pytest.mark.parametrize("end", [10**9, 2**31 - 1, 2**63 - 1])
def test_exporters_write_an_open_end_as_a_large_number(end: int, tmp_path: Path) -> None:
    places = weights(first=np.array([1, 0]), last=np.array([end, end]), axes=np.array([0, 1]))
    slice_node = node("Slice", "x first last axes", "y")
    proto = model([slice_node], [info("x", ["T", "U"])], [info("y", None)], places)
    imported = load(saved(proto, tmp_path))
    assert "y: f32[T-1, U];" in imported.text
    agrees(proto, imported, {"x": rand(5, 4)})


@pytest.mark.parametrize("end", [-(10**9), -(2**31) + 1, -(2**31), -(2**63)])
@pytest.mark.parametrize(("start", "step", "extent"), [(-1, -1, "T"), (2**63 - 1, -1, "T"), (-1, -3, "ceil(T/3)")])
def test_an_open_end_before_the_first_element_reverses_any_length(
    start: int, step: int, extent: str, end: int, tmp_path: Path
) -> None:
    places = weights(first=np.array([start]), last=np.array([end]), axes=np.array([0]), steps=np.array([step]))
    proto = model([node("Slice", "x first last axes steps", "y")], [info("x", ["T"])], [info("y", None)], places)
    imported = load(saved(proto, tmp_path))
    assert f"y: f32[{extent}];" in imported.text
    for length in (1, 3, 4):
        agrees(proto, imported, {"x": rand(length)})


def test_a_size_for_which_a_node_accepts_one_number_only_has_it(tmp_path: Path) -> None:
    shape = weights(shape=np.array([0, 1, 3, 192]))
    nodes = [node("Reshape", "x shape", "y")]
    path = saved(model(nodes, [info("x", ["seq", "batch size", 576])], [info("y", None)], shape), tmp_path)
    imported = load(path)
    assert "`batch size` is 1: Reshape 'y' accepts no other" in imported.report.notes
    assert "x: f32[seq, 1, 576];" in imported.text
    for name in ("batch size", "batch_size"):
        assert load(path, values={name: 1}).text == imported.text


def test_numbers_that_nodes_demand_of_a_size_are_taken_from_the_first(tmp_path: Path) -> None:
    shapes = weights(a=np.array([2, 1, 3]), b=np.array([3, 1, 3]))
    nodes = [node("Reshape", "x a", "y"), node("Reshape", "x b", "z")]
    path = saved(model(nodes, [info("x", ["batch", 3])], [info("y", None), info("z", None)], shapes), tmp_path)
    with pytest.raises(ModelImportError, match=r"Reshape 'z'\(f32\[2,3\]"):
        load(path)


@pytest.mark.parametrize(("name", "option"), [("batch", "--set batch=5"), ("batch size", "--set 'batch size=5'")])
def test_one_of_two_numbers_that_a_node_accepts_is_advice(name: str, option: str, tmp_path: Path) -> None:
    proto = model([node("Add", "x w", "y")], [info("x", [name, 3])], [info("y", None)], weights(w=rand(5, 3)))
    with pytest.raises(ModelImportError, match=rf"add needs {name.replace(' ', '_')} == 5: fix .* {option}"):
        load(saved(proto, tmp_path))


def test_an_extent_that_a_program_cannot_express_names_the_sizes_to_fix(tmp_path: Path) -> None:
    places = weights(first=np.array([-1]), last=np.array([-4]), axes=np.array([0]), steps=np.array([-1]))
    proto = model([node("Slice", "x first last axes steps", "y")], [info("x", ["T"])], [info("y", None)], places)
    with pytest.raises(ModelImportError, match=r"Slice 'y'.*a program cannot express it: fix it with --set T=NUMBER"):
        load(saved(proto, tmp_path))


def test_an_extent_without_a_form_is_a_formula_whose_letters_are_explained(tmp_path: Path) -> None:
    """The places that `Slice` counts from the end have no form of their own in a program."""
    nodes = [
        node("Shape", "x", "n"),
        node("Shape", "z", "m"),
        node("Sub", "n m", "first"),
        node("Slice", "x first end", "y"),
    ]
    inputs = [info("x", ["n"]), info("z", ["past-p"])]
    proto = model(nodes, inputs, [info("y", None)], weights(end=np.array([2**62])))
    with pytest.raises(ModelImportError) as caught:
        load(saved(proto, tmp_path))
    assert str(caught.value).splitlines()[1].strip() == (
        "Slice 'y'(f32[n], i64[1], i64[1]): an extent of the result is n - max(0, p), where p is n - past_p, plus "
        "n where that is below 0; a program cannot express it: fix it with --set n=NUMBER --set past-p=NUMBER"
    )


def test_a_range_names_every_input_that_is_not_known(tmp_path: Path) -> None:
    inputs = [info("first", [], TensorProto.INT64), info("last", [], TensorProto.INT64)]
    proto = model([node("Range", "first last two", "y")], inputs, [info("y", None)], weights(two=np.array(2)))
    with pytest.raises(ModelImportError, match="inputs 'first' and 'last' have to be known at import") as caught:
        load(saved(proto, tmp_path))
    assert caught.value.inputs == ("first", "last")
    assert "fix --set first=VALUE and --set last=VALUE" in str(caught.value)


def test_what_a_side_of_a_branch_demands_is_not_taken(tmp_path: Path) -> None:
    sides = {
        "then_branch": helper.make_graph([node("Reshape", "x two", "z")], "then", [], [info("z", None)]),
        "else_branch": helper.make_graph([node("Relu", "x", "z")], "else", [], [info("z", None)]),
    }
    inputs = [info("x", ["batch", 3]), info("c", [], TensorProto.BOOL)]
    proto = model([node("If", "c", "y", **sides)], inputs, [info("y", None)], weights(two=np.array([2, 3])))
    with pytest.raises(ModelImportError, match="fix --set c=VALUE"):
        load(saved(proto, tmp_path))


def test_sizes_that_must_be_equal_are_named_together(tmp_path: Path) -> None:
    proto = model([node("Add", "x z", "y")], [info("x", ["T", 2]), info("z", ["U", 2])], [info("y", None)])
    with pytest.raises(ModelImportError, match=r"add needs T == U: fix the size with --set U=T, or to a number each"):
        load(saved(proto, tmp_path))


def test_sizes_that_are_set_to_each_other_are_refused(tmp_path: Path) -> None:
    proto = model([node("MatMul", "a b", "y")], [info("a", [2, "M"]), info("b", ["N", 3])], [info("y", [2, 3])])
    path = saved(proto, tmp_path)

    with pytest.raises(ModelImportError, match="set to each other: 'M' = 'N' = 'M'; leave one out"):
        load(path, values={"M": "N", "N": "M"})


def test_a_size_set_to_another_is_that_size(tmp_path: Path) -> None:
    proto = model([node("Add", "x z", "y")], [info("x", ["T", 2]), info("z", ["a batch", 2])], [info("y", None)])
    path = saved(proto, tmp_path)
    for values in ({"a batch": "T"}, {"a_batch": "T"}):
        imported = load(path, values=values)
        assert "z: f32[T, 2];" in imported.text
        agrees(proto, imported, {"x": rand(3, 2), "z": rand(3, 2)})
    with pytest.raises(ModelImportError, match=r"'T' is set to 'U', expected .* another dimension among 'a batch'"):
        load(path, values={"T": "U"})


@pytest.mark.parametrize(
    ("made", "dims", "note"),
    [
        (node("MatMul", "x z", "y"), (["T", "K"], ["L", 3]), "`L` is `K`: MatMul 'y' accepts no other"),
        (node("Concat", "x z", "y", axis=1), (["T", 2], [None, 3]), "`z_0` is `T`: Concat 'y' accepts no other"),
    ],
)
def test_sizes_between_which_a_node_accepts_no_difference_are_one(
    made: Any, dims: tuple[Any, Any], note: str, tmp_path: Path
) -> None:
    proto = model([made], [info("x", dims[0]), info("z", dims[1])], [info("y", None)])
    imported = load(saved(proto, tmp_path))
    assert note in imported.report.notes
    agrees(proto, imported, {"x": rand(3, 2), "z": rand(2 if made.op_type == "MatMul" else 3, 3)})


def test_a_dimension_with_the_name_of_an_input_is_not_set_by_it(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x shape", "r"), node("Mul", "r N", "y")]
    inputs = [info("x", ["N", 3]), info("N", [1, 3])]
    proto = model(nodes, inputs, [info("y", None)], weights(shape=np.array([1, 3])))
    with pytest.raises(ModelImportError, match="reshape needs N == 1"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize(
    ("extent", "name"),
    [
        ("batch-size", "batch_size"),
        ("a + b", "a_b"),
        ("h*w", "h_w"),
        ("2*k", "n2_k"),
        ("past + 1", "past_1"),
        ("T + rest", "T_rest"),
    ],
)
def test_an_expression_of_what_no_extent_is_alone_is_a_name(extent: str, name: str, tmp_path: Path) -> None:
    proto = model([node("MatMul", "x z", "y")], [info("x", ["T", extent]), info("z", [extent, 2])], [info("y", None)])
    path = saved(proto, tmp_path)
    imported = load(path)
    assert f"x: f32[T, {name}];" in imported.text
    agrees(proto, imported, {"x": rand(3, 5), "z": rand(5, 2)})
    for chosen in (extent, name):
        assert "x: f32[T, 6];" in load(path, values={chosen: 6}).text


def test_a_name_of_an_extent_stays_its_own(tmp_path: Path) -> None:
    inputs = [info("x", ["past + 1", "k"]), info("z", ["k", "past_1"])]
    proto = model([node("MatMul", "x z", "y")], inputs, [info("y", None)])
    assert "x: f32[past_1_2, k];\n  z: f32[k, past_1];" in load(saved(proto, tmp_path)).text


def test_an_expression_of_extents_that_are_set_is_their_number(tmp_path: Path) -> None:
    path = saved(model([node("Relu", "x", "y")], [info("x", ["past + 1"])], [info("y", None)]), tmp_path)
    assert "x: f32[8];" in load(path, values={"past": 7}).text


@pytest.mark.parametrize("extent", ["floor(T/(S-2))", "ceil(T/(S-2))", "T%(S-2)"])
def test_what_an_extent_divides_by_is_at_least_1(extent: str, tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y")], [info("x", ["S", "T", extent])], [info("y", None)])
    assert load(saved(proto, tmp_path)).model.sizevars == {"S": 3, "T": 1}


@pytest.mark.parametrize("extent", ["floor(T/(S-S))", "T%0", "floor(T/(0-S))"])
def test_an_extent_that_divides_by_nothing_positive_is_refused(extent: str, tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y")], [info("x", ["S", "T", extent])], [info("y", None)])
    with pytest.raises(ModelImportError, match="divides by"):
        load(saved(proto, tmp_path))


def test_a_range_over_a_float_of_a_dimension_counts_to_a_size(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "images", "shape"),
        node("Gather", "shape one", "width"),
        node("Cast", "width", "limit", to=1),
        node("Range", "zero limit step", "places"),
        node("Add", "images places", "y"),
    ]
    numbers = weights(one=np.array(1), zero=np.float32(0), step=np.float32(1))
    proto = model(nodes, [info("images", [1, "width"])], [info("y", None)], numbers)
    imported = load(saved(proto, tmp_path))
    assert imported.report.folded == 3
    for width in (1, 7):
        agrees(proto, imported, {"images": rand(1, width)})


@pytest.mark.parametrize("rounding", ["Ceil", "Floor", "Round"])
def test_a_quotient_of_float_sizes_with_a_remainder_is_not_taken_for_an_integer(rounding: str, tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "extent"),
        node("Add", "extent one", "more"),
        *(node("Cast", name, f"{name}_length", to=1) for name in ("extent", "more")),
        node("Div", "extent_length more_length", "quotient"),
        node(rounding, "quotient", "rounded"),
        node("Cast", "rounded", "count", to=7),
        node("Mul", "count ones", "y"),
    ]
    proto = model(nodes, [info("x", [1, "T"])], [info("y", None, 7)], weights(one=np.array(1), ones=np.array([1])))
    imported = load(saved(proto, tmp_path))
    for size in (4, 5, 7):
        agrees(proto, imported, {"x": rand(1, size)})


def test_least_sizes_follow_from_several_windows_and_from_divisors(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "a", strides=[2]),
        node("Conv", "a w", "b", strides=[2]),
        node("Reshape", "b shape", "c"),
        node("Neg", "c", "y"),
    ]
    numbers = weights(w=rand(1, 1, 5), shape=np.array([1, -1, 4]))
    imported = load(saved(model(nodes, [info("x", [1, 1, "n"])], [info("y", None)], numbers), tmp_path))
    # (25 - 5)//2 + 1 = 11 and (11 - 5)//2 + 1 = 4, the least multiple of 4.
    assert imported.model.sizevars == {"n": 25}


def test_a_slice_of_a_table_bounds_a_size_from_above(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "end", start=1, end=2),
        node("Slice", "table zero end axis", "rows"),
        node("Add", "x rows", "y"),
    ]
    numbers = weights(table=rand(77, 3), zero=np.array([0]), axis=np.array([0]))
    proto = model(nodes, [info("x", [1, "T", 3])], [info("y", None)], numbers, opset=17)
    imported = load(saved(proto, tmp_path))
    assert "narrow(" in imported.text
    agrees(proto, imported, {"x": rand(1, 77, 3)})


@pytest.mark.parametrize(("low", "high"), [(1, None), (1, 5), (1, 3), (0, 0), (5, 5)])
def test_a_demand_that_holds_leaves_the_bounds_of_a_size(low: int, high: int | None) -> None:
    space = Space()
    size: Any = space.size("T", low, high)
    for _ in range(3):
        take(space, Condition(index_of(5 - size), Relation.AT_LEAST))
        take(space, Condition(index_of(size - low), Relation.AT_LEAST))
    bounds = space.declared("T")
    assert (bounds.low, bounds.high) == (low, 5 if high is None else high)


def test_a_demand_that_no_size_meets_leaves_none() -> None:
    space = Space()
    size: Any = space.size("T", 1, 3)
    take(space, Condition(index_of(size - 5), Relation.AT_LEAST))
    bounds = space.declared("T")
    assert bounds.low is not None
    assert bounds.low > 3


def test_an_upsampled_image_that_joins_one_of_before_asks_for_round_sizes(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "a", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "a w", "b", strides=[2, 2], pads=[1, 1, 1, 1]),
        node(
            "Resize",
            "b - scales",
            "c",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Concat", "a c", "d", axis=1),
        node("Reshape", "d shape", "y"),
    ]
    numbers = weights(w=rand(1, 1, 3, 3), scales=np.array([1, 1, 2, 2], np.float32), shape=np.array([0, 2, -1]))
    proto = model(nodes, [info("x", ["B", 1, "H", "W"])], [info("y", None)], numbers)
    imported = load(saved(proto, tmp_path))
    assert imported.model.sizevars == {"B": 1, "H": 3, "W": 3}
    for batch, height, width in ((1, 3, 3), (2, 8, 4)):
        agrees(proto, imported, {"x": rand(batch, 1, height, width)})


@pytest.mark.parametrize("stride", [2, 3])
def test_lengths_that_are_rounded_up_are_text_of_what_is_not_negative(stride: int, tmp_path: Path) -> None:
    conv = node("Conv", "x w", "y", strides=[stride], auto_pad="SAME_UPPER")
    proto = model([conv], [info("x", [1, 1, "n"])], [info("y", None)], weights(w=rand(2, 1, 3)))
    imported = load(saved(proto, tmp_path))
    assert f"ceil(n/{stride})" in imported.text
    for length in (1, 4, 6, 7):
        agrees(proto, imported, {"x": rand(1, 1, length)})


@pytest.mark.parametrize(
    ("op", "kernel", "stride", "pads", "rows"),
    [
        ("MaxPool", 1, 2, (0, 0), "ceil(n/2)"),
        ("MaxPool", 2, 3, (0, 0), "ceil(n/3)"),
        ("MaxPool", 2, 4, (1, 0), "ceil((n+1)/4)"),
        ("AveragePool", 1, 3, (0, 0), "ceil(n/3)"),
        ("AveragePool", 2, 2, (1, 1), "ceil((n-1)/2)+1"),
    ],
)
def test_pools_whose_last_window_may_begin_past_the_end_have_one_form(
    op: str, kernel: int, stride: int, pads: tuple[int, int], rows: str, tmp_path: Path
) -> None:
    pool = node(op, "x", "y", kernel_shape=[kernel], strides=[stride], pads=list(pads), ceil_mode=1)
    proto = model([pool], [info("x", [1, 1, "n"])], [info("y", None)])
    imported = load(saved(proto, tmp_path))
    assert f"f32[1, 1, {rows}]" in imported.text
    for length in range(kernel, kernel + 2 * stride + 1):
        agrees(proto, imported, {"x": rand(1, 1, length)})


@pytest.mark.parametrize("kernel", [2, 3])
def test_pools_that_round_up_have_one_form(kernel: int, tmp_path: Path) -> None:
    pool = node("MaxPool", "x", "y", kernel_shape=[kernel], strides=[2], ceil_mode=1)
    proto = model([pool], [info("x", [1, 1, "n"])], [info("y", None)])
    imported = load(saved(proto, tmp_path))
    for length in (3, 4, 7, 8):
        agrees(proto, imported, {"x": rand(1, 1, length)})


def chain_of_sizes(length: int) -> Any:
    """Return a model whose result has an extent that adds and divides so many times."""
    steps = [node("Add" if n % 2 else "Div", f"size{n} two", f"size{n + 1}") for n in range(length)]
    nodes = [node("Shape", "x", "size0"), *steps, node("Expand", f"row size{length}", "y")]
    return model(nodes, [info("x", ["T"])], [info("y", None)], weights(two=np.array(2), row=rand(1)))


def calls_of_import(length: int, tmp_path: Path) -> int:
    """Return how many functions are called while a chain is imported: the same number in every run."""
    path = saved(chain_of_sizes(length), tmp_path)
    load(path)
    profile = cProfile.Profile()
    profile.runcall(load, path)
    return sum(entry.callcount for entry in profile.getstats())


def test_the_work_for_sizes_that_are_divided_again_and_again_grows_with_their_number(tmp_path: Path) -> None:
    few, many = (calls_of_import(length, tmp_path) for length in (20, 40))
    assert many < 4 * few
    proto = chain_of_sizes(20)
    agrees(proto, load(saved(proto, tmp_path)), {"x": rand(3000)})


def test_a_size_of_more_parentheses_than_a_program_may_have_is_to_be_fixed(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=r"Expand 'y'.* has to be known at import: fix --set T=NUMBER"):
        load(saved(chain_of_sizes(80), tmp_path))
