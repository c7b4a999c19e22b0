"""Temporaries without a declaration: types that follow from statements, where they do not, and tools that show them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.dims import simplified
from openinfer.plugins.environment import Environment
from openinfer.symbolic import parse, text
from openinfer.validate import resolve
from openinfer.validate.inference import inferred_types
from openinfer_oinf import SizeVar, write_oinf

SIZES = {"B": 2, "D": 4, "H": 8, "K": 2, "Dh": 2, "T": 4, "U": 4}
MODEL = oi.Model.from_arrays({"W": np.eye(4, dtype=np.float32)}, sizevars=SIZES)
DECLARED = """
dynamic { x: f32[B, D]; image: f32[1, 3, H, H]; ids: i64[B]; flag: bool; row: f32[T]; other: f32[U]; }
constant { W: f32[D, D]; kernel: f32[5, 3, 3, 3] @init(0.5); }
volatile { y: f32[B, D]; grid: f32[H/2, D]; }
persistent { C(l, t): f32[D] @table; F(l, t): f32[D] @table @fixed(t=16); A(i): f32[D] @auto_dim(i); n: i32; }
"""

TYPES = {
    "op exp(x) >> t;": "t: f32[B, D]",
    "op matmul(x, W) >> t;": "t: f32[B, D]",
    "op cast(x, to=f16) >> t;": "t: f16[B, D]",
    "op concat(x, x, axis=1) >> t;": "t: f32[B, 2*D]",
    "op concat(x, x, x, axis=0) >> t;": "t: f32[3*B, D]",
    "op concat(x, W, axis=0) >> t;": "t: f32[B+D, D]",
    "op flatten(image) >> t;": "t: f32[1, 3*H*H]",
    "op reshape(x, shape=[B, K, Dh]) >> t;": "t: f32[B, K, Dh]",
    "op reshape(x, shape=[B*D]) >> t;": "t: f32[B*D]",
    "op reshape(x, shape=[-1]) >> t;": "t: f32[B*D]",
    "op transpose(image, perm=[3, 0, 1, 2]) >> t;": "t: f32[H, 1, 3, H]",
    "op conv2d(image, kernel) >> t;": "t: f32[1, 5, H-2, H-2]",
    "op conv2d(image, kernel, stride=[2, 2]) >> t;": "t: f32[1, 5, floor((H-1)/2)-0, floor((H-1)/2)-0]",
    "op max_pool2d(image, kernel=[2, 2], stride=[2, 2]) >> t;": "t: f32[1, 3, floor(H/2), floor(H/2)]",
    "op sum_axis(x, axes=[1]) >> t;": "t: f32[B]",
    "op topk(x, k=3) >> t, at;": "t: f32[B, 3]",
    "op slice(x, axes=[1], starts=[1], ends=[D]) >> t;": "t: f32[B, D-1]",
    "op embedding(ids, W) >> t;": "t: f32[B, D]",
    "op relu(grid) >> t;": "t: f32[H/2, D]",
    "transfer x >> t;": "t: f32[B, D]",
    "cache.read n >> t;": "t: i32",
    "cache.read C[0, 1] >> t;": "t: f32[D]",
    "cache.read C[0, 1..D] >> t;": "t: f32[D-1, D]",
    "cache.read F[0, ] >> t;": "t: f32[16, D]",
    "cache.read C[0, ] >> t;": "t: f32[?, D]",
    "cache.read A >> t;": "t: f32[?]",
    "cache.read C[0, ] >> s; op matmul(s, W) >> t;": "t: f32[?, D]",
    "cache.read C[0, ] >> s; op sum_axis(s, axes=[0]) >> t;": "t: f32[D]",
    "cache.read n >> k; op narrow(x, axis=1, start=0, length=k) >> t;": "t: f32[B, ?]",
    "cache.read n >> k; op select(image, axis=0, index=k) >> t;": "t: f32[3, H, H]",
    "op add(row, row) >> t;": "t: f32[T]",
    "op add(row, other) >> t;": "t: f32[?]",
    "op slice(x, axes=[0], starts=[1], ends=[B]) >> t;": "t: f32[?, D]",
    "op avg_pool2d(image, kernel=[3, 3], stride=[2, 2], padding=[1, 1]) >> t;": (
        "t: f32[1, 3, floor((H+1)/2), floor((H+1)/2)]"
    ),
    "loop one (i in 0..1) { op select(image, axis=0, index=i) >> t; }": "t: f32[3, H, H]",
    "branch after; op neg(t) >> y;": "t: f32[B, D]",
    "op exp(x) >> t; loop l (i in 0..3) { op add(t, x) >> t; }": "t: f32[B, D]",
}


def program(statements: str, *, results: str = "t") -> str:
    after = "block after { op exp(x) >> t; return; }" if "after" in statements else ""
    return f"{DECLARED} block entry {{ {statements} return {results}; }} {after}"


def types(statements: str) -> dict[str, str]:
    resolved = resolve(oi.graph(program(statements)), MODEL)
    return {each.name: str(each) for each in inferred_types(resolved, MODEL, Environment.default())}


@pytest.mark.rule("language.temporaries.1")
@pytest.mark.parametrize(("statements", "wanted"), TYPES.items())
def test_the_type_follows_from_the_statement(statements: str, wanted: str) -> None:
    assert types(statements)["t"] == wanted.replace(")-0", ")")


@pytest.mark.parametrize("statements", [each for each in TYPES if "?" not in TYPES[each] and ">> s;" not in each])
def test_declaring_what_was_inferred_changes_nothing(statements: str) -> None:
    declarations = " ".join(f"assign {each};" for each in types(statements).values())
    rng = np.random.default_rng(1)
    given = {
        "x": rng.standard_normal((2, 4), np.float32),
        "image": rng.standard_normal((1, 3, 8, 8), np.float32),
        "ids": np.array([3, 1]),
        "row": rng.standard_normal(4, np.float32),
        "other": rng.standard_normal(4, np.float32),
    }
    found = []
    for text_ in (program(statements), program(declarations + statements)):
        executor = oi.Simulator(MODEL, text_).make_executor()
        executor.step(**given)
        found.append(executor.outputs()["t"])
    np.testing.assert_array_equal(*found)


MISTAKES = {
    "what is declared": ("op reshape(x) >> t;", "cannot-infer", "it yields what is declared"),
    "a sequence": ("op iota() >> t;", "cannot-infer", "it yields what is declared"),
    "a quantised type": ("op quantize_linear(x, W0) >> t;", "cannot-infer", "it yields what is declared"),
    "itself": ("op add(t, x) >> t;", "temporary-unset", "before anything has written it"),
    "each other": ("branch after; op add(s, x) >> t; op add(t, x) >> s;", "temporary-unset", "used before"),
    "before": ("op exp(t) >> y; op exp(x) >> t;", "temporary-unset", "before anything has written it"),
    "two shapes": ("op exp(x) >> t; op sum_axis(x, axes=[1]) >> t;", "shape-mismatch", "`t` is f32[2,4]"),
    "two types": ("op exp(x) >> t; op cast(x, to=i32) >> t;", "output-dtype", "`t` is f32[2,4]"),
    "a rank that memory decides": (
        "cache.read C[0, ] >> s; op squeeze(s) >> t;",
        "cannot-infer",
        "known only when the program runs (yields f32[D] or f32[s.shape[0],D])",
    ),
    "a rank that an input decides": (
        "op sum_axis(x, axes=[0], keepdims=flag) >> t;",
        "cannot-infer",
        "known only when the program runs (yields f32[1,4] or f32[4])",
    ),
    "what no size allows": (
        "cache.read C[0, ] >> s; op matmul(s, image) >> t;",
        "cannot-infer",
        "shapes [s.shape[0],D] and [1,3,8,8] have no product",
    ),
    "an operator's own mistake": ("op matmul(x, x) >> t;", "shape-mismatch", "have no product"),
    "assign of another shape": ("assign t: f32[D]; op exp(x) >> t;", "shape-mismatch", "`t` is declared f32[4]"),
    "a loop index": ("loop l (t in 0..2) { op exp(x) >> t; }", "write-readonly", "is read-only"),
}


@pytest.mark.rule("language.temporaries.3")
@pytest.mark.parametrize(("statements", "code", "message"), MISTAKES.values(), ids=MISTAKES)
def test_what_does_not_follow_is_an_error(statements: str, code: str, message: str) -> None:
    written = program(statements.replace("branch after; ", "")).replace("W0", "scale")
    with pytest.raises(oi.ValidationError) as caught:
        resolve(oi.graph(written.replace("constant {", "constant { scale: f32 @init(1.0);")), MODEL)
    first = caught.value.diagnostics[0]
    assert (first.code, message in first.message) == (code, True), str(first)


@pytest.mark.rule("language.temporaries.2")
def test_a_second_type_shows_both_places() -> None:
    with pytest.raises(oi.ValidationError) as caught:
        resolve(oi.graph(program("op exp(x) >> t; op sum_axis(x, axes=[1]) >> t;")), MODEL)
    (finding,) = caught.value.diagnostics
    assert [related.message for related in finding.related][-1] == "`t` gets its type here"


@pytest.mark.rule("language.temporaries.5")
def test_a_misspelt_output_is_a_warning_with_the_name_that_is_meant() -> None:
    graph = oi.graph(f"{DECLARED} block entry {{ op exp(x) >> gird; return; }}")
    (warning,) = graph.check()
    assert (warning.code, warning.hint) == ("unused-temporary", "did you mean `grid`?")
    with pytest.raises(oi.ValidationError):
        graph.check(strict=True)


def test_an_output_before_one_that_is_used_only_holds_its_place() -> None:
    assert oi.graph(f"{DECLARED} block entry {{ op topk(x, k=1) >> values, at; return at; }}").check() == ()


@pytest.mark.rule("language.temporaries.4")
def test_a_temporary_that_no_statement_wrote_on_the_way_is_an_error_of_the_run() -> None:
    text_ = f"{DECLARED} block entry {{ branch flag some none; op neg(t) >> y; return y; }}"
    text_ += " block some { op exp(x) >> t; return; } block none { return; }"
    executor = oi.Simulator(MODEL, text_).make_executor()
    executor.step(x=np.zeros((2, 4), np.float32), flag=True)
    with pytest.raises(oi.ExecutionError, match="before anything has written it") as caught:
        executor.step(x=np.zeros((2, 4), np.float32), flag=False)
    assert caught.value.code == "temporary-unset"


def test_results_of_run_time_shapes_follow_what_was_read() -> None:
    text_ = (
        f"{DECLARED} block entry {{ cache.read n >> at; op select(x, axis=0, index=0) >> row;"
        " cache.write row >> C[0, at]; cache.read C[0, ] >> past; op matmul(past, W) >> product;"
        " op sum_axis(product, axes=[0]) >> total; cache.increment n; return product, total; }"
    )
    executor = oi.Simulator(MODEL, text_).make_executor()
    for step in range(1, 4):
        executor.step(x=np.full((2, 4), step, np.float32))
        product, total = executor.outputs().values()
        rows = np.arange(1, step + 1, dtype=np.float32)
        np.testing.assert_array_equal(product, np.tile(rows[:, None], (1, 4)))
        np.testing.assert_array_equal(total, np.full(4, rows.sum()))


CONSUMERS = """
dynamic { x: f32[B, D]; }
volatile { first: f32[B, D]; second: f32[B, D]; }
block entry { yield x; await x; op add(first, second) >> both; return both; }
block one { await x; branch help; op neg(h) >> first; yield x; }
block two { await x; branch help; op exp(h) >> second; yield x; }
block help { op mul(x, x) >> h; return; }
"""


def test_a_row_of_an_axis_of_one_place_has_a_type() -> None:
    text = """
    dynamic { x: f32[T, 2]; }
    volatile { y: f32[2]; }
    block entry { loop rows (i in 0..T) { op select(x, axis=0, index=i) >> row; op add(y, row) >> y; } return y; }
    """
    model = oi.Model.from_arrays({}, sizevars={"T": 1})
    with oi.Simulator(model, oi.graph(text)).make_executor() as executor:
        executor.step(x=np.array([[1, 2]], np.float32))
        assert executor.fetch("y").tolist() == [1, 2]


def test_an_inferred_shape_is_right_in_every_step() -> None:
    """Which of two sizes a sum has depends on the step: no declaration says it."""
    resolved = resolve(oi.graph(program("op add(row, other) >> t;")), MODEL)
    (found,) = inferred_types(resolved, MODEL, Environment.default())
    assert not found.is_known
    with oi.Simulator(MODEL, program("op add(row, other) >> t;")).make_executor() as executor:
        for row, other, shape in ((4, 4, (4,)), (1, 3, (3,)), (3, 1, (3,)), (0, 1, (0,))):
            ones = {"x": (2, 4), "image": (1, 3, 8, 8), "row": (row,), "other": (other,)}
            given = {name: np.ones(extents, np.float32) for name, extents in ones.items()}
            executor.step(**given, ids=np.zeros(2, np.int64), flag=True)
            assert executor.outputs()["t"].shape == shape


def test_a_part_between_two_values_of_the_running_program_has_the_shape_that_they_say() -> None:
    text = """
    dynamic { x: f32; start: i32; end: i32; }
    persistent { n: i32; K(t): f32[] @table; }
    block entry {
      cache.write x >> K[n];
      cache.increment n;
      cache.read K[0..n] >> all;
      op slice(all, starts=[start], ends=[end]) >> part;
      return part;
    }
    """
    with oi.Simulator(oi.Model.from_arrays({}), oi.graph(text)).make_executor() as executor:
        for number, expected in enumerate(([], [0.0], [1.0], [1.0, 2.0])):
            executor.step(x=number, start=number // 2, end=number)
            assert executor.outputs()["part"].tolist() == expected


@pytest.mark.rule("language.temporaries.6")
def test_a_temporary_of_a_consumer_belongs_to_its_run() -> None:
    executor = oi.Simulator(MODEL, CONSUMERS).make_executor()
    for value in (1.0, 2.0):
        executor.step(x=np.full((2, 4), value, np.float32))
        square = np.float32(value * value)
        np.testing.assert_allclose(executor.outputs()["both"], np.full((2, 4), np.exp(square) - square), rtol=1e-6)


@pytest.mark.rule("language.temporaries.6")
def test_entry_does_not_see_a_temporary_of_a_consumer() -> None:
    with pytest.raises(oi.ValidationError, match="only blocks that run concurrently write it") as caught:
        resolve(oi.graph(CONSUMERS.replace("add(first, second)", "add(first, h)")), MODEL)
    assert caught.value.code == "temporary-unset"


SIMPLER = {
    "D+D": "2*D",
    "2*D/2": "D",
    "(2*D+4)/2": "D+2",
    "D*B-B*D": "0",
    "H/2": "H/2",
    "H/2+H/2": "2*(H/2)",
    "4*H%2": "0",
    "1*D+0": "D",
    "3-D+D": "3",
    "2-D": "2-D",
    "(B+1)*(B-1)": "B*B-1",
}


@pytest.mark.parametrize(("written", "wanted"), SIMPLER.items())
def test_expressions_get_their_shortest_form(written: str, wanted: str) -> None:
    assert simplified(parse(text(simplified(parse(written))))) == simplified(parse(wanted))
    assert text(simplified(parse(written))) == wanted


# Tools


PROGRAM = """\
dynamic {
  x: f32[B, D];
}

