"""Images are resized from the places that exact coordinates name, in every mode of ONNX."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_models import helper, info, model, node, onnx, run, saved, weights

from openinfer import ModelImportError
from openinfer.cli import main
from openinfer.importers import ImportedModel, load, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

HALF = Fraction(1, 2)
PAIRS = [
    (before, after)
    for before in (1, 2, 3, 4, 5, 6, 7, 9, 10, 13, 14, 16, 20, 21, 24, 29, 31, 33, 40)
    for after in (1, 6, 15, 28, 37, 64)
]
NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
TRANSFORMATIONS = ("half_pixel", "asymmetric", "align_corners")


def rand(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def resize(shape: Any, *, opset: int = 19, op: str = "Resize", **given: Any) -> Any:
    """Return a model of one Resize; ``scales``, ``sizes`` and ``roi`` are inputs, the others are attributes."""
    inputs = {name: given.pop(name) for name in ("roi", "scales", "sizes") if name in given}
    kinds = {"roi": np.float32, "scales": np.float32, "sizes": np.int64}
    order = ("roi", "scales", "sizes") if opset > 10 else ("scales",)
    names = " ".join(["x", *(name if name in inputs else "-" for name in order)]).rstrip(" -")
    arrays = weights(**{name: np.array(value, kinds[name]) for name, value in inputs.items()})
    return model([node(op, names, "y", **given)], [info("x", list(shape))], [info("y", None)], arrays, opset)


def imported(folder: Path, shape: Any, **given: Any) -> ImportedModel:
    return load(saved(resize(shape, **given), folder))


def resized(folder: Path, x: Any, **given: Any) -> Any:
    return run(imported(folder, x.shape, **given), {"x": x})[0]


# Places


def exact(place: int, before: int, after: int, transformation: str) -> Fraction:
    if transformation == "align_corners":
        return Fraction(place * (before - 1), after - 1) if after > 1 else Fraction(0)
    if transformation == "asymmetric":
        return Fraction(place * before, after)
    return (place + HALF) * before / after - HALF


def nearest(at: Fraction, before: int, mode: str) -> int:
    places = range(before)
    if mode == "floor":
        return max((place for place in places if place <= at), default=0)
    if mode == "ceil":
        return min((place for place in places if place >= at), default=before - 1)
    return min(places, key=lambda place: (abs(place - at), place if mode == "round_prefer_floor" else -place))


@pytest.mark.parametrize("mode", NEAREST)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_the_nearest_place_is_that_of_exact_coordinates(transformation: str, mode: str, tmp_path: Path) -> None:
    settings = {"mode": "nearest", "nearest_mode": mode, "coordinate_transformation_mode": transformation}
    ids = range(len(PAIRS))
    proto = model(
        [node("Resize", f"x{n} - - s{n}", f"y{n}", **settings) for n in ids],
        [info(f"x{n}", [before]) for n, (before, _) in enumerate(PAIRS)],
        [info(f"y{n}", None) for n in ids],
        weights(**{f"s{n}": np.array([after]) for n, (_, after) in enumerate(PAIRS)}),
    )
    inputs = {f"x{n}": np.arange(before, dtype=np.float32) for n, (before, _) in enumerate(PAIRS)}
    for (before, after), places in zip(PAIRS, run(load(saved(proto, tmp_path)), inputs), strict=True):
        at = [exact(place, before, after, transformation) for place in range(after)]
        assert places.tolist() == [nearest(coordinate, before, mode) for coordinate in at], (before, after)


@pytest.mark.parametrize(
    ("before", "scale", "after"), [(10, 2.1, 21), (706, 224 / 706, 223), (10, 0.3, 3), (7, 1.5, 10)]
)
def test_lengths_are_products_in_f32_rounded_down(before: int, scale: float, after: int, tmp_path: Path) -> None:
    assert resized(tmp_path, rand(before), scales=[scale]).shape == (after,)


def test_given_scales_are_the_f32_that_the_model_has(tmp_path: Path) -> None:
    x, scale = np.arange(30, dtype=np.float32), 0.3
    places = resized(tmp_path, x, scales=[scale], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    ratio = Fraction(float(np.float32(scale)))
    assert places.tolist() == [place / ratio // 1 for place in range(9)]
    assert places[3] == 9


def test_before_opset_11_smaller_images_take_the_next_place(tmp_path: Path) -> None:
    x = np.arange(10, dtype=np.float32)
    assert resized(tmp_path, x, opset=10, scales=[0.6]).tolist() == [0, 2, 4, 5, 7, 9]
    assert resized(tmp_path, x[:4], opset=9, op="Upsample", scales=[1.5]).tolist() == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_with_pytorch_half_pixel_one_place_is_place_0(mode: str, tmp_path: Path) -> None:
    x = rand(1, 1, 1, 3)
    y = resized(tmp_path, x, mode=mode, scales=[1, 1, 1, 0.5], coordinate_transformation_mode="pytorch_half_pixel")
    assert y.tolist() == x[..., :1].tolist()


def test_a_constant_is_resized_from_exact_coordinates_too(tmp_path: Path) -> None:
    settings = {"coordinate_transformation_mode": "align_corners", "nearest_mode": "floor"}
    nodes = [node("Resize", "k - - s", "h", **settings), node("Add", "h x", "y")]
    arrays = weights(k=np.arange(29, dtype=np.float32), s=np.array([15]))
    proto = model(nodes, [info("x", [15])], [info("y", None)], arrays)
    y = run(load(saved(proto, tmp_path)), {"x": np.zeros(15, np.float32)})[0]
    assert y.tolist() == list(range(0, 29, 2))


# Interpolation


def kernel(distance: Fraction, mode: str, coefficient: Fraction) -> Fraction:
    x = abs(distance)
    if mode == "linear":
        return max(1 - x, Fraction(0))
    if x <= 1:
        return (coefficient + 2) * x**3 - (coefficient + 3) * x**2 + 1
    return coefficient * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else Fraction(0)


def matrix(before: int, after: int, transformation: str, attributes: dict[str, Any]) -> Any:
    """Return the share of each place of the original in each of the result, by fractions alone."""
    stretch = min(Fraction(after, before), Fraction(1)) if attributes.get("antialias") else Fraction(1)
    coefficient = Fraction(attributes.get("cubic_coeff_a", -0.75))
    shares = np.zeros((after, before))
    for place in range(after):
        at = exact(place, before, after, transformation)
        reach = range(-before - 4 * before, 6 * before + 4)
        row = {index: kernel((index - at) * stretch, attributes["mode"], coefficient) for index in reach}
        if attributes.get("exclude_outside"):
            row = {index: share for index, share in row.items() if 0 <= index < before}
        total = sum(row.values())
        for index, share in row.items():
            shares[place, min(max(index, 0), before - 1)] += float(share / total)
    return shares


SMOOTH = [
    {"mode": "linear"},
    {"mode": "linear", "antialias": 1},
    {"mode": "linear", "antialias": 1, "exclude_outside": 1},
    {"mode": "cubic"},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    {"mode": "cubic", "antialias": 1},
    {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
]


@pytest.mark.parametrize("attributes", SMOOTH, ids=lambda attributes: "-".join(attributes))
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_interpolation_is_the_sum_that_its_kernel_defines(
    transformation: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    x = rand(2, 7, 9)
    settings = {"coordinate_transformation_mode": transformation, **attributes}
    for rows, columns in ((3, 14), (13, 4), (29, 1)):
        down, across = (matrix(n, m, transformation, attributes) for n, m in ((7, rows), (9, columns)))
        y = resized(tmp_path, x, sizes=[rows, columns], axes=[1, 2], **settings)
        np.testing.assert_allclose(y, down @ x.astype(np.float64) @ across.T, rtol=0, atol=2e-6)


LARGE = [
    (256, 512, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    (320, 640, {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
    (320, 640, {"mode": "cubic", "cubic_coeff_a": -0.5}),
    (300, 150, {"mode": "cubic", "cubic_coeff_a": -0.5}),
    (1024, 128, {"mode": "linear", "antialias": 1}),
]


@pytest.mark.parametrize(("before", "after", "attributes"), LARGE)
def test_large_axes_take_tables_of_a_few_places(
    before: int, after: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    program = imported(tmp_path, (1, before), sizes=[1, after], **attributes)
    numbers = sum(int(np.prod(tensor.shape)) for tensor in program.model.tensors.values())
    assert numbers <= 2 * after * (16 if attributes.get("antialias") else 4)
    ramp = np.arange(before, dtype=np.float32).reshape(1, before)
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    at = np.array([float(exact(place, before, after, transformation)) for place in range(after)])
    # These kernels reproduce a straight line, apart from its ends.
    inner = slice(after // 8, -after // 8)
    np.testing.assert_allclose(run(program, {"x": ramp})[0][0, inner], at[inner], rtol=1e-6)


def test_halves_are_rounded_once(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((1, 1, 5, 6)).astype(np.float16)
    proto = resize(x.shape, mode="cubic", sizes=[1, 1, 11, 13])
    proto.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    proto.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    y = run(load(saved(proto, tmp_path)), {"x": x})[0]
    down, across = (matrix(n, m, "half_pixel", {"mode": "cubic"}) for n, m in ((5, 11), (6, 13)))
    right = down @ x[0, 0].astype(np.float64) @ across.T
    assert np.mean(y[0, 0] == right.astype(np.float16)) > 0.99


def test_an_infinity_stays_where_it_has_a_share(tmp_path: Path) -> None:
    x = rand(1, 8)
    x[0, 0] = np.inf
    y = resized(tmp_path, x, sizes=[1, 4], mode="linear", antialias=1)
    assert np.isfinite(y[0, 1:]).all()


# Regions, axes, policies


def test_places_outside_of_a_region_have_the_extrapolated_value(tmp_path: Path) -> None:
    x = rand(1, 1, 4, 5)
    region = [0, 0, -0.5, 0.25, 1, 1, 1, 1.5]
    settings = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.5}
    y = resized(tmp_path, x, sizes=[1, 1, 4, 6], mode="linear", roi=region, **settings)
    rows = [Fraction(-3, 2) + place * Fraction(3, 2) for place in range(4)]
    columns = [1 + place for place in range(6)]
    for (row, at), (column, across) in ((r, c) for r in enumerate(rows) for c in enumerate(columns)):
        inside = 0 <= at <= 3 and 0 <= across <= 4
        low, part = int(at), float(at - int(at))
        wanted = x[0, 0, low, across] * (1 - part) + x[0, 0, min(low + 1, 3), across] * part if inside else 9.5
        assert y[0, 0, row, column] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(("policy", "shape"), [("not_larger", (5, 8)), ("not_smaller", (8, 12)), ("stretch", (8, 8))])
def test_a_policy_keeps_the_ratio_of_the_sides(policy: str, shape: tuple[int, int], tmp_path: Path) -> None:
    x = rand(1, 2, 4, 6)
    y = resized(tmp_path, x, sizes=[8, 8], axes=[-2, -1], keep_aspect_ratio_policy=policy, mode="linear")
    assert y.shape[2:] == shape


def test_other_axes_may_have_any_size(tmp_path: Path) -> None:
    settings = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    program = imported(tmp_path, ("n", 2, 4, 5), scales=[1, 1, 2, 2], **settings)
    for batch in (1, 3):
        assert run(program, {"x": rand(batch, 2, 4, 5)})[0].shape == (batch, 2, 8, 10)


@pytest.mark.parametrize(("name", "dtype"), [("UINT8", "u8"), ("INT64", "i64"), ("BOOL", "bool")])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_what_is_no_float_is_not_interpolated(name: str, dtype: str, mode: str, tmp_path: Path) -> None:
    proto = resize((4,), sizes=[8], mode=mode)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(name)
    with pytest.raises(ModelImportError, match=f"mode={mode} of {dtype}: only floats are interpolated; cast to float"):
        load(saved(proto, tmp_path))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"scales": [2, 2, 2]}, "3 scales, expected one for each of 2 axes"),
    ({"scales": [2, -1]}, r"scales=\[2.0, -1.0\]: expected numbers above 0"),
    ({"sizes": [4, -1]}, "size -1 of axis 1"),
    ({"sizes": [4, 4], "mode": "area"}, "mode=area"),
    ({"sizes": [4, 4], "nearest_mode": "even"}, "nearest_mode=even"),
    ({"sizes": [4, 4], "coordinate_transformation_mode": "other"}, "coordinate_transformation_mode=other"),
    ({"sizes": [4, 4], "antialias": 1}, "antialias=1 in mode nearest"),
    ({"sizes": [4, 4], "keep_aspect_ratio_policy": "same"}, "keep_aspect_ratio_policy=same"),
    ({"sizes": [4, 4], "coordinate_transformation_mode": "tf_crop_and_resize"}, "a region of 4 numbers, found none"),
]


@pytest.mark.parametrize(("given", "reason"), WRONG)
def test_what_contradicts_itself_is_an_error(given: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=reason):
        imported(tmp_path, (3, 3), **given)


def test_an_axis_without_a_number_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ModelImportError, match="the length of an axis that is resized depends on sizes: fix them with --set n=NUMBER"
    ):
        imported(tmp_path, ("n", 3), scales=[2.5, 1])


# The operator resize2d


SCALES, PLACES = {"scales": [1, 1, 3, 2]}, {"sizes": [2, 3, 7, 9]}
ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
CENTRED = [
    {"mode": "linear", "coordinate_transformation_mode": transformation}
    for transformation in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
]
NATIVE: list[tuple[dict[str, Any], str]] = [
    *(({**SCALES, **modes}, "scale=") for modes in (ASYMMETRIC, *CENTRED)),
    *(({**PLACES, **modes}, "size=") for modes in (ASYMMETRIC, *CENTRED)),
    ({"scales": [1, 1, 0.5, 1.25], "mode": "linear"}, "size="),
]


@pytest.mark.parametrize(("given", "setting"), NATIVE)
def test_where_modes_agree_it_is_one_statement(given: dict[str, Any], setting: str, tmp_path: Path) -> None:
    program = imported(tmp_path, (2, 3, 4, 8), **given)
    assert f"op resize2d(x, {setting}" in program.text
    x = rand(2, 3, 4, 8)
    rows, columns = run(program, {"x": x})[0].shape[2:]
    mode, transformation = given.get("mode", "nearest"), given.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest":
        down, across = (
            [nearest(exact(place, n, m, transformation), n, "floor") for place in range(m)]
            for n, m in ((4, rows), (8, columns))
        )
        wanted = x[:, :, down][..., across]
    else:
        down, across = (matrix(n, m, "half_pixel", {"mode": mode}) for n, m in ((4, rows), (8, columns)))
        wanted = down @ x.astype(np.float64) @ across.T
    np.testing.assert_allclose(run(program, {"x": x})[0], wanted, atol=1e-6)


# What ONNX Runtime computes otherwise

OTHERWISE: list[tuple[dict[str, Any], str]] = [
    (
        {"scales": [0.6], "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        "along axis 0 ONNX Runtime takes 2 of 10 places from elsewhere: its coordinates are f32, the program's exact",
    ),
    ({"scales": [1.04]}, "along axis 0 ONNX Runtime copies what it should resize, since the length stays 18"),
]


@pytest.mark.parametrize(("given", "note"), OTHERWISE)
def test_verification_says_where_onnxruntime_takes_other_places(
    given: dict[str, Any], note: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="what it computes is compared")
    path = saved(resize((18,), **given), tmp_path)
    program = load(path)
    assert program.report.notes == (f"Resize 'y': {note}",)
    assert not verify(path, program).agrees
    shown = CliRunner().invoke(main, ["import", str(path), "-o", str(tmp_path), "--verify"])
    assert shown.exit_code == 1
    assert note in shown.output


def test_coordinates_far_from_0_are_less_exact_in_f32(tmp_path: Path) -> None:
    (note,) = imported(tmp_path, (6000,), sizes=[7001], mode="linear").report.notes
    assert "along axis 0 ONNX Runtime is up to 0.000" in note


@pytest.mark.parametrize("transformation", [*TRANSFORMATIONS, "half_pixel_symmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", NEAREST)
def test_there_is_a_note_where_onnxruntime_differs_and_only_there(
    mode: str, transformation: str, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="what it computes is compared")
    scales = ((18, 0.6), (24, 28 / 24), (21, 0.6), (30, 0.3), (12, 2.1), (29, 0.7), (20, 0.3))
    settings = {"mode": "nearest", "nearest_mode": mode, "coordinate_transformation_mode": transformation}
    proto = model(
        [node("Resize", f"x{n} - s{n}", f"y{n}", **settings) for n in range(len(scales))],
        [info(f"x{n}", [before]) for n, (before, _) in enumerate(scales)],
        [info(f"y{n}", None) for n in range(len(scales))],
        weights(**{f"s{n}": np.array([scale], np.float32) for n, (_, scale) in enumerate(scales)}),
    )
    path = saved(proto, tmp_path)
    program = load(path)
    inputs = {f"x{n}": np.arange(before, dtype=np.float32) for n, (before, _) in enumerate(scales)}
    theirs = runtime.InferenceSession(str(path)).run(None, inputs)
    pairs = zip(program.report.outputs, run(program, inputs), theirs, strict=True)
    differing = {name for name, ours, other in pairs if ours.tolist() != other.tolist()}
    assert {note.split("'")[1] for note in program.report.notes} == differing


def test_axes_that_an_input_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=r"axes=\[7\] of an input of rank 4"):
        imported(tmp_path, (1, 1, 4, 4), sizes=[8], axes=[7])


def test_an_image_becomes_one_of_no_places(tmp_path: Path) -> None:
    x = rand(1, 1, 4, 4)
    assert resized(tmp_path, x, sizes=[1, 1, 0, 4], mode="linear", antialias=1).shape == (1, 1, 0, 4)


NOT_IMPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "roi of nan": (
        {"roi": [math.nan, 1], "coordinate_transformation_mode": "tf_crop_and_resize"},
        r"roi=\[nan, 1.0\]: expected numbers",
    ),
    "roi of inf": (
        {"roi": [0, math.inf], "coordinate_transformation_mode": "tf_crop_and_resize"},
        r"roi=\[0.0, inf\]: expected numbers",
    ),
    "coefficient of nan": ({"mode": "cubic", "cubic_coeff_a": math.nan}, "cubic_coeff_a=nan: expected at most 1e"),
    "coefficient of 1e30": ({"mode": "cubic", "cubic_coeff_a": 1e30}, "cubic_coeff_a=1.0*15.*: expected at most 1e"),
    "scale of 1e30": ({"scale": 1e30}, "8e.30 places along axis 0: at most 67108864 can be imported"),
}


def extreme(scale: float = 2.0, roi: list[float] | None = None, **attributes: Any) -> Any:
    """Return a model that resizes eight places."""
    constants = weights(s=np.array([scale], np.float32), r=np.array(roi or [0, 1], np.float32))
    return model([node("Resize", "x r s", "y", **attributes)], [info("x", [8])], [info("y", None)], constants, opset=19)


@pytest.mark.parametrize("case", NOT_IMPORTED)
def test_extremes_are_refused_by_name(case: str, tmp_path: Path) -> None:
    settings, message = NOT_IMPORTED[case]
    with pytest.raises(ModelImportError, match=message):
        load(saved(extreme(**settings), tmp_path))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_region_far_outside_is_the_extrapolated_value(mode: str, tmp_path: Path) -> None:
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    proto = extreme(roi=[1e30, 3e38], mode=mode, **crop)

    (found,) = run(load(saved(proto, tmp_path)), {"x": np.ones(8, np.float32)})

    assert found.tolist() == [7.0] * 16


def test_a_scale_that_leaves_nothing_leaves_nothing(tmp_path: Path) -> None:
    proto = extreme(scale=1e-30, mode="linear", antialias=1)

    (found,) = run(load(saved(proto, tmp_path)), {"x": np.ones(8, np.float32)})

    assert found.shape == (0,)
