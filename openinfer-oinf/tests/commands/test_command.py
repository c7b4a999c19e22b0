"""The `oinf` command: output, exit codes, and imports."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest

from openinfer_oinf import TensorSpec, UninitializedTensor, write_oinf
from openinfer_oinf.cli import build_parser, main


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "m.oinf"
    tensors = {"W.0": TensorSpec(np.ones((2, 3)), dtype="f32"), "cache": UninitializedTensor("f16", (4,))}
    write_oinf({"sizevars": {"B": 4}, "mode": "fast", "tensors": tensors}, target)
    return target


@pytest.fixture
def broken(path):
    blob = path.read_bytes()
    (path.parent / "broken.oinf").write_bytes(blob[:9] + b"\1" + blob[10:])
    return path.parent / "broken.oinf"


def test_verify_prints_the_text_form(path, capsys):
    assert main(["verify", str(path), "--no-stats"]) == 0
    assert capsys.readouterr().out.startswith('B := 4\n\nmode: str = "fast"\n\nW.0: f32[2, 3] = { \n')


@pytest.mark.parametrize("options", [[], ["--no-stats"], ["--compat"]])
def test_verify_ends_with_a_verdict_on_each_valid_file(path, capsys, options):
    other = path.with_name("other.oinf")
    other.write_bytes(path.read_bytes())
    invalid = path.with_name("absent.oinf")
    main(["verify", *options, str(path), str(invalid), str(other)])
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.endswith(": valid")] == [f"{path}: valid", f"{other}: valid"]
    assert out.endswith(f"\n{other}: valid\n")


def test_verify_in_the_style_of_the_reference_has_its_lines_only(path, capsys):
    assert main(["verify", "--style", "reference", str(path)]) == 0
    assert "valid" not in capsys.readouterr().out


def test_verify_json(path, broken, capsys):
    assert main(["verify", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["valid"] is True
    assert main(["verify", "--json", str(broken)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["valid"] is False
    assert report["findings"][0]["code"] == "E_HEADER_FLAGS"
    assert report["findings"][0]["offset"] == 9


def test_verify_goes_on_after_an_invalid_file(path, broken, capsys):
    assert main(["verify", str(broken), str(path)]) == 1
    captured = capsys.readouterr()
    assert "E_HEADER_FLAGS" in captured.err
    assert "W.0" in captured.out


@pytest.mark.parametrize("missing", ["absent.oinf", "."])
def test_a_path_that_is_not_a_file_is_wrong_input_whatever_the_command(path, missing, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = str(tmp_path / "out.oinf")
    commands = [
        ["verify", missing],
        ["verify", "--json", missing],
        ["inspect", missing],
        ["hash", missing],
        ["extract", missing, "W.0", "-o", out],
        ["convert", missing, out],
        ["quantize", missing, out],
        ["upgrade", missing, out],
        ["canonicalize", missing, out],
        ["salvage", missing, out],
    ]
    for command in commands:
        assert main(command) == 1, command
        assert "".join(capsys.readouterr()), command


def test_verify_reports_all_files(path, broken, capsys):
    assert main(["verify", "absent.oinf", str(broken), str(path)]) == 1
    captured = capsys.readouterr()
    assert "absent.oinf" in captured.err
    assert "E_HEADER_FLAGS" in captured.err
    assert "W.0" in captured.out


def test_a_target_that_cannot_be_written_is_reported_with_those_that_can(path, capsys):
    assert main(["convert", str(path), str(path.with_suffix(".h5"))]) == 2
    assert "not written; .oinf, .npz, .safetensors are" in capsys.readouterr().err
    assert main(["convert", str(path), str(path.with_name("again.oinf"))]) == 1
    assert "can be converted to .npz, .safetensors" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["w.npy", "w.gguf", "W.PT", "w.h5"])
def test_no_container_is_written_under_the_name_of_another_format(name, tmp_path, capsys):
    np.save(tmp_path / "source.npy", np.ones(3, np.float32))
    assert main(["convert", str(tmp_path / "source.npy"), str(tmp_path / name)]) == 2
    assert "E_USAGE" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["source.npy"]


def test_only_containers_become_other_formats(tmp_path, capsys):
    np.save(tmp_path / "source.npy", np.ones(3, np.float32))
    assert main(["convert", str(tmp_path / "source.npy"), str(tmp_path / "target.npz")]) == 1
    assert "source.npy is not a container" in (message := capsys.readouterr().err)
    assert "convert it to .oinf first" in message


@pytest.mark.parametrize(
    "option",
    [
        *(["--rename", "a=b"], ["--dtype", "*=f16"], ["--sizevar", "N=1"], ["--meta", "k=v"], ["--align", "64"]),
        *(["--raw"], ["--exact-blocks"], ["--skip-unsupported"], ["--checksums"], ["--allow-case-collisions"]),
        *(["--from", "npz"], ["--unpacked-limit", "5"]),
    ],
    ids=lambda option: option[0],
)
def test_options_of_the_other_direction_are_not_ignored(option, path, capsys):
    target = path.with_name("target.npz")
    assert main(["convert", str(path), str(target), *option]) == 2
    assert f"{option[0]} has no effect" in capsys.readouterr().err
    assert not target.exists()


def test_dequantize_is_for_containers(tmp_path, capsys):
    np.save(tmp_path / "source.npy", np.ones(3, np.float32))
    assert main(["convert", str(tmp_path / "source.npy"), str(tmp_path / "t.oinf"), "--dequantize"]) == 2
    assert "--dequantize has no effect" in capsys.readouterr().err


def test_compat_accepts_with_a_warning(broken, capsys):
    assert main(["verify", "--compat", str(broken)]) == 0
    assert "W_HEADER_FLAGS" in capsys.readouterr().err


def test_inspect_lists_the_index(path, capsys):
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "oinf version 2: 1 sizevars, 1 metadata, 2 tensors" in text
    assert "  W.0    f32  [2, 3]  24 B\n" in text
    assert "  cache  f16  [4]     no data\n" in text


def test_inspect_offsets_and_names(path, capsys):
    assert main(["inspect", "--offsets", str(path), "W.0"]) == 0
    text = capsys.readouterr().out
    assert "header    0..72" in text
    assert "cache" not in text
    assert main(["inspect", str(path), "W.1"]) == 1
    assert capsys.readouterr().err == "error[E_ABSENT]: no tensor 'W.1'; did you mean `W.0`?\n"


def test_inspect_json(path, capsys):
    assert main(["inspect", "--json", str(path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [tensor["name"] for tensor in data["tensors"]] == ["W.0", "cache"]
    assert data["sections"]["sizevars"] == 72
    assert data["metadata"]["mode"]["value"] == "fast"


def test_inspect_of_an_invalid_file(broken, capsys):
    assert main(["inspect", str(broken)]) == 1
    assert "E_HEADER_FLAGS" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_files_that_cannot_be_read(command, tmp_path, capsys):
    assert main([command, str(tmp_path / "absent")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["verify"], ["verify", "--frob", "x"]])
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: oinf" in capsys.readouterr().err


def test_every_option_says_what_it_does():
    (commands,) = [each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    options = [o for parser in commands.choices.values() for o in parser._actions if o.option_strings]
    assert len(options) > 30
    assert [option.option_strings for option in options if not option.help] == []


def test_python_minus_m(path):
    command = [sys.executable, "-m", "openinfer_oinf", "inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "W.0" in done.stdout


@pytest.mark.parametrize(
    "statement", ["import openinfer_oinf", "import openinfer_oinf.errors", "import openinfer_oinf.cli"]
)
def test_importing_is_light(statement):
    code = f"import sys; {statement}; print(sorted({{'numpy', 'openinfer', 'ml_dtypes'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_can_be_had():
    import openinfer_oinf

    for name in openinfer_oinf.__all__:
        assert getattr(openinfer_oinf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = openinfer_oinf.absent


@pytest.mark.parametrize("arguments", [["inspect"], ["extract", "-o", "w.npy"]], ids=lambda words: words[0])
def test_a_name_that_the_file_lacks_is_an_error_of_its_own(path, capsys, arguments):
    command, *options = arguments
    assert main([command, str(path), "nope", "--json", *options]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "E_ABSENT"


def test_a_mistake_in_a_command_is_no_usage_error(path, monkeypatch):
    def fail(*_, **__):
        return {}["absent"]

    monkeypatch.setattr("openinfer_oinf.inspection.inspect_text", fail)
    with pytest.raises(KeyError, match="absent"):
        main(["inspect", str(path)])
