"""From dataclasses and dicts to tables: which field becomes what, and under which name."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import pytest

from openinfer_oinf import (
    Bitset,
    OinfError,
    ScalarValue,
    SizeVar,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
)

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass
class MlpModel:
    B: SizeVar
    D: SizeVar
    w1: TensorSpec
    b1: TensorSpec
    scale: float
    name: str
    layers: int


def mlp() -> MlpModel:
    ones = np.ones((2, 3), np.float32)
    return MlpModel(SizeVar(2), SizeVar(3), TensorSpec(ones), TensorSpec(ones[0], name="b.0"), 0.5, "mlp", 2)


def tables(instance: object, **options: Any) -> tuple[dict[str, int], dict[str, str], dict[str, str]]:
    """Sizevars by value; metadata and tensors by type."""
    with open_oinf(dataclass_to_oinf(instance, **options)) as file:
        metadata = {name: file.metadata.typed(name).dtype for name in file.metadata}
        tensors = {tensor.name: f"{tensor.dtype}{list(tensor.shape)}" for tensor in file.tensors()}
        return dict(file.sizevars), metadata, tensors


def test_fields_go_to_the_table_of_their_kind():
    assert tables(mlp()) == (
        {"B": 2, "D": 3},
        {"layers": "u8", "name": "str", "scale": "f32"},
        {"b.0": "f32[3]", "w1": "f32[2, 3]"},
    )


def test_plain_ints_are_metadata_unless_old_sources_ask_otherwise(caplog):
    with caplog.at_level(logging.INFO, "openinfer_oinf"):
        assert "layers" in tables(mlp())[1]
    assert "'layers' is a plain int" in caplog.text
    sizevars, metadata, _ = tables(mlp(), int_fields="sizevar")
    assert sizevars == {"B": 2, "D": 3, "layers": 2}
    assert "layers" not in metadata


def test_annotations_markers_and_field_metadata():
    @dataclass
    class Marked:
        plain: SizeVar = 4
        marked: Annotated[int, "sizevar"] = 5
        maybe: Optional[SizeVar] = 6  # noqa: UP045
        rows: Annotated[list[int], "tensor", {"dtype": "i8"}] = field(default_factory=lambda: [1, 2])
        typed: list[int] = field(default_factory=lambda: [1, 2, 3], metadata={"dtype": "u16"})
        absent: Annotated[Any, "tensor", {"dtype": "f16", "shape": (2, 2)}] = None
        listed: list[int] = field(default_factory=lambda: [1, 2])
        bits: Bitset = field(default_factory=lambda: Bitset([1, 0]))
        exact: ScalarValue = field(default_factory=lambda: ScalarValue(1, "i64"))
        array: Any = field(default_factory=lambda: np.zeros(2))

    assert tables(Marked()) == (
        {"marked": 5, "maybe": 6, "plain": 4},
        {"bits": "bitset", "exact": "i64", "listed": "i8"},
        {"absent": "f16[2, 2]", "array": "f64[2]", "rows": "i8[2]", "typed": "u16[3]"},
    )


def test_dicts_of_entries_by_name_as_fields_and_as_plain_attributes():
    @dataclass
    class Tables:
        sizevars: dict[str, int]

    instance = Tables({"L": 2})
    instance.tensors = {f"W.{each}": np.ones(each + 1, "f4") for each in range(2)}
    instance.metadata = {"kind.of": "test"}
    assert tables(instance) == ({"L": 2}, {"kind.of": "str"}, {"W.0": "f32[1]", "W.1": "f32[2]"})


@pytest.mark.parametrize("table", ["sizevars", "metadata", "tensors"])
def test_fields_named_like_tables_hold_dicts(table):
    with pytest.raises(OinfError, match="holds a dict"):
        dataclass_to_oinf({table: 5})


def test_scalar_tensors_are_not_metadata():
    assert tables({"meta": 0.1, "tensor": TensorSpec(np.array(0.1, np.float32))}) == (
        {},
        {"meta": "f32"},
        {"tensor": "f32[]"},
    )


def test_explicit_names_are_sorted_and_checked_for_duplicates():
    ones = np.ones(1)
    renamed = {"a": TensorSpec(ones, name="z"), "b": TensorSpec(ones, name="c")}
    assert list(tables(renamed)[2]) == ["c", "z"]
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"a": TensorSpec(ones, name="b"), "b": ones})
    assert (caught.value.code, caught.value.entry) == ("E_DUPLICATE", "b")


@pytest.mark.parametrize("value", [3.7, "12", True, -1, 1 << 64, None])
def test_size_variables_are_never_guessed(value):
    with pytest.raises(OinfError, match="is not a size"):
        SizeVar(value)


@pytest.mark.parametrize("instance", [MlpModel, 5, None, [1]])
def test_only_instances_of_dataclasses_and_dicts(instance):
    with pytest.raises(OinfError, match="instance of a dataclass"):
        dataclass_to_oinf(instance)


def test_declarations():
    assert tables({"a": UninitializedTensor("f16", (2, 3), name="k.cache")})[2] == {"k.cache": "f16[2, 3]"}
    with pytest.raises(OinfError):
        UninitializedTensor("f17", (1,))


class TestScripts:
    MODULE = (
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "from dataclass_to_oinf import SizeVar, TensorSpec\n"
        "@dataclass\n"
        "class Model:\n"
        "    B: SizeVar = SizeVar(1)\n"
        "    rate: float = 0.5\n"
        "    w: TensorSpec = TensorSpec(np.ones(2, np.float32))\n"
        "made = Model(B=SizeVar(7))\n"
    )

    def run(self, directory, script, *arguments):
        command = [sys.executable, str(PACKAGE / script), *arguments]
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)

    @pytest.fixture
    def module(self, tmp_path):
        (tmp_path / "mymodel.py").write_text(self.MODULE)
        return tmp_path

    @pytest.mark.parametrize(("name", "size"), [("Model", 1), ("made", 7)])
    def test_writing_and_verifying(self, module, name, size):
        done = self.run(module, "dataclass_to_oinf.py", "--input", f"mymodel:{name}", "--output", "m.oinf")
        assert (done.returncode, done.stderr) == (0, "")
        shown = self.run(module, "verify_oinf.py", "m.oinf")
        assert shown.returncode == 0
        assert shown.stdout.startswith(f"B := {size}\n\nrate: f32 = 0.5\n\nw: f32[2] = {{ 1, 1 }}\n")

    def test_fields_from_json(self, module):
        values = {"B": 3, "rate": 0.25, "w": {"data": [1, 2], "dtype": "i4", "name": "w.0"}}
        (module / "values.json").write_text(json.dumps(values))
        done = self.run(
            module, "dataclass_to_oinf.py", "--input", "mymodel:Model", "--output", "m.oinf", "--json", "values.json"
        )
        assert (done.returncode, done.stderr) == (0, "")
        with open_oinf(module / "m.oinf") as file:
            assert dict(file.sizevars) == {"B": 3}
            assert file["w.0"].tolist() == [1, 2]

    @pytest.mark.parametrize("place", ["absent:Model", "mymodel:Absent", "mymodel"])
    def test_wrong_places_are_named_without_a_traceback(self, module, place):
        done = self.run(module, "dataclass_to_oinf.py", "--input", place, "--output", "m.oinf")
        assert done.returncode == 1
        assert place.split(":")[-1] in done.stderr or "absent" in done.stderr
        assert "Traceback" not in done.stderr
