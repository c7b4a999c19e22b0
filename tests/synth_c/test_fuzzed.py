"""Random calls in generated C under the sanitisers; and that the fuzzer sees wrong results and bad accesses."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from openinfer.synth import Bundle
from openinfer_synth_c.target import CTarget

FUZZER = Path(__file__).resolve().parents[2] / "openinfer-core" / "fuzz" / "fuzz_c.py"
CASTS = FUZZER.with_name("sweep_casts.py")

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    pytest.mark.skipif(not FUZZER.is_file(), reason="the fuzzer is not in this tree"),
]


def test_random_calls_are_clean_and_give_what_cpu_gives() -> None:
    options = ["--programs", "1", "--calls", "250", "--seed", "2"]
    run = subprocess.run([sys.executable, str(FUZZER), *options], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "250 compared" in run.stdout


def test_chains_of_casts_give_what_cpu_gives() -> None:
    options = ["--types", "f64,f32,i64", "--lanes", "2,3", "--levels", "O2"]
    run = subprocess.run([sys.executable, str(CASTS), *options], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "gcc -O2: 54 chains, 0 differ" in run.stdout


def test_a_chain_of_casts_that_differs_is_reported(
    fuzzer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = importlib.import_module("sweep_casts")
    written = sweep.written_in_c

    def unrounded(sample: Any, environment: Any) -> Any:
        program = written(sample, environment)
        return replace(program, source=program.source.replace("(float)", "").replace("float", "double"))

    monkeypatch.setattr(sweep, "written_in_c", unrounded)
    monkeypatch.setattr(
        sys, "argv", ["sweep_casts", "--types", "f64,f32", "--lanes", "2", "--part", "1/4", "--levels", "O2"]
    )

    assert sweep.swept(sweep._options()) > 0

    assert "gcc -O2: f64 -> f32, nothing between, 2 lanes -> f64: step 0" in capsys.readouterr().out


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FUZZER.parent))
    return importlib.import_module("fuzz_c")


def some_calls(fuzzer: Any, op: str) -> list[Any]:
    found = fuzzer.program([op], 12, Random(1), Counter())
    return [given for given in found if given.results[0].size > 1]


def test_a_wrong_result_is_reported_with_its_call(fuzzer: Any) -> None:
    first, second = some_calls(fuzzer, "tile")[:2]
    wrong = replace(second, results=[np.flip(second.results[0]) + second.results[0].dtype.type(1)])

    (line,) = fuzzer.trouble([first, wrong])

    assert line.startswith(f"{second.drawn}: result 0 is ")


def test_an_access_out_of_bounds_is_reported_with_its_call(fuzzer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    build_and_run = CTarget.build_and_run

    def one_more_turn(self: CTarget, plan: Any, bundle: Bundle, inputs: Any, **options: Any) -> Any:
        source = re.sub(rb"i0 < (\d+)", lambda found: b"i0 < %d" % (int(found[1]) + 1), bundle.files["model.c"])
        return build_and_run(self, plan, replace(bundle, files={**bundle.files, "model.c": source}), inputs, **options)

    monkeypatch.setattr(CTarget, "build_and_run", one_more_turn)
    given = some_calls(fuzzer, "transpose")[0]

    (line,) = fuzzer.trouble([given])

    assert line.startswith(f"{given.drawn}: ")
    assert "global-buffer-overflow" in line
