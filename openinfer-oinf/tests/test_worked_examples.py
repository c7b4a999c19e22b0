"""The two files that the format description spells out byte by byte, written and read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pytest

from openinfer_oinf import (
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    SizeVar,
    TensorSpec,
    dataclass_to_oinf,
    open_oinf,
)

VERSION_1 = bytes.fromhex(
    "4f494e4600010000 0000000000010000 0001000000010000 0000000000480000 0000000000580000 0000000000780000"
    "0000000000a80000 0000000000b80000 0000000000000000 0100000042000000 0400000000000000 040000006d6f6465"
    "0e00000000000000 0800000000000000 a800000000000000 0100000078000000 1200000001000000 0100000003000000"
    "0000000002000000 00000000b0000000 0000000000000000 0400000066617374 f807000000000000"
)
QUANT_PAYLOAD = bytes.fromhex(
    "0200000001000000 0100000000000000 0000000000000000 0100000000000000"
    "0000000000000000 0100000000000000 0000003fffffffff"
)
QUANT = QuantParams("asymmetric", QuantScale.per_tensor(0.5), QuantZeroPoint.per_tensor(-1))


@dataclass
class Example:
    B: SizeVar
    mode: str
    x: TensorSpec


def example(quant: QuantParams | None = None) -> Example:
    return Example(SizeVar(4), "fast", TensorSpec(np.array([-8, -1, 7]), dtype="i4", quant=quant))


@pytest.mark.rule("container.layout.1", "container.layout.2", "container.layout.4", "container.layout.8")
def test_version_1_is_written_byte_for_byte():
    assert dataclass_to_oinf(example(), version=1) == VERSION_1


@pytest.mark.rule("container.layout.9")
def test_version_1_is_read():
    with open_oinf(VERSION_1) as file:
        assert file.version == 1
        assert dict(file.sizevars) == {"B": 4}
        assert dict(file.metadata) == {"mode": "fast"}
        assert file["x"].tolist() == [-8, -1, 7]
        assert file.raw("x").tobytes() == b"\xf8\x07"
        assert file.warnings == ()


@pytest.mark.rule("container.layout.9")
def test_version_2_with_quantisation_has_the_recorded_digest():
    written = dataclass_to_oinf(example(QUANT))
    assert len(written) == 256
    assert written[200:256] == QUANT_PAYLOAD
    assert hashlib.sha256(written).hexdigest() == "6b521fad08802f87cad31d91755d17ab11b66a053d4fea922450c642c4ed6684"


@pytest.mark.rule("container.layout.9", "container.values.5")
def test_version_2_with_quantisation_is_read():
    with open_oinf(dataclass_to_oinf(example(QUANT))) as file:
        tensor = file.tensor("x")
        assert tensor.quant == QUANT
        assert tensor.dequantize().tolist() == [-3.5, 0.0, 4.0]


@pytest.mark.rule("container.layout.1")
def test_the_smallest_file_has_a_header_only():
    written = dataclass_to_oinf({})
    assert len(written) == 72
    with open_oinf(written) as file:
        assert (len(file), len(file.sizevars), len(file.metadata)) == (0, 0, 0)


@pytest.mark.rule("container.writing.1")
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_order_of_entries_does_not_matter(order):
    arrays = {"a": np.arange(3, dtype="i2"), "b": np.arange(5, dtype="u1")}
    assert dataclass_to_oinf({name: arrays[name] for name in order}) == dataclass_to_oinf(arrays)
