"""Third-party packages as they are installed: broken ones are reported and disturb nothing, good ones work."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import MissingDependencyError, SynthesisError
from openinfer.plugins.coverage import coverage
from openinfer.plugins.environment import Environment
from openinfer.plugins.probing import probe
from openinfer.synth import Synthesizer
from openinfer.testing.waiting import limit_s
from openinfer_oinf import SizeVar, write_oinf

try:
    distribution("openinfer-example-op")
except PackageNotFoundError:
    reason = "the packages under tests/plugins are not installed here: tox run -e dist,plugins"
    pytest.skip(reason, allow_module_level=True)

BROKEN = {
    "broken_import": ("failed", "No module named 'library_that_nobody_has'"),
    "broken_signature": ("failed", "openinfer_kernels(target, precision) takes argument `precision`"),
    "broken_misspelt": ("failed", "there is no hook openinfer_device: did you mean `openinfer_devices`"),
    "broken_raises": ("failed", "hook openinfer_attributes raised RuntimeError: the second attribute is missing"),
    "broken_rubbish": ("failed", "hook openinfer_attributes yielded 'an attribute' (str), expected AttributeSpec"),
    "broken_duplicate": (
        "duplicate",
        "op 'relu' of distribution openinfer-broken-duplicate is already provided by plugin 'core' of distribution op",
    ),
    "broken_early": (
        "duplicate",
        "device 'cpu' of distribution openinfer-broken-early is already provided by plugin 'cpu' of distribution op",
    ),
    "broken_newer": ("incompatible", "needs plugin API 1000, this OpenInfer has 1"),
}
WORKING = {"core", "cpu", "c", "oinf", "vulkan"}
WORKING |= {f"example_{name}" for name in ("op", "device", "target", "runner", "javascript", "library")}
PROGRAM = """
dynamic { x: f32[N]; }
volatile { y: f32[N]; }
block entry {
  op leaky_square(x, slope=0.25) >> y;
  return y;
}
"""
X = np.array([0.0, -0.0, 1.5, -1.5, 3.0e38, -3.0e38, 1e-42, np.inf, -np.inf, np.nan], np.float32)
MODEL = oi.Model.from_arrays({}, sizevars={"N": len(X)})


def openinfer(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openinfer", *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s(120),
        check=False,
        env={**os.environ, **variables},
    )


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    finished = openinfer("plugins", "--json")
    assert finished.returncode == 0, finished.stderr
    return {row["name"]: row for row in json.loads(finished.stdout)}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_reported_with_distribution_version_and_reason(listed: dict[str, Any], name: str) -> None:
    status, reason = BROKEN[name]

    assert listed[name]["distribution"] == f"openinfer-{name.replace('_', '-')}"
    assert listed[name]["version"] == "1.0.0"
    assert listed[name]["status"] == status
    assert reason in listed[name]["reason"]


def test_what_an_import_prints_goes_to_standard_error() -> None:
    finished = openinfer("devices", "--json")

    assert {row["name"]: row["plugin"] for row in json.loads(finished.stdout)}["cpu"] == "cpu"
    assert finished.stderr == "broken_early is here\nand its library\n"


def test_everything_else_is_ok(listed: dict[str, Any]) -> None:
    assert {name for name, row in listed.items() if row["status"] == "ok"} == WORKING
    assert set(listed) == WORKING | set(BROKEN)


def test_nothing_of_a_broken_plugin_stays() -> None:
    environment = Environment.default()

    assert not {"half_way", "half_rubbish"} & set(environment.attributes)
    assert environment.providers["op", "relu"] == "core"
    assert not set(BROKEN) & set(environment.providers.values())


def test_strict_loading_fails_and_names_every_broken_plugin() -> None:
    finished = openinfer("--plugins-strict", "devices")

    assert finished.returncode == 1
    for name, (status, _) in BROKEN.items():
        assert f"{name} of openinfer-{name.replace('_', '-')} is {status}: " in finished.stderr


def test_blocked_plugins_are_not_imported_and_strict_loading_passes() -> None:
    finished = openinfer("--plugins-strict", "plugins", "--json", OPENINFER_PLUGINS_BLOCK=",".join(BROKEN))

    assert finished.returncode == 0, finished.stderr
    assert {row["name"] for row in json.loads(finished.stdout) if row["status"] == "blocked"} == set(BROKEN)


def test_an_allow_list_leaves_core_and_what_it_names() -> None:
    rows = json.loads(openinfer("--plugins", "example_op", "plugins", "--json").stdout)

    assert {row["name"] for row in rows if row["status"] == "ok"} == {"core", "example_op"}


def leaky_squares(x: np.ndarray) -> np.ndarray:
    """Each element in double precision, rounded once: products of two floats are exact in double."""
    exact = [float(v) * float(v) if float(v) >= 0.0 else 0.25 * float(v) for v in x]
    with np.errstate(over="ignore"):
        return np.array(exact).astype(np.float32)


def device_or_skip(name: str) -> str:
    found = probe(Environment.default().device(name))
    if not found.available:
        pytest.skip(f"device {name}: {found.detail}")
    return name


def run_on(device: str, program: str, **inputs: np.ndarray) -> np.ndarray:
    executor = oi.Simulator(MODEL, device=device).make_executor(oi.graph(program))
    executor.insert(inputs)
    executor.step()
    return executor.fetch("y")


@pytest.mark.parametrize("device", ["cpu", "abacus"])
def test_the_operator_runs_on_devices_of_the_host_bit_for_bit(device: str) -> None:
    np.testing.assert_array_equal(run_on(device, PROGRAM, x=X), leaky_squares(X))


def test_the_operator_runs_on_vulkan() -> None:
    found = run_on(device_or_skip("vulkan"), PROGRAM, x=X)

    # A device may flush subnormal numbers to zero.
    normal = ~((np.abs(X) > 0) & (np.abs(X) < np.finfo(np.float32).tiny))
    np.testing.assert_array_equal(found[normal], leaky_squares(X)[normal])
    assert np.all(np.abs(found[~normal]) <= np.abs(X[~normal]))


def test_the_operator_runs_in_generated_c_bit_for_bit() -> None:
    synthesis = Synthesizer("c").synthesize(MODEL, oi.graph(PROGRAM), sizes=MODEL.sizevars)
    try:
        outputs = synthesis.run({"x": X}).outputs
    except MissingDependencyError as error:
        pytest.skip(str(error))

    np.testing.assert_array_equal(outputs["y"], leaky_squares(X))


def test_the_operator_is_covered_by_its_expression_wherever_f32_is() -> None:
    rows = [row for row in coverage(Environment.default(), ["leaky_square"]) if row.dtype == "f32"]

    assert {row.target for row in rows} >= {"cpu", "vulkan", "abacus", "c", "listing"}
    assert {row.by for row in rows} == {"expression"}


PERCEPTRON = """
dynamic { x: f32[3, 4]; w: f32[4, 2]; b: f32[2]; }
volatile { y: f32[3, 2]; }
block entry {
  assign h: f32[3, 2];
  op matmul(x, w) >> h;
  op add(h, b) >> h;
  op relu(h) >> h;
  op l2_norm(h, axis=1) >> y;
  return y;
}
"""


CONVOLUTION = """
dynamic { x: f32[1, 1, 2, 2]; w: f32[1, 1, 2, 2]; }
volatile { y: f32[1, 1, 1, 1]; }
block entry { op conv2d(x, w) >> y; return y; }
"""


def test_the_device_runs_kernels_expressions_folds_and_decompositions() -> None:
    random = np.random.default_rng(7)
    x, w, b = (random.standard_normal(shape, np.float32) for shape in ((3, 4), (4, 2), (2,)))

    found = run_on("abacus", PERCEPTRON, x=x, w=w, b=b)

    hidden = np.maximum(x.astype(np.float64) @ w + b, 0)
    expected = hidden / np.sqrt((hidden**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_the_device_multiplies_what_is_transposed() -> None:
    text = """
    dynamic { a: f32[4, 3]; b: f32[2, 4]; }
    volatile { y: f32[3, 2]; }
    block entry { op matmul(a, b, trans_a=true, trans_b=true) >> y; return y; }
    """
    a, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(8, dtype=np.float32).reshape(2, 4)

    assert run_on("abacus", text, a=a, b=b).tolist() == (a.T @ b.T).tolist()


def test_a_device_that_cannot_run_an_operator_says_so_before_the_first_step() -> None:
    simulator = oi.Simulator(MODEL, device="abacus")

    with pytest.raises(oi.OpenInferError, match="abacus has no kernel for conv2d"):
        simulator.make_executor(oi.graph(CONVOLUTION))


def test_the_device_leaves_half_floats_to_cpu() -> None:
    program = oi.graph(PROGRAM.replace("f32", "f16"))
    with np.errstate(over="ignore"):
        half = X.astype(np.float16)
    found = {}
    for device in ("cpu", "abacus"):
        executor = oi.Simulator(MODEL, device=device, trace=True, echo=False).make_executor(program)
        executor.step(x=half)
        found[device] = executor.fetch("y").tobytes(), [event.node_desc for event in executor.trace()][:3]

    assert found["abacus"][0] == found["cpu"][0]
    assert found["abacus"][1] == ["transfer x >> cpu:x", "op leaky_square(x) >> y", "transfer cpu:y >> y"]


def test_the_target_lists_the_plan(tmp_path: Path) -> None:
    (tmp_path / "p.oi").write_text(PROGRAM, encoding="utf-8")
    synthesis = Synthesizer("listing").synthesize(MODEL, tmp_path / "p.oi", sizes=MODEL.sizevars)

    synthesis.emit(tmp_path / "out")

    text = (tmp_path / "out" / "listing.txt").read_text(encoding="utf-8")
    assert "target   listing" in text
    assert "leaky_square x >> y" in text


@dataclass
class Sizes:
    """A model that holds one size."""

    N: SizeVar


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Program and model as files."""
    program, model = tmp_path / "p.oi", tmp_path / "m.oinf"
    program.write_text(PROGRAM, encoding="utf-8")
    write_oinf(Sizes(SizeVar(3)), model)
    return str(program), str(model)


