"""Checksums that a writer adds and `oinf verify --deep` compares."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from openinfer_oinf import (
    OinfError,
    QuantParams,
    QuantScale,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
    rewrite_oinf,
    verify_oinf,
    write_oinf,
)
from openinfer_oinf.cli import main

QUANT = QuantParams("symmetric", QuantScale.per_tensor(0.5))
MODEL = {
    "b": np.arange(5, dtype="u1"),
    "a": TensorSpec(np.arange(6, dtype="i1").reshape(2, 3), quant=QUANT),
    "c": UninitializedTensor("f16", (2,)),
    "d": UninitializedTensor("i8", (2,), quant=QUANT),
    "e": np.zeros(0, "f4"),
}


@pytest.mark.rule("container.checksums.1")
def test_each_row_is_the_digest_of_data_and_quant_payload():
    with open_oinf(dataclass_to_oinf(MODEL, checksums=True)) as file:
        quant = file.tensor("a").quant_payload()
        assert len(quant) == 56
        expected = [bytes(range(6)) + quant, bytes(range(5)), None, quant, b""]
        rows = file.metadata["oinf.sha256"]
        assert rows.shape == (5, 32)
        for row, stored in zip(rows, expected, strict=True):
            assert row.tobytes() == (bytes(32) if stored is None else hashlib.sha256(stored).digest())


def test_undamaged_files_pass():
    assert verify_oinf(dataclass_to_oinf(MODEL, checksums=True), file=False, deep=True).warnings == ()
    assert verify_oinf(dataclass_to_oinf({}, checksums=True), file=False, deep=True).warnings == ()


def test_a_file_without_checksums_is_reported_of():
    report = verify_oinf(dataclass_to_oinf(MODEL), file=False, deep=True)
    assert [finding.code for finding in report.warnings] == ["W_CHECKSUM"]


@pytest.mark.parametrize("name", ["a", "b"])
def test_damage_that_only_checksums_notice(name):
    blob = bytearray(dataclass_to_oinf(MODEL, checksums=True))
    with open_oinf(bytes(blob)) as file:
        blob[file.tensor(name).offset] ^= 1
    verify_oinf(bytes(blob), file=False)
    with pytest.raises(OinfError) as caught:
        verify_oinf(bytes(blob), file=False, deep=True)
    assert (caught.value.code, caught.value.entry) == ("E_CHECKSUM", name)


@pytest.mark.rule("container.checksums.1")
@pytest.mark.parametrize(
    "read", [lambda file: file["a"], lambda file: file.load("a"), lambda file: file.tensor("a").numpy()]
)
def test_the_first_reading_of_a_tensor_notices_damage(read):
    blob = bytearray(dataclass_to_oinf(MODEL, checksums=True))
    with open_oinf(bytes(blob)) as file:
        read(file)
        blob[file.tensor("a").offset] ^= 1
    with open_oinf(bytes(blob)) as file:
        assert file["b"].size
        with pytest.raises(OinfError) as caught:
            read(file)
        assert (caught.value.code, caught.value.entry) == ("E_CHECKSUM", "a")
    with open_oinf(bytes(blob), verify="off") as file:
        read(file)


def test_checksums_of_another_shape_are_an_error(raw):
    file = raw.File(metadata=[raw.Metadata(b"oinf.sha256", 5, b"\1")])
    with pytest.raises(OinfError, match="E_CHECKSUM"):
        verify_oinf(file.build(), file=False, deep=True)


def test_the_prefix_is_reserved():
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"metadata": {"oinf.sha256": 1}})
    assert caught.value.code == "E_NAME"


def test_rewriting_keeps_checksums_right(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    write_oinf(MODEL, source, checksums=True)
    rewrite_oinf(source, target, align=64)
    assert main(["verify", "--deep", str(target)]) == 0
    with open_oinf(target) as file:
        assert "oinf.sha256" in file.metadata
