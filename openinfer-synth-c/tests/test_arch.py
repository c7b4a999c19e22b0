"""Synthesizers for a device: the target comes from its file, and what does not fit the device is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer_synth_c.compiler_flags import FLAGS
from openinfer_synth_c.profiles import PROFILES

DEVICE: dict[str, Any] = {"device": {"type": "cpu", "api": "c"}}
TEXT = "dynamic { x: f32[3]; } volatile { y: f32[3]; } block entry { op add(x, x) >> y; return y; }"
MODEL = oi.Model.from_arrays({})


def files(synthesizer: oi.Synthesizer) -> dict[str, bytes]:
    return dict(synthesizer.synthesize(MODEL, TEXT).bundle.files)


@pytest.mark.parametrize("given", ["arch", "document", "path", "str"])
def test_from_arch_is_the_same_as_arch(tmp_path: Path, given: str) -> None:
    file = tmp_path / "device.json"
    file.write_text(json.dumps(DEVICE))
    arch = {"arch": oi.DeviceArch.load(DEVICE), "document": DEVICE, "path": file, "str": str(file)}[given]

    by_method, by_argument = oi.Synthesizer.from_arch(arch), oi.Synthesizer("c", arch=arch)

    assert by_method.target == by_argument.target == oi.Synthesizer(arch=arch).target == "c"
    assert files(by_method) == files(by_argument) == files(oi.Synthesizer("c"))


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_a_device_by_name(name: str) -> None:
    synthesis = oi.Synthesizer("c", arch=name).synthesize(MODEL, TEXT)
    arch = synthesis.plan.arch

    assert arch is not None
    assert (arch.api, arch.warnings) == ("c", ())
    assert f"{' '.join(FLAGS)} {' '.join(arch.compiler.flags)}".strip() in synthesis.bundle.files["Makefile"].decode()
    assert oi.Synthesizer(arch=name).target == "c"


def test_the_mock_limits_how_many_operators_a_step_carries_out() -> None:
    negated = " ".join("op neg(y) >> y;" for _ in range(14))
    text = f"dynamic {{ x: f32[3]; }} volatile {{ y: f32[3]; }} block entry {{ op exp(x) >> y; {negated} return y; }}"

    def ops(arch: str) -> list[int]:
        plan = oi.Synthesizer(arch=arch).plan(MODEL, text)
        return [len(step.origin.statements) for step in plan.procedures[-1].steps if step.origin.statements][:-1]

    assert ops("generic") == [15]
    assert len(ops("mock")) == 2
    assert max(ops("mock")) == 12


def test_without_a_device_source_is_that_of_the_generic_one() -> None:
    none, generic = files(oi.Synthesizer("c")), files(oi.Synthesizer("c", arch="generic"))

    assert set(none) == set(generic)
    # These name the device.
    assert {name for name in none if none[name] != generic[name]} == {"PROVENANCE.json", "sbom.spdx.json"}


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_the_host_runs_what_is_written_for_it() -> None:
    synthesis = oi.Synthesizer("c", arch="host").synthesize(MODEL, TEXT)

    assert synthesis.run({"x": np.ones(3, np.float32)}).outputs["y"].tolist() == [2.0, 2.0, 2.0]


def test_the_host_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(oi.OpenInferError, match="no C compiler found"):
        oi.Synthesizer("c", arch="host")


def test_unknown_names_are_refused_with_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(oi.SynthesisError, match=r"unknown device 'hots' \(for a file write './hots'\): did you"):
        oi.Synthesizer("c", arch="hots")
    with pytest.raises(oi.SynthesisError, match="there are generic, x86-64-v3, x86-64-v4, cortex-a, host"):
        oi.Synthesizer("c", arch="zzzzzzzzzzzz")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hots").write_text(json.dumps(DEVICE))
    assert oi.Synthesizer("c", arch="./hots").target == "c"


def test_targets_find_the_device_in_the_plan() -> None:
    arch = oi.DeviceArch.load({**DEVICE, "theirs": {"key": 1}})

    plan = oi.Synthesizer.from_arch(arch).synthesize(MODEL, TEXT).plan

    assert plan.arch is arch
    assert plan.arch.extra == {"theirs": {"key": 1}}


def test_warnings_about_the_device_are_those_of_the_synthesis() -> None:
    synthesizer = oi.Synthesizer.from_arch({**DEVICE, "theirs": {}})

    assert [found.code for found in synthesizer.synthesize(MODEL, TEXT).warnings] == ["unknown-field"]
    with pytest.raises(oi.SynthesisError, match="unknown section `theirs`"):
        synthesizer.synthesize(MODEL, TEXT, strict=True)


def test_another_target_than_that_of_the_device_is_refused() -> None:
    with pytest.raises(oi.SynthesisError, match="the device is for the synth target 'c', found 'vulkan'"):
        oi.Synthesizer("vulkan", arch=DEVICE)


def test_the_target_of_the_device_has_to_be_known() -> None:
    with pytest.raises(oi.SynthesisError, match="unknown synth target 'metal'") as caught:
        oi.Synthesizer.from_arch({"device": {"type": "cpu", "api": "metal"}})

    assert caught.value.code == "unknown-target"


def test_a_target_or_a_device_is_needed() -> None:
    with pytest.raises(TypeError, match="needs the name of a synth target, or arch"):
        oi.Synthesizer()


def test_a_program_has_to_fit_the_memory_of_the_device() -> None:
    text = "dynamic { x: f32[9]; } volatile { y: f32; } block entry { op cumsum(x, axis=0) >> x; op sum(x) >> y; }"
    needed = oi.Synthesizer("c").synthesize(MODEL, text).plan.arena_nbytes
    assert needed > 0

    def synthesise(nbytes: int) -> oi.Synthesizer:
        arch = {**DEVICE, "memory": {"global_bytes": nbytes}}
        return oi.Synthesizer.from_arch(arch).synthesize(MODEL, text)

    synthesise(needed)
    synthesise(0)
    with pytest.raises(oi.SynthesisError, match=rf"needs {needed} bytes \(0 of weights\), the device has {needed - 1}"):
        synthesise(needed - 1)


def test_persistent_variables_count_as_memory_of_the_device() -> None:
    text = "volatile { y: f32[9]; } persistent { s: f32[9]; } block entry { cache.read s >> y; return y; }"
    arch = {**DEVICE, "memory": {"global_bytes": 35}}

    with pytest.raises(oi.SynthesisError, match=r"needs 36 bytes \(0 of weights, 36 of persistent variables\)"):
        oi.Synthesizer.from_arch(arch).synthesize(MODEL, text)


def test_caches_of_more_than_a_gibibyte_are_warned_of() -> None:
    text = (
        "dynamic { x: f32; } persistent { n: i32; k(t): f32 @table; } block entry { cache.write x >> k[n]; return x; }"
    )

    made = oi.Synthesizer("c", limits={"t": 2**29}).plan(MODEL, text)
    with pytest.raises(oi.SynthesisError, match=r"persistent variables take 2\.0 GiB"):
        oi.Synthesizer("c", limits={"t": 2**29}).synthesize(MODEL, text, strict=True)

    assert made.state_nbytes == 4 + 4 * 2**29


def test_the_command_takes_a_device_file(tmp_path: Path) -> None:
    program, model, device = (tmp_path / name for name in ("p.oi", "m.oinf", "device.json"))
    program.write_text(TEXT)
    device.write_text(json.dumps(DEVICE))
    from openinfer.model import ModelContents, save_model

    save_model(ModelContents(sizevars={"n": 1}, metadata={}, tensors={}), model)
    arguments = ["synth", str(program), "--model", str(model), "-o", str(tmp_path / "out")]

    done = CliRunner().invoke(main, [*arguments, "--arch", str(device)])
    by_name = CliRunner().invoke(main, [*arguments, "--arch", "x86-64-v3"])
    assert (by_name.exit_code, "-march=x86-64-v3" in (tmp_path / "out" / "Makefile").read_text()) == (0, True)
    without = CliRunner().invoke(main, arguments)

    assert (done.exit_code, "written to" in done.output) == (0, True)
    assert (without.exit_code, "-march" in (tmp_path / "out" / "Makefile").read_text()) == (0, False)


@pytest.mark.parametrize("dtype", ["i32", "f32"])
def test_running_totals_of_rows_fit_the_registers_of_the_device(dtype: str) -> None:
    text = f"dynamic {{ x: {dtype}[8, 16]; }} block entry {{ op cumsum(x, axis=1) >> y; return y; }}"
    model = oi.Model.from_arrays({})

    synthesis = oi.Synthesizer(arch="cortex-m0plus").synthesize(model, oi.graph(text))

    assert synthesis.bundle
