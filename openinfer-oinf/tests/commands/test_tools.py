"""`oinf diff`, `oinf hash` and `oinf extract`."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest

from openinfer_oinf import (
    QuantParams,
    QuantScale,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
    quantize,
    write_oinf,
)
from openinfer_oinf.cli import main
from openinfer_oinf.difference import differences
from openinfer_oinf.digest import content_digest

QUANT = QuantParams("symmetric", QuantScale.per_channel(0, [0.5, 2]))
MODEL = {
    "sizevars": {"B": 4},
    "metadata": {"mode": "fast", "table": [1, 2, 300]},
    "tensors": {
        "w": TensorSpec(np.array([[1.0, 2.0], [3.0, 4.0]], "f4")),
        "q": TensorSpec(np.array([[1, -2], [3, -4]], "i1"), quant=QUANT),
        "n": TensorSpec(np.array([-8, 7, 1]), dtype="i4"),
        "b": TensorSpec(np.array([1.5, math.nan]), dtype="bf16"),
        "cache": UninitializedTensor("f16", (2,)),
    },
}


def changed(table: str, /, **entries: object) -> dict[str, dict[str, object]]:
    """The model with entries replaced, or left out where None is given."""
    merged = MODEL[table] | entries
    return MODEL | {table: {name: value for name, value in merged.items() if value is not None}}


def found(first, second, **options) -> list[str]:
    with open_oinf(dataclass_to_oinf(first)) as one, open_oinf(dataclass_to_oinf(second)) as other:
        return [str(each) for each in differences(one, other, **options)]


def w(*values: float, dtype: str = "f4") -> TensorSpec:
    return TensorSpec(np.array(values, dtype).reshape(2, 2))


def test_equal_models_do_not_differ_whatever_their_layout():
    with (
        open_oinf(dataclass_to_oinf(MODEL)) as one,
        open_oinf(dataclass_to_oinf(MODEL, align=64)) as other,
    ):
        assert list(differences(one, other, values=True)) == []


@pytest.mark.parametrize(
    ("second", "lines"),
    [
        (changed("sizevars", B=5), ["~ sizevars B: 4 -> 5"]),
        (changed("sizevars", B=None, C=1), ["- sizevars B: 4", "+ sizevars C: 1"]),
        (changed("metadata", mode="slow"), ['~ metadata mode: str = "fast" -> str = "slow"']),
        (changed("metadata", mode=None), ['- metadata mode: str = "fast"']),
        (changed("tensors", w=None, x=w(1, 1, 1, 1)), ["- tensors w: f32[2, 2]", "+ tensors x: f32[2, 2]"]),
        (changed("tensors", w=w(1, 2, 3, 5)), ["~ tensors w: values differ"]),
        (changed("tensors", w=w(1, 2, 3, 4, dtype="f8")), ["~ tensors w: f32[2, 2] -> f64[2, 2]"]),
        (changed("tensors", w=TensorSpec(np.ones(4, "f4"))), ["~ tensors w: f32[2, 2] -> f32[4]"]),
        (changed("tensors", cache=np.zeros(2, "f2")), ["~ tensors cache: f16[2] without data -> f16[2]"]),
    ],
)
def test_differences_name_the_entry_and_both_sides(second, lines):
    assert found(MODEL, second) == lines


def test_quantisation_differs():
    other = TensorSpec(MODEL["tensors"]["q"].data)
    (line,) = found(MODEL, changed("tensors", q=other))
    assert line.startswith("~ tensors q: quantisation scheme=symmetric, scale=per_channel(axis=0, count=2)")
    assert line.endswith("-> none")


@pytest.mark.parametrize(
    ("values", "options", "detail"),
    [
        ((1, 2, 3, 5), {}, "1 of 4 values differ, at most by 1 (relative 0.25)"),
        ((1, 2, 3, 5), {"rtol": 0.3}, None),
        ((1, 2, 3, 5), {"rtol": 0.2}, "1 of 4 values differ, at most by 1 (relative 0.25)"),
        ((2, 2, 3, 5), {"atol": 1}, None),
        ((1, 2, 3, math.nan), {"atol": 9}, "1 of 4 values differ, at most by nan (relative nan)"),
        ((1, 2, 3, math.inf), {"rtol": 9}, "1 of 4 values differ, at most by inf (relative inf)"),
    ],
)
def test_values_are_compared_with_tolerances(values, options, detail):
    expected = [] if detail is None else [f"~ tensors w: {detail}"]
    assert found(MODEL, changed("tensors", w=w(*values)), values=True, **options) == expected


def test_large_whole_numbers_are_told_apart():
    first, second = ({"t": np.array([(1 << 60) + step])} for step in (0, 1))
    assert found(first, second, values=True) == ["~ tensors t: 1 of 1 values differ, at most by 0 (relative 0)"]


@pytest.mark.parametrize("options", [{"version": 1}, {"align": 4096}])
def test_the_content_digest_does_not_depend_on_layout(options):
    model = changed("tensors", q=None)
    digests = []
    for each in ({}, options):
        with open_oinf(dataclass_to_oinf(model, **each)) as file:
            digests.append(content_digest(file))
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    "other",
    [
        changed("sizevars", B=5),
        changed("metadata", table=[1, 2, 301]),
        changed("tensors", w=w(1, 2, 3, -4)),
        changed("tensors", w=TensorSpec(np.array([1.0, 2, 3, 4], "f4"))),
        changed("tensors", q=TensorSpec(MODEL["tensors"]["q"].data)),
        changed("tensors", cache=np.zeros(2, "f2")),
    ],
)
def test_the_content_digest_depends_on_every_part(other):
    digests = set()
    for model in (MODEL, other):
        with open_oinf(dataclass_to_oinf(model)) as file:
            digests.add(content_digest(file))
    assert len(digests) == 2


class TestCommands:
    @pytest.fixture
    def path(self, tmp_path):
        write_oinf(MODEL, tmp_path / "m.oinf")
        return tmp_path / "m.oinf"

    def test_diff_exit_codes(self, path, tmp_path):
        other = tmp_path / "other.oinf"
        write_oinf(changed("tensors", w=w(1, 2, 3, 5)), other)
        assert main(["diff", str(path), str(path)]) == 0
        assert main(["diff", str(path), str(other)]) == 1
        assert main(["diff", "--atol", "1", str(path), str(other)]) == 0
        other.write_bytes(b"rubbish")
        assert main(["diff", str(path), str(other)]) == 2
        for absent in ("absent", "."):
            assert main(["diff", str(path), str(tmp_path / absent)]) == 2
            assert main(["diff", str(tmp_path / absent), str(path)]) == 2

    def test_diff_json(self, path, tmp_path, capsys):
        other = tmp_path / "other.oinf"
        write_oinf(changed("tensors", w=w(1, 2, 3, math.nan)), other)
        assert main(["diff", "--json", "--values", str(path), str(other)]) == 1
        (change,) = json.loads(capsys.readouterr().out)
        assert (change["table"], change["name"], change["kind"]) == ("tensors", "w", "changed")
        expected = {"differing": 1, "size": 4, "largest": "nan", "largest_relative": "nan", "dequantised": False}
        assert change["values"] == expected

    def test_values_of_quantised_tensors_are_those_that_they_stand_for(self, tmp_path, capsys):
        """Stored integers say nothing of how far a quantised tensor is from the real one."""
        real = np.linspace(-3, 3, 64, dtype=np.float32).reshape(4, 16)
        a, b, c = (str(tmp_path / name) for name in ("a.oinf", "b.oinf", "c.oinf"))
        write_oinf({"w": real}, a)
        write_oinf({"w": quantize(real, "i8")}, b)
        write_oinf({"w": quantize(2 * real, "i8")}, c)
        assert main(["diff", a, b, "--values", "--json"]) == 1
        *_, change = json.loads(capsys.readouterr().out)
        assert change["values"]["dequantised"] is True
        assert change["values"]["largest"] < 3 / 127
        assert main(["diff", a, b, "--values"]) == 1
        assert "of 64 dequantised values differ, at most by 0.01" in capsys.readouterr().out
        assert main(["diff", a, b, "--atol", "0.012"]) == 1
        assert "dequantised" not in capsys.readouterr().out
        # The same stored integers with another scale.
        assert main(["diff", b, c, "--values"]) == 1
        assert "dequantised values differ, at most by 3 (relative 1)" in capsys.readouterr().out

    def test_hash(self, path, capsys):
        assert main(["hash", "--tensors", str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"file     {hashlib.sha256(path.read_bytes()).hexdigest()}  {path}"
        assert lines[1].startswith("content  ")
        stored = hashlib.sha256(np.array([1, 2, 3, 4], "<f4").tobytes()).hexdigest()
        assert f"tensor   {stored}  w" in lines
        assert "tensor   without data  cache" in lines

    @pytest.mark.parametrize(
        ("name", "options", "expected"),
        [
            ("w", [], np.array([[1, 2], [3, 4]], "f4")),
            ("n", [], np.array([-8, 7, 1], "i1")),
            ("b", [], np.array([1.5, math.nan], "f4")),
            ("q", [], np.array([[1, -2], [3, -4]], "i1")),
            ("q", ["--dequantize"], np.array([[0.5, -1], [6, -8]], "f4")),
        ],
    )
    def test_extract(self, path, tmp_path, name, options, expected):
        target = tmp_path / "x.npy"
        assert main(["extract", str(path), name, "-o", str(target), *options]) == 0
        array = np.load(target, allow_pickle=False)
        np.testing.assert_array_equal(array, expected, strict=True)

    @pytest.mark.parametrize("name", ["absent", "cache"])
    def test_extract_of_what_is_not_there(self, path, tmp_path, name, capsys):
        assert main(["extract", str(path), name, "-o", str(tmp_path / "x.npy")]) == 1
        assert not (tmp_path / "x.npy").exists()
        assert name in capsys.readouterr().err
