"""ONNX models become programs that people can read and that compute the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_models import INT64, agrees, info, model, node, onnx, read, run, saved, weights

from openinfer import MissingDependencyError, ModelImportError, ModelLoader, Simulator, load_graph
from openinfer.cli import main
from openinfer.importers import load
from openinfer.importers.onnx_files.framing import without_large_data
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(7)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def network() -> Any:
    """Return a convolution and a classifier whose reshape computes its shape, as PyTorch exports it."""
    path = "/body/body.0/conv"
    nodes = [
        node("Conv", "x body.0.conv.weight body.0.conv.bias", f"{path}/Conv_output_0", pads=[1] * 4, strides=[2, 2]),
        node("Relu", f"{path}/Conv_output_0", "/body/relu/Relu_output_0"),
        node("Shape", "/body/relu/Relu_output_0", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Unsqueeze", "batch axes", "batch_1"),
        node("Concat", "batch_1 rest", "target", axis=0),
        node("Reshape", "/body/relu/Relu_output_0 target", "flat"),
        node("Gemm", "flat head.weight", "logits", transB=1),
    ]
    for each, name in zip(nodes[:2], (f"{path}/Conv", "/body/relu/Relu"), strict=True):
        each.name = name
    named = {
        "body.0.conv.weight": rand(4, 3, 3, 3),
        "body.0.conv.bias": rand(4),
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
        "head.weight": rand(5, 64),
    }
    return model(nodes, [info("x", ["batch size", 3, 8, 8])], [info("logits", None)], weights(**named))


def test_a_network_computes_the_same_for_every_batch(tmp_path: Path) -> None:
    imported = load(saved(network(), tmp_path))
    proto = read(tmp_path / "small.onnx")
    for batch in (1, 5):
        agrees(proto, imported, {"x": rand(batch, 3, 8, 8)})


def test_the_text_is_written_for_people(tmp_path: Path) -> None:
    imported = load(saved(network(), tmp_path))
    assert imported.text == (Path(__file__).parents[1] / "golden" / "imported_network.oi").read_text(encoding="utf-8")


def test_arithmetic_of_shapes_is_not_in_the_program(tmp_path: Path) -> None:
    imported = load(saved(network(), tmp_path))
    assert (imported.report.nodes, imported.report.statements, imported.report.folded) == (8, 4, 4)


def test_a_symbolic_dimension_becomes_a_number(tmp_path: Path) -> None:
    imported = load(saved(network(), tmp_path), values={"batch size": 2})
    assert "x: f32[2, 3, 8, 8];" in imported.text
    assert not imported.model.sizevars


def test_what_is_saved_is_a_program_with_its_container(tmp_path: Path) -> None:
    imported = load(saved(network(), tmp_path))
    program, container = imported.save(tmp_path / "build", "net")
    x = rand(2, 3, 8, 8)
    executor = Simulator(ModelLoader.open(container), load_graph(program)).make_executor()
    executor.insert(x=x)
    executor.step()
    np.testing.assert_array_equal(executor.fetch("logits"), run(imported, {"x": x})[0])


def test_the_command_writes_both_files(tmp_path: Path) -> None:
    path = saved(network(), tmp_path)
    result = CliRunner().invoke(
        main, ["import", str(path), "-o", str(tmp_path), "--name", "net", "--set", "batch size=2"]
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "net.oi").read_text(encoding="utf-8") == load(path, values={"batch size": 2}).text
    assert set(ModelLoader.open(tmp_path / "net.oinf").tensors) == {
        "body.0.conv.weight",
        "body.0.conv.bias",
        "head.weight",
    }


def test_every_unsupported_node_is_listed_with_its_inputs(tmp_path: Path) -> None:
    nodes = [node("Det", "x", "a"), node("Relu", "x", "b"), node("Multinomial", "x", "c"), node("Neg", "a", "d")]
    outputs = [info("d", None, INT64), info("b", None), info("c", None)]
    path = saved(model(nodes, [info("x", [3])], outputs), tmp_path)
    with pytest.raises(ModelImportError) as raised:
        load(path)
    assert raised.value.code == "import-unsupported"
    assert raised.value.nodes == ("Det 'a'", "Multinomial 'c'")
    assert "Multinomial 'c'(f32[3]): no operator implements it: make the random numbers an input" in str(raised.value)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("Acos", "x", "y"), "no operator implements it: export the model with other operators in its place"),
        (node("Relux", "x", "y"), "ONNX has no such operator; the nearest is Relu"),
        (node("Flash", "x", "y"), "ONNX has no such operator$"),
        (node("FusedMatMul", "x x", "y"), "ONNX has no such operator; com.microsoft has one: write that domain"),
        (node("CategoryMapper", "x", "y", domain="ai.onnx.ml"), "no operator implements it: export the model with"),
        (node("Twice", "x", "y", domain="lib"), "operators of the domain 'lib' are unknown: export it as a function"),
        (node("Inverse", "x", "y", domain="com.microsoft"), "without ONNX Runtime's operator Inverse"),
        (node("NonZero", "x", "y"), "its input is a scalar, expected at least one dim"),
    ],
)
def test_a_refusal_says_what_to_do(made: Any, words: str, tmp_path: Path) -> None:
    shape = [] if made.op_type == "NonZero" else [3]
    path = saved(model([made], [info("x", shape)], [info("y", None)]), tmp_path)
    with pytest.raises(ModelImportError, match=words):
        load(path)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (onnx.TensorProto.STRING, "input 'x' holds text, expected numbers: encode it as integers before the model"),
        (onnx.TensorProto.FLOAT8E4M3FN, "input 'x' has elements of type float8e4m3fn, which OpenInfer does not have"),
    ],
)
def test_inputs_that_are_no_numbers_are_refused_in_words(kind: int, words: str, tmp_path: Path) -> None:
    path = saved(model([node("Identity", "x", "y")], [info("x", [3], kind)], [info("y", None)]), tmp_path)
    with pytest.raises(ModelImportError, match=words):
        load(path)


def test_an_input_that_decides_about_a_shape_is_fixed_by_its_value(tmp_path: Path) -> None:
    proto = model([node("Reshape", "x shape", "y")], [info("x", [4]), info("shape", [2], INT64)], [info("y", None)])
    path = saved(proto, tmp_path)
    with pytest.raises(ModelImportError, match="fix --set shape=VALUE") as raised:
        load(path)
    assert (raised.value.code, raised.value.inputs) == ("import-value", ("shape",))
    imported = load(path, values={"shape": [2, -1]})
    assert run(imported, {"x": np.arange(4, dtype=np.float32)})[0].tolist() == [[0, 1], [2, 3]]


def test_a_value_for_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match="no input or dimension 'widht'; it has: x, batch size"):
        load(saved(network(), tmp_path), values={"widht": 3})


def test_an_output_may_be_an_input_or_a_constant(tmp_path: Path) -> None:
    nodes = [node("Identity", "x", "y"), node("Identity", "k", "z")]
    proto = model(nodes, [info("x", [2])], [info("y", [2]), info("z", [2])], weights(k=np.array([1, 2], np.float32)))
    agrees(proto, load(saved(proto, tmp_path)), {"x": rand(2)})


def test_names_that_are_not_legal_or_taken_are_made_so(tmp_path: Path) -> None:
    nodes = [node("Add", "1.x true", "inf"), node("Add", "inf w", "W")]
    initial = weights(true=rand(3), w=rand(3))
    proto = model(nodes, [info("1.x", [3])], [info("W", [3])], initial)
    imported = load(saved(proto, tmp_path))
    agrees(proto, imported, {"1.x": rand(3)})
    assert "@ref" in imported.text


def test_integers_that_depend_on_sizes_may_be_data(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("ReduceProd", "shape", "count", keepdims=0),
        node("Range", "zero count one", "places"),
        node("Cast", "count", "total", to=1),
        node("Div", "x total", "y"),
    ]
    initial = weights(zero=np.array(0), one=np.array(1))
    proto = model(nodes, [info("x", ["N", 3])], [info("y", None), info("places", None, INT64)], initial)
    agrees(proto, load(saved(proto, tmp_path)), {"x": rand(4, 3)})


def test_data_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    proto = model([node("Add", "x w", "y")], [info("x", [2])], [info("y", [2])], weights(w=rand(2)))
    tensor = proto.graph.initializer[0]
    (tmp_path / "outside.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    inside = tmp_path / "inside"
    inside.mkdir()
    for location in ("../outside.bin", str(tmp_path / "outside.bin"), ""):
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=location)
        with pytest.raises(ModelImportError, match="data of a model lie in its own folder"):
            load(saved(proto, inside))


def test_external_data_are_read_from_their_file(tmp_path: Path) -> None:
    proto = model([node("Add", "x w", "y")], [info("x", [2])], [info("y", [2])], weights(w=rand(2)))
    tensor = proto.graph.initializer[0]
    kept = tensor.raw_data
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + kept)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "8")):
        tensor.external_data.add(key=key, value=value)
    imported = load(saved(proto, tmp_path))
    assert imported.model.load_tensor("w").tobytes() == kept
    tensor.external_data[1].value = "16"
    with pytest.raises(ModelImportError, match=r"claims 8 bytes at 16 of w\.bin, which has 16"):
        load(saved(proto, tmp_path))


def test_a_cycle_and_a_claim_of_more_than_there_is_are_errors(tmp_path: Path) -> None:
    proto = model([node("Add", "x b", "a"), node("Add", "x a", "b")], [info("x", [2])], [info("b", [2])])
    with pytest.raises(ModelImportError, match="before any node writes it"):
        load(saved(proto, tmp_path))
    large = model([node("Add", "x w", "y")], [info("x", [2])], [info("y", [2])], weights(w=rand(2)))
    large.graph.initializer[0].dims[0] = 1 << 40
    with pytest.raises(ModelImportError, match="holds 8 values or bytes"):
        load(saved(large, tmp_path))


def test_graphs_that_are_nested_deeply_are_refused(tmp_path: Path) -> None:
    from onnx import helper

    inner = helper.make_graph([node("Identity", "x", "y")], "g", [], [info("y", [1])])
    for _ in range(20):
        branch = node("If", "c", "y", then_branch=inner, else_branch=helper.make_graph([], "g", [], []))
        inner = helper.make_graph([branch], "g", [], [info("y", [1])])
    proto = model([inner.node[0]], [info("x", [1])], [info("y", [1])])
    with pytest.raises(ModelImportError, match="nested more than 16 levels"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize(
    ("name", "head", "said"),
    [
        ("m.pt", b"PK\x03\x04", "torch.onnx.export"),
        ("m.bin", b"\x1c\0\0\0TFL3", "TFLite model, expected a name that ends with .tflite"),
        ("m.keras", b"PK\x03\x04", "tf.lite.TFLiteConverter.from_keras_model"),
        ("m.pkl", b"\x80\x04", "a pickle, which runs code"),
        ("m.onnx", b"\x80\x04", "a pickle"),
        ("m.h5", b"\x89HDF\r\n\x1a\n", "Keras"),
        ("m.txt", b"hello", "known: onnx (.onnx), tflite (.tflite), torch (.pt2)"),
    ],
)
def test_other_files_are_named_with_what_to_do(name: str, head: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(head)
    with pytest.raises(ModelImportError) as raised:
        load(tmp_path / name)
    assert raised.value.code == "import-format"
    assert said in str(raised.value)


def test_a_file_that_is_not_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\x08\x07garbage" * 9)
    with pytest.raises(ModelImportError) as raised:
        load(tmp_path / "m.onnx")
    assert raised.value.code == "import-file"


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(network(), tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r'install "openinfer-core\[onnx\]"'):
        load(path)


def test_importers_are_listed_without_the_package_onnx() -> None:
    code = "import sys, openinfer.importers as i; i.load; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_large_weights_stay_in_the_file_until_they_are_read(tmp_path: Path) -> None:
    values = rand(300, 100)
    proto = model([node("MatMul", "x w", "y")], [info("x", [1, 300])], [info("y", None)], weights(w=values))
    path = saved(proto, tmp_path)
    data = path.read_bytes()
    assert len(without_large_data(memoryview(data), path.name)) < 1000
    imported = load(path)
    np.testing.assert_array_equal(imported.model.load_tensor("w"), values)
    agrees(proto, imported, {"x": rand(1, 300)})


def test_a_message_that_is_not_well_formed_is_left_to_the_package(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w", "y")], [info("x", [1, 300])], [info("y", None)], weights(w=rand(300, 100)))
    whole = proto.SerializeToString()
    for length in range(1, len(whole), 9973):
        (tmp_path / "cut.onnx").write_bytes(whole[:length])
        with pytest.raises(ModelImportError):
            load(tmp_path / "cut.onnx")


def test_definitions_of_other_domains_are_of_the_newest_version(tmp_path: Path) -> None:
    if not onnx.defs.has("FlexAttention", "ai.onnx.preview"):
        pytest.skip("the installed onnx has no operators in ai.onnx.preview")
    attend = onnx.helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview")
    q, k, v = (rand(1, 2, length, 4) for length in (3, 5, 5))
    inputs = [info(name, list(each.shape)) for name, each in (("q", q), ("k", k), ("v", v))]
    graph = onnx.helper.make_graph([attend], "small", inputs, [info("y", [1, 2, 3, 4])])
    versions = {"": onnx.defs.onnx_opset_version(), "ai.onnx.preview": 1}
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(*each) for each in versions.items()])
    scores = np.exp(q @ k.swapaxes(-1, -2) / 2)
    wanted = scores / scores.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(run(load(saved(proto, tmp_path)), {"q": q, "k": k, "v": v})[0], wanted, rtol=1e-5)


def test_each_node_that_cannot_be_imported_is_a_finding_of_its_own(tmp_path: Path) -> None:
    nodes = [node("Nope", "x", "a"), node("Unheard", "x", "b"), node("Add", "a b", "y")]
    for each in nodes[:2]:
        each.domain = "elsewhere"
    proto = model(nodes, [info("x", [4])], [info("y", [4])])
    proto.opset_import.add(domain="elsewhere", version=1)
    path = tmp_path / "strange.onnx"
    path.write_bytes(proto.SerializeToString())
    shown = CliRunner().invoke(main, ["import", str(path), "-o", str(tmp_path)])
    heads = [line for line in shown.output.splitlines() if line.startswith("error[import-unsupported]: ")]
    assert shown.exit_code == 1
    assert [head.split()[1] for head in heads] == ["elsewhere.Nope", "elsewhere.Unheard"]
    assert "\\n" not in shown.output


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux alone")
def test_an_import_takes_at_most_1_3_times_the_memory_of_the_file(tmp_path: Path) -> None:
    layers = range(16)
    arrays = {f"net.{layer}.weight": rand(1024, 1024) for layer in layers}
    nodes = [node("MatMul", f"h{layer} net.{layer}.weight", f"h{layer + 1}") for layer in layers]
    proto = model(nodes, [info("h0", ["n", 1024])], [info("h16", None)], weights(**arrays))
    path = saved(proto, tmp_path)
    program = (
        "import resource, sys\n"
        "from openinfer.importers import load\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "load(sys.argv[2]).save(sys.argv[3], 'warm')\n"
        "before = peak()\n"
        "load(sys.argv[1]).save(sys.argv[3], 'large')\n"
        "print(peak() - before)\n"
    )
    small = saved(network(), tmp_path, "warm.onnx")
    command = [sys.executable, "-c", program, str(path), str(small), str(tmp_path)]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert path.stat().st_size > 64 << 20
    assert grown <= 1.3 * path.stat().st_size


def module_of(each: Any, path: str) -> Any:
    """Put a node into a module, as exporters with dynamo do."""
    each.name = f"node_{each.output[0]}"
    each.metadata_props.add(key="namespace", value=f"net: N/{path}: M/{each.op_type.lower()}: op")
    return each


def test_values_are_named_after_their_modules_and_weights_of_one_number_keep_their_names(tmp_path: Path) -> None:
    nodes = [
        module_of(node("Gemm", "x body.query.weight body.query.bias", "linear_3"), "body.query"),
        module_of(node("Tanh", "linear_3", "val_12"), "body"),
        module_of(node("Gemm", "val_12 head.weight head.bias", "y"), "head"),
    ]
    arrays = {"body.query.weight": rand(4, 3), "body.query.bias": rand(3), "head.weight": rand(3, 1)}
    arrays["head.bias"] = np.float32([0.5])
    proto = model(nodes, [info("x", ["n", 4])], [info("y", None)], weights(**arrays))
    text = load(saved(proto, tmp_path)).text
    assert "head_bias: f32[1] @init(0.5);" in text
    assert "op linear(x, body_query_weight, bias=body_query_bias) >> query;" in text
    assert "op tanh(query) >> tanh;" in text


def test_the_prefix_of_inlined_names_is_left_out(tmp_path: Path) -> None:
    prefix = "If_0_then_branch__Inline_0__"
    nodes = [
        node("MatMul", f"x {prefix}fc.weight", f"{prefix}/fc/MatMul_output_0"),
        node("Add", f"{prefix}/fc/MatMul_output_0 {prefix}fc.bias", f"{prefix}/fc/Add_output_0"),
        node("Tanh", f"{prefix}/fc/Add_output_0", "y"),
    ]
    for each, kind in zip(nodes, ("fc/MatMul", "fc/Add", "act/Tanh"), strict=True):
        each.name = f"{prefix}/{kind}"
    arrays = {f"{prefix}fc.weight": rand(4, 3), f"{prefix}fc.bias": rand(3)}
    imported = load(saved(model(nodes, [info("x", ["n", 4])], [info("y", None)], weights(**arrays)), tmp_path))
    assert set(imported.model.tensors) == set(arrays)
    assert f'fc_weight: f32[4, 3] @ref("{prefix}fc.weight");' in imported.text
    assert "op linear(x, fc_weight, bias=fc_bias) >> fc;  // fc >> [n, 3]" in imported.text
