"""The rules of MISRA C that generated source deviates from are those that docs/misra.md lists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi

PAGE = Path(__file__).parents[2] / "docs" / "misra.md"
OPTIONS = ["--addon=misra", "--std=c99", "--enable=style", "-D__GNUC__=12", "--max-configs=1", "-q", "--template={id}"]

QUANTISED = """
dynamic { x: i8[1, 4, 2, 2]; }
volatile { y: i8[1, 2, 2, 2]; }
constant { w: i8[2, 4, 1, 1]; b: i32[2, 1, 1]; scale: f32[2, 1, 1]; one: f32 @init(1.0); zero: i8 @init(3); }
block entry {
  op conv_integer(x, w) >> total;
  op add(total, b) >> biased;
  op cast(biased, to=f32) >> real;
  op mul(real, scale) >> scaled;
  op quantize_linear(scaled, one, zero_point=zero) >> y;
  return y;
}
"""

KEPT = """
dynamic { x: f32[4]; at: i32; }
volatile { y: f32[4]; z: f32; }
persistent { sum: f32[4]; n: i32; K(t): f32[4] @table @fixed(t=16); }
block entry {
  cache.read sum >> before;
  op add(before, x) >> y;
  cache.write y >> sum;
  cache.write y >> K[n];
  cache.increment n;
  op softmax(y, axis=0) >> y;
  op gather(y, at) >> z;
  return y, z;
}
"""


def listed() -> set[str]:
    rows = re.findall(
        r"^\| (\d+\.\d+(?:, \d+\.\d+)*) \| (?:advisory|required) \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return {rule for row in rows for rule in row.split(", ")}


@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is not installed")
@pytest.mark.parametrize("text", [QUANTISED, KEPT], ids=["quantised", "kept"])
def test_only_listed_rules_are_deviated_from(text: str, tmp_path: Path) -> None:
    arrays = {
        "w": np.ones((2, 4, 1, 1), np.int8),
        "b": np.ones((2, 1, 1), np.int32),
        "scale": np.ones((2, 1, 1), np.float32),
    }
    oi.Synthesizer("c", arch="cortex-m4").synthesize(oi.Model.from_arrays(arrays), text).emit(tmp_path / "out")

    ran = subprocess.run(
        ["cppcheck", *OPTIONS, "out/model.c"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    rules = set(re.findall(r"^misra-c2012-(\d+\.\d+)$", ran.stderr, re.MULTILINE))
    assert rules
    assert rules <= listed()