@pytest.mark.parametrize("device", ["cpu", "abacus"])
def test_the_command_runs_a_plugin_s_operator_on_a_plugin_s_device(files: tuple[str, str], device: str) -> None:
    program, model = files

    finished = openinfer("run", program, "--model", model, "--device", device, "--input", "x=-2.0", "--json")

    assert finished.returncode == 0, finished.stderr
    assert "-0.5" in finished.stdout


def test_the_command_writes_for_a_plugin_s_target(files: tuple[str, str], tmp_path: Path) -> None:
    program, model = files
    folder = tmp_path / "out"

    finished = openinfer("synth", program, "--model", model, "--size", "N=3", "--target", "listing", "-o", str(folder))

    assert finished.returncode == 0, finished.stderr
    assert (folder / "listing.txt").read_text(encoding="utf-8").startswith("target   listing\n")


def test_the_conformance_kit_runs_a_device_unchanged() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--pyargs",
        "openinfer.testing.conformance",
    ]
    command += ["--pyargs", "openinfer.testing.conformance"]
    options = ["--openinfer-device", "abacus", "--openinfer-allow-missing", "--openinfer-sample", "8", "-rs"]

    finished = subprocess.run([*command, *options], capture_output=True, text=True, timeout=limit_s(300), check=False)

    assert finished.returncode == 0, finished.stdout
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped)", finished.stdout)}
    assert counts["passed"] >= 200
    assert "device abacus: abacus has no add for f8" in finished.stdout


