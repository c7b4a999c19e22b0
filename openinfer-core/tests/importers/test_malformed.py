"""Models that are damaged, or claim more than can be, end as one error that says what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from onnx_models import FLOAT, INT64, agrees, info, model, node, saved, weights

from openinfer import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

IMAGE = [info("x", [1, 2, 8, 8])]


def refusal(proto: Any, folder: Path, **options: Any) -> ModelImportError:
    with pytest.raises(ModelImportError) as raised:
        load(saved(proto, folder), **options)
    return raised.value


def of_one_node(each: Any, inputs: Any = IMAGE, opset: Any = 17, kind: int = FLOAT, **initial: Any) -> Any:
    return model([each], inputs, [info("y", None, kind)], weights(**initial), opset)


def test_a_range_is_counted_and_not_written_out(tmp_path: Path) -> None:
    def ranging(*bounds: Any, kind: int = INT64) -> Any:
        return of_one_node(
            node("Range", "a b c", "y"), kind=kind, **dict(zip("abc", map(np.array, bounds), strict=True))
        )

    assert "y: i64[1099511627776];" in load(saved(ranging(0, 1 << 40, 1), tmp_path)).text
    floats = ranging(*map(np.float32, (0, 2**40, 1)), kind=FLOAT)
    assert "y: f32[1099511627776];" in load(saved(floats, tmp_path)).text
    assert "Range 'y'(i64[], i64[], i64[]): a range with the step 0" in str(refusal(ranging(0, 8, 0), tmp_path))
    endless = ranging(*map(np.float32, (0, np.inf, 1)), kind=FLOAT)
    assert "which has no end" in str(refusal(endless, tmp_path))


@pytest.mark.parametrize("bounds", [(0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 1), (0.0, 1.0, 0.3), (1.0, 0.0, 0.5)])
def test_a_range_has_as_many_values_as_numpy_gives_it(bounds: tuple[Any, Any, Any], tmp_path: Path) -> None:
    dtype = np.int64 if isinstance(bounds[0], int) else np.float32
    a, b, c = (np.array(bound, dtype) for bound in bounds)
    kind = INT64 if dtype is np.int64 else FLOAT
    imported = load(saved(of_one_node(node("Range", "a b c", "y"), kind=kind, a=a, b=b, c=c), tmp_path))
    (count,) = imported.graph.vars["y"].dims
    assert str(getattr(count, "value", count)) == str(sum(1 for _ in cast("Any", np).arange(*bounds)))


def test_an_identity_matrix_of_gigabytes_is_refused(tmp_path: Path) -> None:
    error = refusal(of_one_node(node("EyeLike", "x", "y"), [info("x", [200000, 200000])]), tmp_path)
    assert "EyeLike 'y'(f32[200000,200000]): a matrix of 200000 x 200000 elements" in str(error)


def bomb(levels: int, ring: bool = False) -> Any:
    """Return a model of functions each of which calls the next twice; in a ring the last calls the first."""
    from onnx import helper

    proto = of_one_node(helper.make_node("f0", ["x"], ["y"], domain="d"))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    for level in range(levels):
        is_last = level == levels - 1
        op, domain = ("Neg", "") if is_last and not ring else (f"f{0 if is_last else level + 1}", "d")
        body = [helper.make_node(op, [a], [b], domain=domain) for a, b in (("x", "m"), ("m", "y"))]
        proto.functions.append(helper.make_function("d", f"f{level}", ["x"], ["y"], body, opsets))
    proto.opset_import.append(helper.make_opsetid("d", 1))
    return proto


def test_functions_that_become_too_many_nodes_are_refused_before_they_do(tmp_path: Path) -> None:
    assert load(saved(bomb(3), tmp_path)).report.nodes == 8
    error = refusal(bomb(60), tmp_path)
    assert error.code == "import-file"
    assert f"has {2**60} nodes once its functions are inlined, of which at most 1000000" in str(error)
    assert "the function 'f0' calls itself" in str(refusal(bomb(3, ring=True), tmp_path))
    assert "more than 100 functions call each other in a row" in str(refusal(bomb(200), tmp_path))


MALFORMED: dict[str, tuple[Any, str]] = {
    "no kernel": (of_one_node(node("MaxPool", "x", "y")), "the attribute kernel_shape is missing"),
    "no type": (of_one_node(node("Cast", "x", "y")), "the attribute to is missing"),
    "text": (
        of_one_node(node("MaxPool", "x", "y", kernel_shape=[2, 2], strides="abc")),
        "the attribute strides is of type string, expected ints",
    ),
    "no branches": (
        of_one_node(node("If", "c", "y"), c=np.array(True)),
        "the attribute else_branch is missing",
    ),
    "rank": (of_one_node(node("Reshape", "x s", "y"), [info("x", [2, 3])], s=np.zeros(3, np.int64)), "IndexError"),
    "one pad": (of_one_node(node("Pad", "x s", "y"), s=np.array([1])), "IndexError"),
    "three values": (
        of_one_node(node("OneHot", "x d v", "y"), [info("x", [3], INT64)], d=np.array(4), v=np.zeros(3, np.float32)),
        "ValueError",
    ),
    "no groups": (
        of_one_node(node("GroupNormalization", "x s s", "y", num_groups=0), opset=18, s=np.ones(2, np.float32)),
        "groups is 0",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_node_is_named_with_its_operator_and_the_reason(case: str, tmp_path: Path) -> None:
    proto, reason = MALFORMED[case]
    error = refusal(proto, tmp_path)
    title = f"{proto.graph.node[0].op_type} 'y'"
    assert (error.code, error.nodes) == ("import-unsupported", (title,))
    assert f"{title}(" in str(error)
    assert reason in str(error)


def test_an_attribute_that_refers_to_one_of_no_function_is_an_error_of_the_file(tmp_path: Path) -> None:
    proto = of_one_node(node("Cast", "x", "y", to=1))
    proto.graph.node[0].attribute[0].ref_attr_name = "elsewhere"
    error = refusal(proto, tmp_path)
    assert error.code == "import-file"
    assert "the attribute 'to' has no value" in str(error)


def test_a_division_of_shapes_by_zero_is_left_to_the_program(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Div", "s z", "y")]
    proto = model(nodes, [info("x", ["N", 8])], [info("y", None, INT64)], weights(z=np.array([0, 0])))
    assert "op div(" in load(saved(proto, tmp_path)).text


def test_shapes_beyond_64_bits_wrap_as_those_of_the_model_do(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Mul", "s z", "y")]
    proto = model(nodes, [info("x", ["N", 9])], [info("y", None, INT64)], weights(z=np.array([1, 1 << 62])))
    agrees(proto, load(saved(proto, tmp_path)), {"x": np.zeros((2, 9), np.float32)})


def test_places_of_data_that_are_not_paths_are_refused(tmp_path: Path) -> None:
    proto = model([node("Add", "x w", "y")], [info("x", [2])], [info("y", [2])], weights(w=np.ones(2, np.float32)))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for location in ("a\0b", "loop"):
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=location)
        error = refusal(proto, tmp_path)
        assert error.code == "import-file"
        assert "tensor 'w'" in str(error)


def twice(of: str) -> Any:
    """Return a model in which two values have one name."""
    ones = weights(w=np.ones(4, np.float32))
    inputs, nodes = [info("x", [4])], [node("Add", "x w", "y")]
    if of == "nodes":
        nodes.append(node("Mul", "x w", "y"))
    elif of == "node and input":
        nodes.insert(0, node("Neg", "x", "x"))
    elif of == "node and weight":
        nodes.insert(0, node("Neg", "x", "w"))
    return model(nodes, inputs * (1 + (of == "inputs")), [info("y", [4])], ones * (1 + (of == "weights")))


@pytest.mark.parametrize("of", ["inputs", "weights", "nodes", "node and input", "node and weight"])
def test_two_values_of_one_name_are_an_error_of_the_file(of: str, tmp_path: Path) -> None:
    assert load(saved(twice("one each"), tmp_path)).report.nodes == 1
    path = tmp_path / "twice.onnx"
    path.write_bytes(twice(of).SerializeToString())
    with pytest.raises(ModelImportError, match=r"several values of one graph|an input of its graph") as raised:
        load(path)
    assert raised.value.code == "import-file"


def test_an_opset_below_the_first_is_an_error_of_the_file(tmp_path: Path) -> None:
    proto = of_one_node(node("Relu", "x", "y"))
    proto.opset_import[0].version = -5
    path = tmp_path / "below.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelImportError, match="opset -5; the oldest is 1"):
        load(path)


def test_parts_that_are_not_there_are_not_counted_out(tmp_path: Path) -> None:
    split = node("Split", "x", "y z", num_outputs=1 << 40)
    proto = model([split], [info("x", [1 << 20])], [info("y", None)], opset=18)
    path = tmp_path / "parts.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelImportError, match=f"num_outputs={1 << 40}, expected the number of its outputs, 2"):
        load(path)


@pytest.mark.parametrize("plus", [0, 1])
def test_sizes_squared_again_and_again_are_left_to_the_program(plus: int, tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Add", "s one", "v0")]
    nodes += [node("Mul", f"v{turn} v{turn}", f"v{turn + 1}") for turn in range(60)]
    initial = weights(one=np.array([plus]), z=np.ones(1, np.float32))
    proto = model([*nodes, node("Expand", "z v60", "y")], [info("x", ["N"])], [info("y", None)], initial)
    assert "input 'v60' has to be known at import: fix --set N=NUMBER" in str(refusal(proto, tmp_path))


def test_messages_and_sizes_keep_the_start_of_names_that_are_too_long(tmp_path: Path) -> None:
    long = "a_" * 5000
    imported = load(saved(model([node("Relu", "x", "y")], [info("x", [long])], [info("y", None)]), tmp_path))
    assert list(imported.model.sizevars) == [long[:64]]
    error = refusal(model([node("Shrug", long, "y")], [info(long, [long])], [info("y", None)]), tmp_path)
    assert len(str(error)) < 1000


@pytest.mark.parametrize("axis", [2, -3])
def test_first_rows_along_an_axis_that_is_not_there_are_refused(axis: int, tmp_path: Path) -> None:
    nodes = [node("Shape", "q", "end"), node("Slice", "table start end axis", "y")]
    initial = weights(start=np.array([0]), axis=np.array([axis]), table=np.ones((1024, 1024), np.float32))
    proto = model(nodes, [info("q", ["N"])], [info("y", None)], initial)
    assert f"axes: {axis} is out of range for rank 2" in str(refusal(proto, tmp_path))
