"""Agreement with files of the reference implementation, where they are at hand."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest

from openinfer_oinf import OinfWriter, open_oinf, verify_oinf

ROOT = Path(__file__).resolve().parents[2].parent / "shared" / "conformance"
FILES = sorted(ROOT.glob("*/*.oinf"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recorded files in {ROOT}")


def test_every_file_of_the_manifest_reads_as_recorded():
    manifest = json.loads((ROOT / "oinf" / "manifest.json").read_text())
    assert manifest
    for name, recorded in manifest.items():
        with open_oinf(ROOT / "oinf" / name, verify="eager") as file:
            assert file.version == recorded["version"]
            assert [{"name": key, "value": value} for key, value in file.sizevars.items()] == recorded["sizevars"]
            assert len(file.metadata) == len(recorded["metadata"])
            read = [
                {
                    "name": tensor.name,
                    "dtype": tensor.dtype,
                    "dims": list(tensor.shape),
                    "has_data": tensor.has_data,
                    "offset": tensor.offset,
                    "nbytes": tensor.nbytes,
                    "sha256": hashlib.sha256(file.raw(tensor.name)).hexdigest(),
                    "quant": tensor.quant,
                }
                for tensor in file.tensors()
            ]
            assert read == recorded["tensors"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_writing_what_was_read_reproduces_the_file(path):
    target = io.BytesIO()
    with open_oinf(path) as file, OinfWriter(target, version=file.version, allow_case_collisions=True) as writer:
        for name, value in file.sizevars.items():
            writer.sizevar(name, value)
        for tensor in file.tensors():
            writer.declare(tensor.name, tensor.dtype, tensor.shape, data=tensor.has_data, quant=tensor.quant)
        for tensor in file.tensors():
            if tensor.has_data:
                writer.write_raw(tensor.name, tensor.raw())
    assert target.getvalue() == path.read_bytes()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_verifies_without_warnings(path):
    assert verify_oinf(path, file=False).warnings == ()
