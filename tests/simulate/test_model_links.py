"""Sizes, and what variables are linked to in the model: the runtime specification's sections 2 and 3, rule by rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator

F32 = np.float32
EMPTY = "block entry { return; }"
SCALARS = {"f": 2.0, "i": 255, "big": 256, "s": "text", "v": np.array([1, 2], F32)}


def executor(text: str, arrays: dict[str, Any] | None = None, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(arrays or {}, **model), graph(text)).make_executor()


def refused(text: str, arrays: dict[str, Any] | None = None, **model: Any) -> str:
    """Return the code with which a program is refused before it runs."""
    with pytest.raises(oi.ValidationError) as caught:
        executor(f"{text} block entry {{ return; }}", arrays, **model)
    return caught.value.code


@pytest.mark.rule("runtime.links.2")
@pytest.mark.parametrize(
    "declaration", ["dynamic { w: KIND; }", "volatile { w: KIND; }", "constant { w: KIND; }", "persistent { w: KIND; }"]
)
@pytest.mark.parametrize("kind", ["f32[3]", "f64[2]", "f32[1, 2]"])
def test_every_kind_of_memory_has_the_type_of_the_models_tensor(declaration: str, kind: str) -> None:
    arrays = {"w": np.zeros(2, F32)}
    assert refused(declaration.replace("KIND", kind), arrays) == "model-mismatch"
    executor(declaration.replace("KIND", "f32[2]") + EMPTY, arrays)


@pytest.mark.parametrize("section", ["dynamic", "volatile", "constant", "persistent"])
def test_bytes_of_the_model_are_bitsets_where_these_are_declared(section: str) -> None:
    arrays = {"w": np.array([0, 129, 255], np.uint8)}
    executor(f"{section} {{ w: bitset[3]; }} {EMPTY}", arrays)
    assert refused(f"{section} {{ w: bitset[2]; }}", arrays) == "model-mismatch"
    assert refused(f"{section} {{ w: bitset[3]; }}", {"w": np.zeros(3, np.int8)}) == "model-mismatch"


def test_operators_see_bytes_of_the_model_as_bitsets() -> None:
    text = """
      constant { w: bitset[2]; }
      volatile { T(i): bitset[2] @pattern("t{i}"); y: bitset[2]; n: u8[2]; }
      block entry { op xor(w, T[1]) >> y; op popcount(y) >> n; return; }
    """
    run = executor(text, {"w": np.array([1, 255], np.uint8), "t1": np.array([128, 15], np.uint8)})
    run.step()
    assert run.fetch("y").tolist() == [129, 240]
    assert run.fetch("n").tolist() == [2, 4]


@pytest.mark.rule("runtime.links.3")
@pytest.mark.parametrize(
    "declaration",
    ["dynamic { x: f32; }", "volatile { x: f32; }", "constant { x: f32 @init(1.0); }", "persistent { x: f32; }"],
)
def test_variables_that_the_model_does_not_have_are_added(declaration: str) -> None:
    executor(declaration + EMPTY, {"other": F32(1)})


@pytest.mark.rule("runtime.links.4")
@pytest.mark.parametrize("section", ["volatile", "constant"])
def test_what_a_reference_names_has_to_be_there(section: str) -> None:
    assert refused(f'{section} {{ x: f32 @ref("absent"); }}') == "unbound"


@pytest.mark.rule("runtime.links.4")
def test_a_prefix_entry_that_is_used_has_to_be_there() -> None:
    text = 'volatile { W(i): f32 @pattern("w{i}"); y: f32; } block entry { transfer W[INDEX] >> y; return; }'
    executor(text.replace("INDEX", "0"), {"w0": F32(1)})
    with pytest.raises(oi.ValidationError, match="needs the model tensor `w1`") as caught:
        executor(text.replace("INDEX", "1"), {"w0": F32(1)})
    assert caught.value.code == "unbound"


CONSTANT = "constant { c: f32 @init(3.0); }" + EMPTY


@pytest.mark.rule("language.attributes.3", "runtime.links.5")
@pytest.mark.parametrize(
    ("arrays", "metadata", "value"),
    [({"c": F32(1)}, {"c": 2.0}, 1.0), ({"c": F32(1)}, {}, 1.0), ({}, {"c": 2.0}, 2.0), ({}, {}, 3.0)],
    ids=["tensor before metadata", "tensor", "metadata before init", "init"],
)
def test_a_constant_is_a_tensor_else_metadata_else_its_init(
    arrays: dict[str, Any], metadata: dict[str, Any], value: float
) -> None:
    assert executor(CONSTANT, arrays, metadata=metadata).fetch("c") == value


@pytest.mark.rule("runtime.links.5")
def test_a_constant_without_a_value_is_refused() -> None:
    assert refused("constant { c: f32; }") == "unbound"


@pytest.mark.rule("runtime.links.11")
@pytest.mark.parametrize(("dtype", "name", "value"), [("f16", "f", 2.0), ("bf16", "f", 2.0), ("u8", "i", 255)])
def test_metadata_is_narrowed_where_it_fits(dtype: str, name: str, value: float) -> None:
    ex = executor(f"constant {{ {name}: {dtype}; }}" + EMPTY, metadata=SCALARS)
    assert ex.fetch(name) == value
    assert ex.fetch_raw(name).dtype.name == dtype


@pytest.mark.rule("runtime.links.11")
@pytest.mark.parametrize(
    ("name", "kind"), [("f", "f64"), ("f", "i32"), ("i", "f32"), ("big", "u8"), ("s", "f32"), ("v", "f32[3]")]
)
def test_metadata_of_another_kind_is_refused(name: str, kind: str) -> None:
    assert refused(f"constant {{ {name}: {kind}; }}", metadata=SCALARS) == "model-mismatch"


@pytest.mark.rule("runtime.links.12")
def test_a_constant_of_metadata_is_a_host_value_that_operators_take_too() -> None:
    ex = executor(
        "constant { v: f32[2]; f: f32; } volatile { y: f32[2]; } block entry {"
        " op mul(v, f) >> y; op clamp(y, max=f) >> y; return; }",
        metadata=SCALARS,
    )
    ex.step()
    assert ex.fetch("y").tolist() == [2.0, 2.0]


@pytest.mark.rule("runtime.links.10")
@pytest.mark.parametrize("section", ["volatile", "persistent"])
def test_metadata_backs_constants_only(section: str) -> None:
    assert executor(f"{section} {{ f: f32; }}" + EMPTY, metadata=SCALARS).fetch("f") == 0.0


@pytest.mark.rule("runtime.links.6")
@pytest.mark.parametrize(
    ("arrays", "init", "value"), [({"x": F32(4)}, " @init(1.0)", 4.0), ({}, " @init(1.0)", 1.0), ({}, "", 0.0)]
)
@pytest.mark.parametrize("section", ["volatile", "persistent"])
def test_other_variables_start_with_data_else_init_else_zero(
    section: str, arrays: dict[str, Any], init: str, value: float
) -> None:
    ex = executor(f"{section} {{ x: f32{init}; }}" + EMPTY, arrays)
    assert ex.fetch("x") == value
    ex.step()
    assert ex.fetch("x") == value


@pytest.mark.rule("runtime.links.9")
def test_data_of_the_model_is_not_a_value_of_a_dynamic_variable() -> None:
    ex = executor("dynamic { x: f32; } volatile { y: f32; } block entry { transfer x >> y; return; }", {"x": F32(4)})
    with pytest.raises(oi.DynamicUnsetError):
        ex.step()


@pytest.mark.rule("runtime.links.8")
def test_a_table_has_no_data_in_the_model() -> None:
    assert refused("persistent { K(i): f32[2] @table; }", {"K": np.zeros(2, F32)}) == "model-mismatch"


@pytest.mark.rule("runtime.sizes.1")
@pytest.mark.parametrize(
    ("dims", "shape"), [("N", (3,)), ("2*N+1", (7,)), ("N*M-1, (N+M)*2", (5, 10)), ("N, M", (3, 2)), ("4", (4,))]
)
def test_dims_are_computed_from_the_sizes_of_the_model(dims: str, shape: tuple[int, ...]) -> None:
    ex = executor(f"volatile {{ y: u8[{dims}]; }}" + EMPTY, sizevars={"N": 3, "M": 2})
    assert ex.fetch("y").shape == shape


@pytest.mark.rule("runtime.sizes.2")
def test_sizes_are_overridden_by_name() -> None:
    model = oi.Model.from_arrays({"w": np.ones(3, F32)}, sizevars={"B": 1, "D": 3})
    program = graph("dynamic { x: f32[B, D]; } volatile { w: f32[D]; y: f32[B, D]; } block entry {"
                    " op add(x, w) >> y; return; }")  # fmt: skip
    ex = Simulator(model, program, sizes={"B": 2}).make_executor()
    ex.step(x=np.zeros((2, 3), F32))
    assert ex.fetch("y").tolist() == [[1, 1, 1], [1, 1, 1]]
    assert model.size_of("B") == 1


@pytest.mark.rule("runtime.sizes.3")
@pytest.mark.parametrize(("sizes", "code"), [({"Q": 2}, "unknown-sizevar"), ({"D": 4}, "model-mismatch")])
def test_an_override_is_a_size_of_the_model_that_no_stored_tensor_has(sizes: dict[str, int], code: str) -> None:
    model = oi.Model.from_arrays({"w": np.ones(3, F32)}, sizevars={"D": 3})
    with pytest.raises(oi.ValidationError) as caught:
        Simulator(model, graph("volatile { w: f32[D]; }" + EMPTY), sizes=sizes)
    assert caught.value.code == code
