"""The committed digit model, its held-out scans and its program agree with one another.

The forward pass below is written in NumPy and f64 from the formulas alone, so the accuracy that the container
records is measured without any executor of this repository.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

oinf = pytest.importorskip("openinfer_oinf", reason="the container is not installed")

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = DIGITS / "digits.oinf"
PROGRAM = (DIGITS / "digits.oi").read_text(encoding="utf-8")
SIZES = {"N": 1, "S": 8, "P": 4, "C": 24, "L": 2, "K": 10}


@dataclass(frozen=True, kw_only=True)
class Model:
    weights: dict
    sizevars: dict
    metadata: dict


@pytest.fixture(scope="module")
def model():
    with oinf.open_oinf(MODEL) as container:
        return Model(
            weights={name: np.array(container[name]) for name in container},
            sizevars=dict(container.sizevars),
            metadata=dict(container.metadata),
        )


@pytest.fixture(scope="module")
def held_back():
    with np.load(DIGITS / "held_back.npz") as archive:
        return archive["images"], archive["labels"]


def convolve(x, w, b):
    """3x3 cross-correlation with one pixel of zeros around: x [N,C,H,W], w [O,C,3,3], b [O]."""
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((len(x), len(w), height, width))
    for row in range(3):
        for column in range(3):
            shifted = padded[:, :, row : row + height, column : column + width]
            y += np.einsum("nchw,oc->nohw", shifted, w[:, :, row, column])
    return y + b[:, None, None]


def forward(weights, images):
    """Map grey levels 0..16 `[N, 8, 8]` to logits `[N, 10]`, all in f64."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    h = np.maximum(convolve(images[:, None] / 16.0, w["stem.w"], w["stem.b"]), 0)
    for layer in range(2):
        h = np.maximum(convolve(h, w[f"conv.w.{layer}"], w[f"conv.b.{layer}"]) + h, 0)
    pooled = h.reshape(len(h), 24, 4, 2, 4, 2).max(axis=(3, 5))
    return pooled.reshape(len(h), -1) @ w["head.w"] + w["head.b"]


@pytest.fixture(scope="module")
def logits(model, held_back):
    return forward(model.weights, held_back[0])


def test_the_container_is_small_and_holds_the_recorded_sizes(model):
    assert MODEL.stat().st_size < 120_000
    assert model.sizevars == SIZES


def test_every_weight_is_finite_f32_and_the_parameters_are_14506(model):
    assert {array.dtype for array in model.weights.values()} == {np.dtype(np.float32)}
    assert all(np.isfinite(array).all() for array in model.weights.values())
    assert sum(array.size for array in model.weights.values()) == 14_506


def test_the_held_back_scans_are_360_different_images_of_all_ten_digits(held_back):
    images, labels = held_back
    assert (images.dtype, images.shape) == (np.uint8, (360, 8, 8))
    assert (labels.dtype, labels.shape) == (np.uint8, (360,))
    assert images.max() == 16
    assert len(np.unique(images, axis=0)) == 360
    # Stratified: each digit has between 174 and 183 of the 1797 scans, a fifth of which is 35 to 37.
    assert set(np.bincount(labels, minlength=10)) <= {35, 36, 37}


def test_the_recorded_accuracy_is_what_the_weights_reach(model, held_back, logits):
    correct = int((logits.argmax(axis=1) == held_back[1]).sum())
    assert correct == model.metadata["held_back.correct"]
    assert model.metadata["held_back.images"] == 360
    assert model.metadata["held_back.accuracy"] == pytest.approx(correct / 360, rel=1e-6)
    assert correct / 360 >= 0.98


def test_no_prediction_hangs_on_rounding(logits):
    first, second = np.sort(logits, axis=1)[:, :-3:-1].T
    # Far above the 1e-5 of the largest logit by which executors may differ from one another.
    assert (first - second).min() > 1e-3 * np.abs(logits).max()


def test_the_held_back_scans_are_the_documented_draw_and_not_training_images(model, held_back):
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn holds the original scans")
    selection = pytest.importorskip(
        "sklearn.model_selection", reason="scikit-learn, which has the digits, is not installed"
    )
    bunch = datasets.load_digits()
    rest, part = selection.train_test_split(
        np.arange(1797),
        test_size=360,
        random_state=model.metadata["held_back.seed"],
        stratify=bunch.target.astype(np.uint8),
    )
    part = np.sort(part)
    images, labels = held_back
    assert np.array_equal(images, bunch.images[part])
    assert np.array_equal(labels, bunch.target[part])
    trained_on = {image.astype(np.uint8).tobytes() for image in bunch.images[rest]}
    assert not trained_on & {image.tobytes() for image in images}


def test_the_program_reads_every_weight_of_the_container_and_no_other(model):
    plain = set(re.findall(r'@ref\("([^"]+)"\)', PROGRAM))
    patterns = re.findall(r'@pattern\("([^"]+)"\)', PROGRAM)
    families = {pattern.format(l=layer) for pattern in patterns for layer in range(2)}
    assert plain | families == set(model.weights)


def test_the_program_declares_the_shapes_of_the_container(model):
    declared = re.findall(r'f32\[([^\]]+)\] @(?:ref|pattern)\("([^"]+)"\)', PROGRAM)
    assert len(declared) == 6
    for dims, name in declared:
        shape = tuple(eval(dim, {}, SIZES) for dim in dims.split(","))
        assert shape == model.weights[name.format(l=0)].shape
