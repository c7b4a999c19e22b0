"""Programs on 8-bit integers: scales, statements and weights that `openinfer quantize` makes, and what it reports."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.ir.nodes import Op
from openinfer.quantization import Clipping, quantize
from openinfer.quantization.measuring import Power

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
RNG = np.random.default_rng(0)
W = RNG.normal(size=(6, 4)).astype(np.float32)
B = RNG.normal(size=4).astype(np.float32)

LINEAR = """
dynamic { x: f32[1, 6]; }
// Weights of the only layer.
constant { w: f32[6, 4] @ref("fc.weight"); b: f32[4]; }
volatile { y: f32[1, 4]; }
block entry {
  op linear(x, w, bias=b) >> y;  // the layer
  return y;
}
"""


def model_of(**arrays: np.ndarray) -> oi.Model:
    return oi.Model.from_arrays({name.replace("__", "."): array for name, array in arrays.items()})


def ran(made, **inputs: np.ndarray) -> np.ndarray:
    executor = oi.Simulator(made.model).make_executor(made.graph)
    executor.step(**inputs)
    return executor.fetch("y")


def by_hand(x: np.ndarray, w: np.ndarray, b: np.ndarray, largest: float, *, signed: bool) -> np.ndarray:
    """The same layer in NumPy, from the definition alone."""
    step = np.float32(largest / (127 if signed else 255))
    scale = np.abs(w).max(axis=0) / 127
    stored = np.clip(np.round(x / step), -128 if signed else 0, 127 if signed else 255)
    return (stored.astype(np.int64) @ np.round(w / scale).astype(np.int64)) * (scale * step) + b


@pytest.mark.parametrize("signed", [False, True])
def test_a_layer_computes_what_its_integers_say(signed: bool) -> None:
    x = RNG.uniform(-1 if signed else 0, 1, (20, 6)).astype(np.float32)

    made = quantize(LINEAR, model_of(fc__weight=W, b=B), {"x": x[:, None]})

    expected = by_hand(x[:1], W, B, float(np.abs(x).max()), signed=signed)
    assert made.report.layers[0].dtype == ("i8" if signed else "u8")
    np.testing.assert_allclose(ran(made, x=x[:1]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("program", "weight", "shape"),
    [
        (LINEAR, W, (1, 6)),
        (
            LINEAR.replace("x: f32[1, 6]", "x: f32[1, 2, 4, 4]")
            .replace("w: f32[6, 4]", "w: f32[4, 2, 3, 3]")
            .replace("y: f32[1, 4]", "y: f32[1, 4, 4, 4]")
            .replace("linear(x, w, bias=b)", "conv2d(x, w, bias=b, padding=1)"),
            RNG.normal(size=(4, 2, 3, 3)).astype(np.float32),
            (1, 2, 4, 4),
        ),
    ],
    ids=["linear", "conv2d"],
)
def test_codes_with_a_sign_have_the_results_of_codes_without_one(
    program: str, weight: np.ndarray, shape: tuple[int, ...]
) -> None:
    x, model = RNG.uniform(0, 1, (20, *shape)).astype(np.float32), model_of(fc__weight=weight, b=B)

    unsigned, signed = (quantize(program, model, {"x": x}, signed=each) for each in (False, True))

    assert "y_q: i8" in signed.text
    assert "w_zero: i8 @init(-128);" in signed.text
    assert (signed.report.layers[0].dtype, signed.report.layers[0].zero_point) == ("i8", -128)
    assert "i8 from 0 to" in str(signed.report)
    for image in x:
        np.testing.assert_array_equal(ran(signed, x=image), ran(unsigned, x=image))


def test_values_beyond_the_samples_are_clipped() -> None:
    x = RNG.uniform(0, 1, (20, 6)).astype(np.float32)

    made = quantize(LINEAR, model_of(fc__weight=W, b=B), {"x": x})

    np.testing.assert_allclose(
        ran(made, x=np.full((1, 6), 9, np.float32)),
        by_hand(np.full((1, 6), x.max()), W, B, float(x.max()), signed=False),
        rtol=1e-5,
    )


def test_a_transposed_weight_is_stored_with_its_outputs_last() -> None:
    x = RNG.uniform(0, 1, (5, 6)).astype(np.float32)
    program = LINEAR.replace("f32[6, 4]", "f32[4, 6]").replace("bias=b", "bias=b, trans_w=true")

    made = quantize(program, model_of(fc__weight=W.T.copy(), b=B), {"x": x})

    assert made.model.tensors["fc.weight"].shape == (6, 4)
    np.testing.assert_allclose(ran(made, x=x[:1]), by_hand(x[:1], W, B, float(x.max()), signed=False), rtol=1e-5)


def test_the_text_around_layers_stays_and_biases_stay_wide() -> None:
    made = quantize(LINEAR, model_of(fc__weight=W, b=B), {"x": RNG.uniform(0, 1, (5, 6)).astype(np.float32)})

    assert "// Weights of the only layer." in made.text
    assert "// the layer" in made.text
    assert "op add(y, b) >> y;" in made.text
    assert {name: info.dtype.name for name, info in made.model.tensors.items()} == {
        "fc.weight": "i8",
        "fc.weight.scale": "f32",
        "b": "f32",
    }
    assert np.array_equal(made.model.load_tensor("b"), B)


def test_a_percentile_leaves_outliers_out() -> None:
    x = RNG.uniform(0, 1, (100, 6)).astype(np.float32)
    x[0, 0] = 100

    wide, narrow = (
        quantize(LINEAR, model_of(fc__weight=W, b=B), {"x": x}, clipping=Clipping(share)).report.layers[0]
        for share in (100, 99.5)
    )

    assert wide.bound == 100
    assert wide.clipped == 0
    # Bins are a 4096th of the range wide.
    assert 0.98 < narrow.bound < 1.05
    assert 0 < narrow.clipped < 0.005


def test_each_turn_of_a_loop_has_scales_of_its_own() -> None:
    program = """
    dynamic { x: f32[1, 4]; }
    constant { W(l): f32[4, 4] @pattern("h.{l}.w"); }
    volatile { y: f32[1, 4]; }
    block entry {
      transfer x >> y;
      loop layers (l in 0..3) { op matmul(y, W[l]) >> y; op relu(y) >> y; }
      return y;
    }
    """
    weights = {f"h__{number}__w": RNG.normal(size=(4, 4)).astype(np.float32) * 3 for number in range(3)}
    x = RNG.uniform(0, 1, (30, 1, 4)).astype(np.float32)
    seen, bounds = x, []
    for weight in weights.values():
        bounds.append(seen.max())
        seen = np.maximum(seen @ weight, 0)

    made = quantize(program, model_of(**weights), {"x": x})

    steps = [float(made.model.load_tensor(f"h.{number}.w.step")) for number in range(3)]
    assert steps == pytest.approx([bound / 255 for bound in bounds], rel=1e-6)
    executor = oi.Simulator(made.model).make_executor(made.graph)
    executor.step(x=x[0])
    assert np.abs(executor.fetch("y") - seen[0]).max() < 0.03 * seen.max()


def test_the_ratio_of_a_layer_is_that_of_its_differences() -> None:
    x = RNG.uniform(0, 1, (50, 6)).astype(np.float32)

    made = quantize(LINEAR, model_of(fc__weight=W, b=B), {"x": x})

    exact = x.astype(np.float64) @ W + B
    error = by_hand(x, W, B, float(x.max()), signed=False) - exact
    decibels = 10 * np.log10((exact**2).sum() / (error**2).sum())
    assert made.report.layers[0].snr_db == pytest.approx(decibels, abs=0.05)
    assert made.report.outputs["y"] == pytest.approx(decibels, abs=0.05)


@pytest.mark.parametrize(
    ("statement", "exclude", "reason"),
    [
        ("op linear(x, w, bias=b) >> y;", ("fc.*",), "excluded"),
        ("op linear(x, w, bias=b) >> y; op add(w, w) >> other;", (), "another statement reads `w` too"),
    ],
)
def test_what_stays_is_reported_with_the_reason(statement: str, exclude: tuple[str, ...], reason: str) -> None:
    program = LINEAR.replace("op linear(x, w, bias=b) >> y;", f"op matmul(x, v) >> z; {statement}")
    program = program.replace("b: f32[4];", "b: f32[4]; v: f32[6, 4];").replace("return y;", "return y, z;")

    made = quantize(program, model_of(fc__weight=W, b=B, v=W), {"x": np.ones((2, 6), np.float32)}, exclude=exclude)

    assert [(left.op, left.output, left.reason) for left in made.report.left] == [("linear", "y", reason)]
    assert [layer.weight for layer in made.report.layers] == ["v"]


@pytest.mark.parametrize(
    ("program", "data", "message"),
    [
        (LINEAR, {"z": np.ones((2, 6), np.float32)}, "no array for input `x`; their arrays are z"),
        (LINEAR, {"x": np.ones((2, 3, 4, 6), np.float32)}, r"have shape \[2, 3, 4, 6\], expected \[samples, 1, 6\]"),
        (LINEAR, {"x": np.ones((0, 6), np.float32)}, "at least one; found {'x': 0}"),
        (LINEAR, {"x": np.ones((2, 6), np.float32), "z": np.ones(2)}, "no input `z` for the samples; it has x"),
        (LINEAR, {"x": np.full((2, 6), np.nan, np.float32)}, "no finite value of the samples reaches `w`"),
        (LINEAR.replace("y: f32", "calibration_made_0: f32[1]; y: f32"), {}, "are for watching layers"),
        (LINEAR.replace("linear(x, w, bias=b)", "add(b, b)"), {"x": np.ones((2, 6), np.float32)}, "can be quantised"),
    ],
)
def test_samples_and_programs_that_do_not_fit_are_errors(program: str, data: dict, message: str) -> None:
    program = program.replace("y: f32[1, 4]", "y: f32[4]") if "add(b, b)" in program else program

    with pytest.raises(oi.CalibrationError, match=message):
        quantize(program, model_of(fc__weight=W, b=B), data)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ("op matmul(x, w) >> y; op linear(x, w, trans_w=true) >> y;", "with and without trans_w"),
        ("op matmul(x, w) >> y; op matmul(table[0], w) >> y;", "another statement reads `w` too"),
        ("op matmul(x, w) >> y; op add(again, again) >> other;", "`again` has the same tensor"),
        ("op copy(x) >> y; op linear(x, w, bias=y) >> y;", "writes its bias `y`"),
    ],
)
def test_weights_whose_integers_would_make_other_results_stay(statements: str, reason: str) -> None:
    square = """
      dynamic { x: f32[4]; }
      constant { w: f32[4, 4]; again: f32[4, 4] @ref("w"); v: f32[4, 4]; table(i): f32[4] @pattern("t.{i}"); }
      volatile { y: f32[4]; z: f32[4]; }
      block entry { op matmul(x, v) >> z; STATEMENTS return y, z; }
    """.replace("STATEMENTS", statements)
    square = square if "again" in statements else square.replace('again: f32[4, 4] @ref("w");', "")
    tensors = model_of(w=W[:4], v=W[:4], t__0=B)

    made = quantize(square, tensors, {"x": np.ones((2, 4), np.float32)})

    assert any(reason in left.reason for left in made.report.left)
    assert [layer.weight for layer in made.report.layers] == ["v"]
    assert ran(made, x=np.ones(4, np.float32)) == pytest.approx(ran_before(square, tensors), rel=1e-6)


def ran_before(program: str, model: oi.Model) -> np.ndarray:
    executor = oi.Simulator(model, program).make_executor()
    executor.step(x=np.ones(4, np.float32))
    return executor.fetch("y")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"fc__weight": np.full_like(W, np.nan)}, "weight 'fc.weight' has NaN or infinities"),
        (
            {"fc__weight": W, "fc__weight__scale": B},
            "a tensor 'fc.weight.scale', which quantising 'fc.weight' would add",
        ),
    ],
)
def test_weights_that_have_no_integers_are_errors_that_name_them(tensors: dict, message: str) -> None:
    with pytest.raises(oi.CalibrationError, match=message):
        quantize(LINEAR, model_of(b=B, **tensors), {"x": np.ones((2, 6), np.float32)})


def test_statements_of_a_layer_have_its_hints() -> None:
    program = LINEAR.replace(">> y;", '>> y with { group = "head", fuse = true };')

    made = quantize(program, model_of(fc__weight=W, b=B), {"x": np.ones((2, 6), np.float32)})

    hints = [dict(node.hints) for node in made.graph.blocks["entry"].walk() if isinstance(node.kind, Op)]
    expected = next(dict(node.hints) for node in oi.graph(program).blocks["entry"].walk() if node.hints)
    assert len(hints) == 5
    assert all(each == expected for each in hints)


def test_comments_in_front_of_the_semicolon_of_a_layer_end_with_it() -> None:
    program = LINEAR.replace(">> y;  //", ">> y  // none; of\n  ;  //")

    made = quantize(program, model_of(fc__weight=W, b=B), {"x": np.ones((2, 6), np.float32)})

    assert "// the layer\n  return y;" in made.text
    assert "none; of" not in made.text


BRANCHES = """
dynamic { x: f32[1, 4]; }
constant { w: f32[4, 4]; v: f32[4, 4]; limit: f32 @init(0.0); }
volatile { y: f32[1, 4]; sum: f32; high: bool; }
block entry {
  op matmul(x, w) >> y; op sum(y) >> sum; op gt(sum, limit) >> high; branch high more less;
  return y;
}
block more { op matmul(y, v) >> y; return; }
block less { return; }
"""


def takes_another_branch(rows: np.ndarray) -> np.ndarray:
    """Return whether each sample takes another branch once the product with w is quantised, by NumPy alone."""
    found = by_hand(rows, W[:4], np.zeros(4), float(np.abs(rows).max()), signed=True)
    return ((rows @ W[:4]).sum(axis=1) > 0) != (found.sum(axis=1) > 0)


def test_samples_that_take_another_branch_do_not_count() -> None:
    rows = np.random.default_rng(3).normal(size=(300, 4)).astype(np.float32)
    apart = takes_another_branch(rows)

    report = quantize(BRANCHES, model_of(w=W[:4], v=W[2:]), {"x": rows[:, None]}, most=300).report
    without = quantize(BRANCHES, model_of(w=W[:4], v=W[2:]), {"x": rows[~apart, None]}, most=300).report

    assert 0 < report.apart == apart.sum() < 30
    assert f"{apart.sum()} of 300 samples take another branch" in str(report)
    assert report.outputs["y"] == pytest.approx(without.outputs["y"])
    assert [layer.snr_db for layer in report.layers] == pytest.approx([layer.snr_db for layer in without.layers])
    assert without.apart == 0


def test_no_sample_that_takes_the_same_branch_is_an_error() -> None:
    rows = np.random.default_rng(3).normal(size=(300, 1, 4)).astype(np.float32)
    other = next(row for row in rows if takes_another_branch(row).all())

    with pytest.raises(oi.CalibrationError, match="on every sample, the quantised program takes other branches"):
        quantize(BRANCHES, model_of(w=W[:4], v=W[2:]), {"x": other[None]})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("factor", "shown"), [(1e37, "47.1 dB"), (1e38, "-inf dB")])
def test_ratios_of_very_large_values_are_numbers_or_infinite(factor: float, shown: str) -> None:
    """Products with weights up to 2e38 overflow f32, at other elements once they are quantised."""
    x = np.repeat([[[8.0]], [[-4.0]]], 6, axis=2).astype(np.float32)

    report = quantize(LINEAR, model_of(fc__weight=W * np.float32(factor), b=B), {"x": x}).report

    assert f"output y: {shown}" in str(report)
    assert "nan" not in json.dumps(report.to_json(), allow_nan=False)


def test_elements_that_are_infinite_in_both_programs_are_not_a_difference() -> None:
    power = Power()

    power.add(np.array([3.0, np.inf, np.nan], np.float32), np.array([3.5, np.inf, np.nan], np.float32))

    assert power.decibels() == pytest.approx(10 * np.log10(3.0**2 / 0.5**2))


def test_the_classes_of_samples_are_one_integer_each() -> None:
    with pytest.raises(oi.CalibrationError, match=r"expected 2 integers as labels, found float64 \[2\]"):
        quantize(LINEAR, model_of(fc__weight=W, b=B), {"x": np.ones((2, 6), np.float32)}, labels=np.ones(2))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    with np.load(DIGITS / "held_back.npz", allow_pickle=False) as scans:
        np.savez(path, image=scans["images"][:, None].astype(np.float32) / 16, labels=scans["labels"].astype(np.int64))
    return path


def test_the_command_writes_a_program_that_reads_digits_as_well(digits: Path, tmp_path: Path) -> None:
    arguments = [str(DIGITS / "digits.oi"), str(DIGITS / "digits.oinf"), "--calibrate", str(digits)]

    ran = CliRunner().invoke(
        main, ["quantize", *arguments, "-o", str(tmp_path), "--output", "digit", "--samples", "20", "--json"]
    )

    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert [layer["weight"] for layer in report["layers"]] == ["stem_w", "conv_w", "head_w"]
    assert all(layer["snr_db"] > 35 for layer in report["layers"])
    assert report["accuracy"]["before"] == 359
    assert report["accuracy"]["after"] >= 357
    assert report["weight_bytes"][0] > 3.5 * report["weight_bytes"][1]
    made = oi.load_graph(tmp_path / "digits-int8.oi")
    with oi.ModelLoader.open(tmp_path / "digits-int8.oinf") as model, np.load(digits) as scans:
        executor = oi.Simulator(model).make_executor(made)
        found = []
        for image in scans["image"][:40]:
            executor.step(image=image[None])
            found.append(int(executor.fetch("digit")[0]))
        assert np.mean(np.array(found) == scans["labels"][:40]) > 0.95


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["--model", "a.oinf"], "array 'classes'"),
        (["-m", "a.oinf"], "array 'classes'"),
        (["a.oinf"], "array 'classes'"),
        (["a.oinf", "-m", "b.oinf"], "the model is given twice: 'a.oinf' and --model 'b.oinf'"),
    ],
)
def test_the_model_is_given_once_after_the_graph_or_by_its_option(
    tmp_path: Path, models: list[str], message: str
) -> None:
    np.savez(tmp_path / "samples.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    samples = str(tmp_path / "samples.npz")

    ran = CliRunner().invoke(main, ["quantize", "net.oi", *models, "--calibrate", samples, "--labels", "classes"])

    assert ran.exit_code == 2
    assert message in ran.stderr


@pytest.mark.parametrize("option", ["--model", "-m"])
def test_the_model_of_the_option_is_the_one_that_is_quantised(tmp_path: Path, option: str) -> None:
    np.savez(tmp_path / "samples.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    arguments = [str(DIGITS / "digits.oi"), option, str(DIGITS / "digits.oinf"), "-o", str(tmp_path)]

    ran = CliRunner().invoke(main, ["quantize", *arguments, "--calibrate", str(tmp_path / "samples.npz")])

    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "digits-int8.oinf").is_file()


def not_an_archive(path: Path) -> None:
    path.write_text("nothing")


def one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros((1, 1, 8, 8), np.float32))


def cut_short(path: Path) -> None:
    np.savez_compressed(path, image=np.arange(4096, dtype=np.float32))
    path.write_bytes(path.read_bytes()[:200])


def damaged(path: Path) -> None:
    np.savez_compressed(path, image=np.arange(4096, dtype=np.float32))
    written = bytearray(path.read_bytes())
    written[100:300] = b"\xff" * 200
    path.write_bytes(written)


@pytest.mark.parametrize("spoil", [not_an_archive, one_array, cut_short, damaged])
def test_samples_that_are_not_npz_are_wrong_input(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    spoil(tmp_path / "samples.npz")
    arguments = [str(DIGITS / "digits.oi"), str(DIGITS / "digits.oinf"), "--calibrate", str(tmp_path / "samples.npz")]

    ran = CliRunner().invoke(main, ["quantize", *arguments])

    assert ran.exit_code == 1
    said = " ".join(ran.output.replace("│", " ").split())
    assert "expected a .npz file with an array for each input" in said
    assert "pickle" not in said


def test_labels_that_the_samples_do_not_have_are_an_error_of_the_option(tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    arguments = [str(DIGITS / "digits.oi"), str(DIGITS / "digits.oinf"), "--calibrate", str(tmp_path / "samples.npz")]

    ran = CliRunner().invoke(main, ["quantize", *arguments, "--labels", "classes"])

    assert ran.exit_code == 2
    assert "has no array 'classes'" in ran.output


SIGNAL = """
dynamic { x: f32[1, 4, 16]; }
constant { w: f32[6, 2, 3]; b: f32[6]; }
volatile { y: f32[1, 6, LENGTH]; }
block entry { op conv1d(x, w, bias=b, groups=2SETTINGS) >> y; return y; }
"""


@pytest.mark.parametrize(
    ("settings", "before", "after", "step", "dilation"),
    [
        ("", 0, 0, 1, 1),
        (", stride=2, padding=1", 1, 1, 2, 1),
        (", padding=[2, 0], dilation=2", 2, 0, 1, 2),
        (', padding="same_upper"', 1, 1, 1, 1),
    ],
)
def test_a_convolution_over_one_dim_computes_what_its_integers_say(
    settings: str, before: int, after: int, step: int, dilation: int
) -> None:
    w, x = RNG.normal(size=(6, 2, 3)).astype(np.float32), RNG.uniform(0, 1, (5, 1, 4, 16)).astype(np.float32)
    length = (16 + before + after - 2 * dilation - 1) // step + 1
    program = SIGNAL.replace("SETTINGS", settings).replace("LENGTH", str(length))

    made = quantize(program, model_of(w=w, b=B[[0, 1, 2, 3, 0, 1]]), {"x": x})

    largest = np.float32(x.max() / 255)
    scale = np.abs(w).max(axis=(1, 2)) / 127
    stored = np.pad(np.round(x[0, 0] / largest), ((0, 0), (before, after)))
    integers = np.round(w / scale[:, None, None])
    expected = np.zeros((6, length))
    for output, place in np.ndindex(6, length):
        taken = stored[output // 3 * 2 :, place * step :][:2, : 2 * dilation + 1 : dilation]
        expected[output, place] = (taken * integers[output]).sum() * scale[output] * largest + B[output % 4]
    np.testing.assert_allclose(ran(made, x=x[0])[0], expected, rtol=1e-4, atol=1e-5)
    assert (made.model.tensors["w"].shape, made.model.tensors["w"].dtype.name) == ((6, 2, 1, 3), "i8")


def test_cells_stay_with_the_reason() -> None:
    program = """
      dynamic { x: f32[1, 6]; }
      constant { w: f32[6, 4]; k: f32[12, 4]; r: f32[12, 4]; }
      volatile { y: f32[1, 4]; }
      block entry { op matmul(x, w) >> g; op gru_cell(g, g, k, r) >> y; return y; }
    """
    parts = {"w": W, "k": RNG.normal(size=(12, 4)).astype(np.float32), "r": RNG.normal(size=(12, 4)).astype(np.float32)}

    made = quantize(program, model_of(**parts), {"x": np.ones((2, 6), np.float32)})

    reason = "no operator on integers computes its products"
    assert [(left.op, left.output, left.reason) for left in made.report.left] == [("gru_cell", "y", reason)]