def test_a_plugin_s_runner_spreads_a_batch(files: tuple[str, str], tmp_path: Path) -> None:
    program, model = files
    inputs = tmp_path / "x.npy"
    np.save(inputs, np.array([[row, -row, 0] for row in range(5)], np.float32))
    arguments = ("run", program, "--model", model, "--batch", str(inputs), "--runner", "threads", "--workers", "3")

    finished = openinfer(*arguments, "--json")

    assert finished.returncode == 0, finished.stderr
    found = [result["outputs"]["y"]["values"] for result in json.loads(finished.stdout)["results"]]
    assert found == [[row * row, -0.25 * row, 0] for row in range(5)]


def test_an_unknown_device_is_wrong_input_with_a_hint(files: tuple[str, str]) -> None:
    program, model = files

    finished = openinfer("run", program, "--model", model, "--device", "abacuss", "--input", "x=1.0")

    assert finished.returncode == 1
    assert "did you mean `abacus`?" in finished.stderr


def test_the_listing_cannot_be_run() -> None:
    synthesis = Synthesizer("listing").synthesize(MODEL, oi.graph(PROGRAM), sizes=MODEL.sizevars)

    with pytest.raises(SynthesisError, match="cannot be run"):
        synthesis.run({"x": X})


@pytest.mark.parametrize("operator", ["leaky_square", "row_products"])
def test_the_conformance_kit_tests_the_operator_of_a_plugin_by_its_oracle(operator: str) -> None:
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"),
            *("openinfer.testing.conformance", "--openinfer-op", operator),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout
    assert re.search(r"^[34] passed in", finished.stdout, re.MULTILINE), finished.stdout
    assert int(re.findall(r"conformance cases on device cpu: (\d+)", finished.stdout)[0]) > 10
