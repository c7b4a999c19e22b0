"""Resolving a graph against a model: every mistake is reported with its code and place, all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import ModelError, ValidationError
from openinfer.ir.resolved import Filled, FromMetadata, FromTensor, Mode, RuntimeInts, RuntimeScalar, Storage
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import AttributeSpec, DeviceSpec
from openinfer.validate import resolve, signature_findings


@pytest.fixture
def model() -> Model:
    return Model.from_arrays(
        {
            "a": np.zeros(4, np.float32),
            "scale": np.float32(2.0),
            "W.0": np.zeros((4, 4), np.float32),
            "W.1": np.zeros((4, 4), np.float32),
            "B.0": np.zeros((4, 3), np.float32),
        },
        sizevars={"D": 4, "L": 2},
        metadata={"alpha": 0.5, "mode": "floor", "count": 3},
    )


def program(declarations: str, statements: str) -> str:
    return f"{declarations}\nblock entry {{\n{statements}\n}}\n"


X = "dynamic { x: f32[D]; }\nvolatile { a: f32[D]; y: f32[D]; }"


def test_declarations_are_linked_and_sized(model: Model) -> None:
    text = program(
        "dynamic { x: f32[D]; k: i32 @init(7); }\n"
        'volatile { a: f32[D]; y: f32[2*D]; W(l): f32[D, D] @pattern("W.{l}"); }\n'
        "constant { alpha: f32; s: f32 @ref(scale); }\n"
        "persistent { step: i64 @init(5); }",
        "assign t: f32[D];\nop add(x, a) >> t;\nreturn;",
    )
    resolved = resolve(graph(text), model)
    variables = resolved.variables
    assert variables["x"].initial is None
    assert variables["k"].initial == Filled(7)
    assert variables["a"].initial == FromTensor("a")
    assert variables["y"].initial == Filled(0.0)
    assert variables["y"].type.shape == (8,)
    assert variables["alpha"].initial == FromMetadata("alpha")
    assert variables["s"].initial == FromTensor("scale")
    assert variables["step"].initial == Filled(5)
    assert variables["t"].storage is Storage.TEMPORARY
    assert resolved.tables["W"].tensor_name((1,)) == "W.1"


def test_paths_are_refused_with_what_reads_them(model: Model) -> None:
    found = graph(program(X, "op add(x, a) >> y; return;"))

    with pytest.raises(TypeError, match=r"expected a Model, found str: openinfer\.ModelLoader\.open"):
        resolve(found, "weights.oinf")
    with pytest.raises(TypeError, match=r"expected a Graph, found str: openinfer\.load_graph"):
        resolve("program.oi", model)


@pytest.mark.rule("runtime.checks.4")
def test_operators_are_resolved_to_canonical_names_with_every_setting(model: Model) -> None:
    text = program(
        X + "\nconstant { alpha: f32; }\npersistent { n: i64; }",
        "op relu(x, negative_slope=0.5) >> y;\nop clamp(y, min=alpha) >> y;\n"
        "op reduce_sum(x, axes=[0], keepdims=true) >> a;",
    ).replace("a: f32[D]", "a: f32[1] @init(0.0)")
    without_a = Model.from_arrays({}, sizevars={"D": 4}, metadata={"alpha": 0.5})
    ops = list(resolve(graph(text), without_a).ops.values())
    relu, clamp, total = ops
    assert relu.op == "relu"
    assert relu.settings["alpha"] == 0.5
    assert clamp.mode is Mode.IN_PLACE
    assert clamp.runtime_settings == {"min": RuntimeScalar("alpha")}
    assert total.op == "sum_axis"
    assert total.settings["axes"] == (0,)
    assert model.size_of("L") == 2


@pytest.mark.rule("language.settings.5")
def test_sizes_and_loop_indices_in_settings(model: Model) -> None:
    text = program(
        "dynamic { x: f32[D, D]; }\nvolatile { y: f32[D*D]; z: i64[1]; }",
        "op reshape(x, shape=[D*D]) >> y;\nloop rows (i in 0..2) { op fill(z, value=i) >> z; }",
    )
    reshape, fill = resolve(graph(text), model).ops.values()
    assert reshape.settings["shape"] == (16,)
    assert fill.runtime_settings == {"value": RuntimeScalar("i")}
    assert RuntimeInts not in {type(v) for v in reshape.runtime_settings.values()}


MISTAKES = {
    "unknown-op": (program(X, "op addd(x, a) >> y;"), (4, 4), "did you mean `add`"),
    "arity": (program(X, "op add(x) >> y;"), (4, 4), "missing: b"),
    "unknown-setting": (program(X, "op relu(x, slope=1.0) >> y;"), (4, 12), "no setting `slope`"),
    "setting-type": (program(X, "op softmax(x, axis=true) >> y;"), (4, 20), "found a bool"),
    "shape-mismatch": (
        program(X.replace("y: f32[D]", "y: f32[2]"), "op add(x, a) >> y;"),
        (4, 17),
        "`y` is declared f32[2]",
    ),
    "output-dtype": (program(X.replace("y: f32[D]", "y: f64[D]"), "op add(x, a) >> y;"), (4, 17), "yields f32"),
    "dtype-unsupported": (
        program("dynamic { x: f32[D]; k: i32[D]; }\nvolatile { y: f32[D]; }", "op add(x, k) >> y;"),
        (4, 11),
        "have one dtype, found f32[4] and i32[4]",
    ),
    "unknown-sizevar": (program("dynamic { x: f32[Q]; }", "return;"), (1, 18), "unknown size variable `Q`"),
    "bad-dim": (program("dynamic { x: f32[L-D]; }", "return;"), (1, 18), "is -2"),
    "model-mismatch": (program("volatile { a: f32[2]; }", "return;"), (1, 12), "the model's `a` is f32[4]"),
    "unbound": (program("constant { missing: f32; }", "return;"), (1, 12), "has no value"),
    "write-constant": (
        program(X + "\nconstant { c: f32[D] @init(1.0); }", "op add(x, a) >> c;"),
        (5, 17),
        "`c` is constant",
    ),
    "persistent-direct": (program(X + "\npersistent { p: f32[D]; }", "op add(x, p) >> y;"), (5, 11), "cache.read p"),
    "cond-not-scalar": (
        program(X, "branch x ok ok;") + "block ok { return; }",
        (4, 8),
        "`x` is f32[4], expected one bool",
    ),
    "bound-not-scalar": (program(X, "loop l (i in 0..x) { }"), (4, 17), "bound `x`"),
    "inplace-denied": (
        program("volatile { m: f32[D, D]; }", "op sum_axis(m, axes=[0]) >> m;"),
        (3, 29),
        "cannot write to its own input `m`",
    ),
}


@pytest.mark.rule(
    "language.branch.2",
    "language.dimensions.5",
    "language.loop.1",
    "language.operators.3",
    "language.operators.4",
    "language.operators.6",
    "runtime.checks.6",
    "runtime.checks.7",
    "runtime.checks.9",
)
@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_reported_with_code_place_and_message(code: str, model: Model) -> None:
    text, place, message = MISTAKES[code]
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model)
    errors = [d for d in caught.value.diagnostics if d.severity.value == "error"]
    assert [d.code for d in errors] == [code]
    assert (errors[0].span.line, errors[0].span.column) == place
    assert message in f"{errors[0].message} {errors[0].hint}"


@pytest.mark.rule("runtime.checks.1")
def test_all_independent_mistakes_are_reported_together(model: Model) -> None:
    text = program(X, "op ad(x, a) >> y;\nop relu(x, slope=1.0) >> y;\nop add(x) >> y;\nreturn;")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model)
    assert [d.code for d in caught.value.diagnostics] == ["unknown-op", "unknown-setting", "arity"]
    assert caught.value.code == "unknown-op"
    assert "and 2 more" in str(caught.value)


@pytest.mark.rule("language.prefixes.4")
@pytest.mark.parametrize(
    ("declaration", "index", "message"),
    [
        ('W(l): f32[D, D] @pattern("W.{l}");', "2", "no tensor of that name"),
        ('B(l): f32[D, D] @pattern("B.{l}");', "0", "the model's `B.0` is f32[4,3]"),
    ],
)
def test_prefix_entries_known_now_must_exist(declaration: str, index: str, message: str, model: Model) -> None:
    name = declaration[0]
    text = program(f"volatile {{ {declaration} y: f32[D, D]; }}", f"transfer {name}[{index}] >> y;")
    with pytest.raises(ValidationError, match=r"model-mismatch|unbound") as caught:
        resolve(graph(text), model)
    assert message in caught.value.diagnostics[0].message


@pytest.mark.rule("language.prefixes.4", "runtime.links.4")
def test_prefix_entries_of_a_loop_with_known_bounds_are_checked(model: Model) -> None:
    declarations = 'volatile { W(l): f32[D, D] @pattern("W.{l}"); y: f32[D, D]; }'
    assert resolve(graph(program(declarations, "loop a (l in 0..L) { transfer W[l] >> y; }")), model)
    with pytest.raises(ValidationError, match=r"W\[2\]"):
        resolve(graph(program(declarations, "loop a (l in 0..L+1) { transfer W[l] >> y; }")), model)


@pytest.mark.rule("runtime.sizes.3")
def test_sizes_may_be_overridden_but_links_are_checked_with_them(model: Model) -> None:
    free = graph(program("dynamic { x: f32[D]; }\nvolatile { y: f32[D]; }", "op relu(x) >> y;"))
    assert resolve(free, model, sizes={"D": 7}).variables["y"].type.shape == (7,)
    with pytest.raises(ValidationError, match=r"`a` is declared f32\[7\]"):
        resolve(graph(program(X, "op add(x, a) >> y;")), model, sizes={"D": 7})
    with pytest.raises(ValidationError, match="no size variable `Q`"):
        resolve(free, model, sizes={"Q": 1})


@pytest.mark.rule("language.phases.4")
def test_warnings_are_errors_in_strict_mode(model: Model) -> None:
    text = program(X, 'op add(x, a) >> y with { placement = "moon" };\nreturn;')
    (warning,) = resolve(graph(text), model).warnings
    assert warning.code == "unknown-placement"
    with pytest.raises(ValidationError, match="unknown device `moon`"):
        resolve(graph(text), model, strict=True)


def test_devices_are_looked_up_in_the_hints_of_blocks_and_loops_too() -> None:
    text = """
    dynamic { x: f32[2]; }
    volatile { y: f32[2]; }
    block entry { loop a (i in 0..2) with { placement = "moon" } { op exp(x) >> y; } yield x; await x; return y; }
    block beside with { placement = "sun" } { await x; yield x; }
    """
    found = resolve(graph(text), Model.from_arrays({})).warnings
    assert [(each.code, each.message.split("`")[1], each.span and each.span.line) for each in found] == [
        ("unknown-placement", "moon", 4),
        ("unknown-placement", "sun", 5),
    ]


def test_a_mistake_in_a_declaration_is_not_reported_again_where_the_variable_is_used(model: Model) -> None:
    text = program("dynamic { x: f32[Q]; z: f32[Q]; }\nvolatile { y: f32[D]; }", "op add(x, z) >> y;\nreturn;")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model)
    assert [(d.code, d.span.line) for d in caught.value.diagnostics] == [("unknown-sizevar", 1)]


def test_mistakes_of_structure_and_of_signatures_are_reported_together(model: Model) -> None:
    text = program(X, "op add(nowhere, a) >> y;\nop add(x) >> y;\nop argmin_axis(x) >> y;\nreturn;")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model)
    assert [d.code for d in caught.value.diagnostics] == ["unknown-variable", "arity", "missing-setting"]


NAMED_INPUTS = {
    "nowhere": ("unknown-variable", "unknown variable `nowhere`"),
    "b[0]": ("not-indexable", "`b` is not a prefix table"),
    "W": ("needs-index", "write `W[l]`"),
    "l[0]": ("not-indexable", "`l` is a loop index"),
    "t[0]": ("not-indexable", "`t` is a temporary"),
    "W[0, 1]": ("index-count", "takes 1 index, found 2"),
}


@pytest.mark.rule("language.operators.2")
@pytest.mark.parametrize("bias", NAMED_INPUTS)
def test_an_input_in_the_place_of_a_setting_is_checked_like_any_other(bias: str) -> None:
    code, message = NAMED_INPUTS[bias]
    text = program(
        "dynamic { x: f32[4, 4]; w: f32[4, 4]; b: f32[4]; }\n"
        'volatile { y: f32[4, 4]; W(l): f32[4] @pattern("W.{l}"); }',
        f"assign t: f32[4];\nloop a (l in 0..2) {{ op linear(x, w, bias={bias}) >> y; }}\nreturn;",
    )
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), Model.from_arrays())
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.span.line, finding.span.column) == (code, 5, 43)
    assert message in finding.message
    assert finding.span.end - finding.span.start == len(bias)


def test_signatures_are_checked_without_a_model() -> None:
    text = program(X, "op relo(x) >> y;\nop matmul(x) >> y;\nop relu(x, beta=3.0) >> y;\nreturn;")
    found = signature_findings(graph(text), Environment.default())
    assert [d.code for d in found] == ["unknown-op", "arity", "unknown-setting"]


def test_a_setting_known_only_when_it_runs_does_not_make_a_false_finding(model: Model) -> None:
    text = program(
        "dynamic { x: f32[D]; n: i64; }\nvolatile { y: f32[2, 2]; }", "op reshape(x, shape=[n, -1]) >> y;\nreturn;"
    )
    (op,) = resolve(graph(text), model).ops.values()
    assert isinstance(op.runtime_settings["shape"], RuntimeInts)


def test_a_persistent_scalar_may_be_a_condition(model: Model) -> None:
    text = program("persistent { ready: bool; }", "branch ready go go;\nreturn;") + "block go { return; }"
    assert resolve(graph(text), model).warnings == ()


NUMBER = "dynamic { x: f32[4]; n: i64; k: bool; lo: f32; }\n"


@pytest.mark.parametrize(
    ("declaration", "statement"),
    [
        ("y: f32[4]", "op softmax(x, axis=n) >> y;"),
        ("y: f32", "op sum_axis(x, axes=n) >> y;"),
        ("y: f32[2, 2]", "op reshape(x, shape=[n, 2]) >> y;"),
        ("y: f32[1]", "op sum_axis(x, axes=[0], keepdims=k) >> y;"),
    ],
)
def test_shapes_that_depend_on_a_run_time_setting_wait_for_the_run(declaration: str, statement: str) -> None:
    text = program(f"{NUMBER}volatile {{ {declaration}; }}", f"{statement}\nreturn;")
    (op,) = resolve(graph(text), Model.from_arrays()).ops.values()
    assert len(op.runtime_settings) == 1


@pytest.mark.parametrize(("declaration", "code"), [("y: f64[4]", "output-dtype"), ("y: f32[7]", "shape-mismatch")])
def test_a_run_time_scalar_does_not_switch_checks_off(declaration: str, code: str) -> None:
    text = program(f"{NUMBER}volatile {{ {declaration}; }}", "op clamp(x, min=lo) >> y;\nreturn;")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), Model.from_arrays())
    assert caught.value.code == code


@pytest.mark.rule("language.settings.6")
def test_strict_mode_takes_settings_from_constants_only() -> None:
    text = program(f"{NUMBER}volatile {{ y: f32[4]; }}", "op clamp(x, min=lo) >> y;\nreturn;")
    with pytest.raises(ValidationError, match="`lo`, which is not constant"):
        resolve(graph(text), Model.from_arrays(), strict=True)


@pytest.mark.rule("runtime.links.11")
@pytest.mark.parametrize(("dtype", "accepted"), [("f32", True), ("f16", True), ("f64", False), ("i32", False)])
def test_metadata_is_narrowed_and_never_widened(dtype: str, accepted: bool) -> None:
    parsed = graph(program(f"constant {{ k: {dtype}; }}", "return;"))
    model = Model.from_arrays(metadata={"k": 0.1})
    if accepted:
        assert resolve(parsed, model).variables["k"].initial == FromMetadata("k")
        return
    with pytest.raises(ValidationError, match="metadata `k`: f32"):
        resolve(parsed, model)


@pytest.mark.rule("language.attributes.3")
def test_an_initial_value_in_addition_to_metadata_is_warned_of() -> None:
    parsed = graph(program("constant { k: f32 @init(2.0); }", "return;"))
    (warning,) = resolve(parsed, Model.from_arrays(metadata={"k": 0.5})).warnings
    assert warning.code == "init-unused"


@pytest.mark.rule("language.attributes.10")
def test_attributes_of_plugins_silence_their_own_name_only() -> None:
    known = {"lay": AttributeSpec(name="lay", summary="a layout")}
    environment = replace(Environment.default(), attributes=known)
    text = program("volatile { a: f32 @lay(1); b: f32 @layout(1); }", "return;")
    (warning,) = resolve(graph(text), Model.from_arrays(), environment=environment).warnings
    assert "@layout" in warning.message


def test_loops_over_more_entries_than_can_be_counted_are_checked_when_they_run() -> None:
    text = program(
        'volatile { W(l): f32 @pattern("W.{l}"); y: f32; }', "loop q (i in 0..B*B) { op relu(W[i]) >> y; }\nreturn;"
    )
    assert resolve(graph(text), Model.from_arrays(sizevars={"B": 2**31}))


def test_bounds_beyond_all_integers_are_reported_without_their_digits() -> None:
    text = program("volatile { y: f32; }", f"loop q (i in 0..{'*'.join(['B'] * 150)}) {{ barrier; }}\nreturn;")
    with pytest.raises(ValidationError, match=r"is [0-9]{20}…, which does not fit 64 bits"):
        resolve(graph(text), Model.from_arrays(sizevars={"B": 2**62}))


def test_sizes_beyond_all_bounds_are_reported_without_their_digits() -> None:
    huge = "*".join(["B"] * 150)
    text = program(f"dynamic {{ x: f32[{huge}, {huge}]; }}", "return;")
    with pytest.raises(ValidationError, match="bad-dim") as caught:
        resolve(graph(text), Model.from_arrays(sizevars={"B": 2**62}))
    assert "9223372036854775807" in str(caught.value)


@pytest.mark.rule("runtime.sizes.1")
@pytest.mark.parametrize("size", ["8", 2.5, True, -1])
def test_sizes_are_exact_integers(size: object) -> None:
    parsed = graph(program("dynamic { x: f32[B]; }", "return;"))
    with pytest.raises(ValidationError, match="expected a non-negative integer"):
        resolve(parsed, Model.from_arrays(sizevars={"B": 4}), sizes={"B": size})
    with pytest.raises(ModelError, match="expected a non-negative integer"):
        Model.from_arrays(sizevars={"B": size})


def test_sizes_of_numpy_are_taken_exactly() -> None:
    parsed = graph(program("dynamic { x: f32[B*B*B]; }", "return;"))
    resolved = resolve(parsed, Model.from_arrays(sizevars={"B": 4}), sizes={"B": np.int32(100_000)})
    assert resolved.variables["x"].type.shape == (10**15,)


@pytest.mark.parametrize("text", ["0x_", "9" * 5000, "D*" + "9" * 30])
def test_integers_that_cannot_be_read_are_bad_dimensions(text: str) -> None:
    with pytest.raises(ModelError, match="bad dimension"):
        Model.from_arrays(sizevars={"D": 1}).resolve_dim_value(text)


def test_metadata_integers_fit_64_bits() -> None:
    with pytest.raises(ModelError, match="does not fit i64"):
        Model.from_arrays(metadata={"k": 2**70})


def test_a_setting_may_be_called_nan() -> None:
    text = program("dynamic { x: f32[4]; }\nvolatile { y: f32; }", 'op max_axis(x, nan="propagate") >> y;\nreturn;')
    parsed = graph(text)
    (op,) = resolve(parsed, Model.from_arrays()).ops.values()
    assert op.settings["nan"] == "propagate"
    assert graph(parsed.to_dsl()) == parsed
    assert type(parsed).from_json(parsed.to_json()) == parsed


def test_more_dimensions_than_backends_take_are_refused() -> None:
    for rank, accepted in ((32, True), (33, False)):
        parsed = graph(program(f"dynamic {{ x: f32[{', '.join(['1'] * rank)}]; }}", "return;"))
        if accepted:
            assert len(resolve(parsed, Model.from_arrays()).variables["x"].type.shape) == rank
        else:
            with pytest.raises(ValidationError, match="33 dimensions, more than 32"):
                resolve(parsed, Model.from_arrays())


def test_metadata_that_does_not_fit_is_shown_with_its_value() -> None:
    parsed = graph(program("constant { k: i8; }", "return;"))
    with pytest.raises(ValidationError, match=r"cannot hold the model's metadata `k`: i64\[\] of 300"):
        resolve(parsed, Model.from_arrays(metadata={"k": 300}))


@pytest.mark.rule("runtime.errors.7")
def test_a_mismatch_of_shapes_names_where_each_size_comes_from() -> None:
    text = program(
        "dynamic { x: f32[D, 2*H]; }\nvolatile { w: f32[D, 3]; y: f32[D, D]; }", "op matmul(x, w) >> y;\nreturn;"
    )
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), Model.from_arrays(sizevars={"D": 4, "H": 8}), sizes={"H": 5})
    notes = [(related.message, related.span.line) for related in caught.value.diagnostics[0].related]
    assert notes == [
        ("`x` is f32[D, 2*H]: D = 4 from the model, H = 5 from the caller", 1),
        ("`w` is f32[D, 3]: D = 4 from the model", 2),
    ]


def test_a_temporary_of_another_shape_is_shown_where_it_is_assigned() -> None:
    text = program("dynamic { x: f32[D]; }", "assign t: f32[7];\nop relu(x) >> t;\nreturn;")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), Model.from_arrays(sizevars={"D": 4}))
    notes = [(related.message, related.span.line) for related in caught.value.diagnostics[0].related]
    assert notes == [("`x` is f32[D]: D = 4 from the model", 1), ("`t` is declared here", 3)]


def test_a_misspelt_alias_of_a_setting_is_recognised() -> None:
    text = program("dynamic { x: f32[4]; }\nvolatile { y: f32[4]; }", "op relu(x, negative_slop=0.1) >> y;\nreturn;")
    (finding,) = signature_findings(graph(text), Environment.default())
    assert finding.hint == "did you mean `negative_slope`?"


@pytest.mark.rule("runtime.checks.2")
def test_an_error_names_the_node_of_its_first_finding(model: Model) -> None:
    with pytest.raises(ValidationError) as caught:
        resolve(graph(program(X, "op relu(x) >> y;\nop add(x, a, a) >> y;\nop addd(x, a) >> y;\nreturn;")), model)
    error = caught.value
    assert (error.code, error.block, error.node_index, error.node_desc) == ("arity", "entry", 1, "op add(x,a,a) >> y")
    assert [(d.block, d.node_index) for d in error.diagnostics] == [("entry", 1), ("entry", 2)]


def test_a_known_name_that_cannot_be_a_setting_is_not_suggested(model: Model) -> None:
    text = program(
        "volatile { trits: t2; v: f32[D]; }", "op fill(v, value=trits) >> v;\nop fill(v, value=trit) >> v;\nreturn;"
    )
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model)
    assert [(d.code, d.hint) for d in caught.value.diagnostics] == [
        ("setting-type", None),
        ("unknown-variable", "did you mean `trits`?"),
    ]


@pytest.mark.rule("runtime.checks.11", "runtime.devices.2")
def test_every_operator_needs_something_that_carries_it_out_on_the_device(model: Model) -> None:
    known = Environment.default()
    box = DeviceSpec(name="box", summary="", probe="x:y", backend="x:y", expression_dtypes=frozenset({"f32"}))
    offered = replace(known, devices={**known.devices, "box": box})
    text = program("volatile { a: f32[D] @init(0.0); h: f64[D]; }", "op exp(a) >> a;\nop exp(h) >> h;\nop neg(h) >> h;")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model, device="box", environment=offered)
    errors = [d for d in caught.value.diagnostics if d.severity.value == "error"]
    assert [(d.code, d.node_index) for d in errors] == [("kernel-missing", 1), ("kernel-missing", 2)]
    assert "box has no exp for f64" in errors[0].message
