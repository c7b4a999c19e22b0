"""The earlier module names: importable in addition to the two scripts, for programs that still use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in FOLDER.glob("oinf_*.py"))

pytestmark = pytest.mark.skipif(not NAMES, reason="the earlier names are in a checkout only")


def run(code: str, folder: Path) -> str:
    """What Python code prints in a process that finds the modules of the checkout."""
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_module_has_what_it_lists(tmp_path):
    code = f"import importlib\nfor name in {NAMES}:\n module = importlib.import_module(name)\n"
    run(code + " [getattr(module, each) for each in module.__all__]", tmp_path)
    assert len(NAMES) == 7


RESULTS = {
    "common.align_up(9, 8)": 16,
    "common.encode_string('ab').hex()": "0200000061620000",
    "common.read_string(b'....' + common.encode_string('abcde'), 4)": ["abcde", 20],
    "code_of(lambda: common.read_string(b'', 0))": "E_STRING",
    "code_of(lambda: common.read_string(bytes([255] * 8), 0))": "E_STRING",
    "code_of(lambda: common.read_string(bytes([1, 0, 0, 0, 32, 0, 0, 0]), 0))": "E_NAME",
    "code_of(lambda: common.check_key('a b'))": "E_NAME",
    "types.dtype_from_alias('float8e5m2').tag": 17,
    "types.tensor_nbytes('i4', (3, 3))": 5,
    "types.value_type_from_numpy_dtype('>u2').name": "u16",
    "packed.pack_signed_bits([-8, -1, 7], 4).hex()": "f807",
    "packed.unpack_signed_bits(bytes([0xF8, 7]), 4, 3).tolist()": [-8, -1, 7],
    "packed.unpack_unsigned_bits(packed.pack_unsigned_bits([3, 0], 2), 2, 2).tolist()": [3, 0],
    "packed.unpack_t1_bits(bytes([2]), 2).tolist()": [-1, 1],
    "numeric.float_to_bf16_bits([1.0]).tolist()": [0x3F80],
    "numeric.bf16_to_f32(numeric.float_to_bf16_bits([2.5])).tolist()": [2.5],
    "numeric.float_to_f8_bits([1.875]).tolist()": [0x40],
    "numeric.f8_to_f32_scalar(0x3C)": 1.0,
    "[format.format_scalar(0.1), format.format_scalar(True)]": ["0.1", "true"],
    "format.format_values(numpy.arange(3))": "{ 0, 1, 2 }",
    "format.histogram_string(numpy.array([1, 1, 2]))": "{([1, 1], 2), ([2, 2], 1)}",
}

EVALUATE = """
import json, numpy
import oinf_common as common, oinf_types as types, oinf_packed as packed, oinf_numeric as numeric, oinf_format as format

def code_of(call):
    try:
        call()
    except common.OinfError as error:
        return error.code
"""


def test_recorded_results(tmp_path):
    found = json.loads(run(f"{EVALUATE}\nprint(json.dumps([{', '.join(RESULTS)}]))", tmp_path))
    assert dict(zip(RESULTS, found, strict=True)) == RESULTS


def test_parsing_a_file(tmp_path):
    code = (
        "import oinf_encoder as e, oinf_verify as v, json\n"
        "e.write_oinf({'sizevars': {'B': 4}, 'tensors': {'w': e.TensorSpec([1.5])}}, 'm.oinf')\n"
        "report = v.parse_file('m.oinf')\n"
        "print(json.dumps([report.sizevars, [tensor.name for tensor in report.tensors]]))"
    )
    assert json.loads(run(code, tmp_path)) == [{"B": 4}, ["w"]]