block entry {
  op exp(x) >> t;  // kept
  loop l (i in 0..3) {
    op neg(t) >> u;
  }
  branch other;
  return u, v;
}

block other {
  op concat(t, t, axis=0) >> v;
  return;
}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A program without declarations, and a model for it."""
    model, path = tmp_path / "m.oinf", tmp_path / "p.oi"
    write_oinf({"B": SizeVar(2), "D": SizeVar(4)}, model)
    path.write_text(PROGRAM, encoding="utf-8")
    return path, model


@pytest.mark.rule("language.temporaries.7")
def test_fmt_writes_inferred_declarations_out(files: tuple[Path, Path]) -> None:
    path, model = files
    result = CliRunner().invoke(main, ["fmt", "--assign", "--model", str(model), str(path)])
    assert result.exit_code == 0, result.output
    wanted = PROGRAM.replace("  op exp", "  assign v: f32[2*B, D];\n  assign t: f32[B, D];\n  op exp")
    wanted = wanted.replace("  loop", "  assign u: f32[B, D];\n  loop")
    assert path.read_text(encoding="utf-8") == wanted
    assert "p.oi:15: assign v: f32[2*B, D];" in result.stderr
    again = CliRunner().invoke(main, ["fmt", "--assign", "--model", str(model), str(path)])
    assert (again.exit_code, again.output) == (0, "")


def test_fmt_needs_a_model_to_assign(files: tuple[Path, Path]) -> None:
    result = CliRunner().invoke(main, ["fmt", "--assign", str(files[0])])
    assert (result.exit_code, "give its file with --model" in result.stderr) == (1, True)


def test_check_prints_the_types(files: tuple[Path, Path]) -> None:
    path, model = files
    result = CliRunner().invoke(main, ["check", "--model", str(model), "--explain-types", str(path)])
    assert result.output.splitlines() == [
        f"{path}: no errors, no warnings",
        f"{path}:6:16: t: f32[B, D]  // op exp(x) >> t",
        f"{path}:8:18: u: f32[B, D]  // op neg(t) >> u",
        f"{path}:15:30: v: f32[2*B, D]  // op concat(t,t) >> v",
    ]


def test_check_writes_the_types_as_json(files: tuple[Path, Path]) -> None:
    path, model = files
    result = CliRunner().invoke(main, ["check", "--model", str(model), "--explain-types", "--json", str(path)])
    document = json.loads(result.output)
    assert document["findings"] == []
    assert [(each["name"], each["dtype"], each["dims"]) for each in document["types"]] == [
        ("t", "f32", ["B", "D"]),
        ("u", "f32", ["B", "D"]),
        ("v", "f32", ["2*B", "D"]),
    ]


CONSTANT_K = """dynamic {{ x: u16[3, 4]; }} constant {{ k: i64 @init(3); }}
block entry {{ {assign} op topk(x, k=k) >> {results}; return {results}; }}"""


def outputs_of(text: str, device: str) -> dict[str, list[object]]:
    graph = oi.graph(text)
    with oi.Simulator(oi.Model.from_arrays({}), graph, device=device).make_executor() as executor:
        executor.step(x=np.arange(12, dtype=np.uint16).reshape(3, 4))
        return {name: value.tolist() for name, value in executor.outputs().items()}


@pytest.mark.parametrize("results", ["y", "y, z"])
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
def test_a_constant_that_decides_a_shape_is_used_or_refused(device: str, results: str) -> None:
    if device not in {name.partition(":")[0] for name in Environment.default().devices}:
        pytest.skip(f"device {device} is not installed")
    best = {"y": [[3, 2, 1], [7, 6, 5], [11, 10, 9]], "z": [[3, 2, 1]] * 3}
    wanted = {name: best[name] for name in results.split(", ")}
    text = CONSTANT_K.format(assign="", results=results)
    if device == "c":
        with pytest.raises(oi.SynthesisError, match=r"`y` is u16\[3,3\].*declare it: `assign y: u16\[3,3\]`"):
            outputs_of(text, device)
        assign = "assign y: u16[3,3]; " + ("assign z: i64[3,3]; " if "z" in wanted else "")
        text = CONSTANT_K.format(assign=assign, results=results)
    assert outputs_of(text, device) == wanted
