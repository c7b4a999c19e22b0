"""Build systems of a bundle, and the files that say where it comes from."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.errors import SynthesisError
from openinfer.synth.proof import Proof
from openinfer_oinf import write_oinf
from openinfer_synth_c import project as project_module
from openinfer_synth_c.project import bundle_of

TEXT = """
dynamic { x: f32[3]; }
volatile { w: f32[3]; y: f32[3]; }
block entry { op mul(x, w) >> y; return y; }
"""
MODEL = oi.Model.from_arrays({"w": np.array([2, 4, 8], np.float32)})


def bundle(project=None, text=TEXT, model=MODEL, prefix="digits"):
    return oi.Synthesizer("c", prefix=prefix, project=project).synthesize(model, text).bundle


def written(directory, project):
    directory.mkdir()
    for name, data in bundle(project).files.items():
        (directory / name).write_bytes(data)
    return directory


def call(*command, cwd=None):
    found = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.parametrize(
    ("project", "files"),
    [
        ("make", {"Makefile"}),
        ("cmake", {"CMakeLists.txt"}),
        ("platformio", {"platformio.ini", "library.json"}),
        ("zephyr", {"zephyr/module.yml"}),
        ("arduino", {"library.properties"}),
        ("esp-idf", {"CMakeLists.txt", "idf_component.yml"}),
        ("cmsis-pack", {"OpenInfer.digits.pdsc"}),
    ],
)
def test_a_bundle_has_the_files_of_one_build_system(project, files):
    every = {"Makefile", "CMakeLists.txt", "platformio.ini", "library.json", "zephyr/module.yml"}
    every |= {"library.properties", "idf_component.yml", "OpenInfer.digits.pdsc"}
    made = bundle(project).files

    assert every & set(made) == files
    assert any(f"| `{name}` |".encode() in made["README.md"] for name in files)


@pytest.mark.parametrize(("project", "prefix"), [("make", "clean"), ("cmake", "install"), ("cmake", "m")])
def test_a_prefix_that_the_build_system_uses_is_refused(project, prefix):
    with pytest.raises(SynthesisError, match=f"the prefix '{prefix}' has a meaning for {project}"):
        bundle(project, prefix=prefix)

    other = "platformio" if project == "make" else "make"
    assert f"{prefix}.c" in bundle(other, prefix=prefix).files


def test_an_unknown_build_system_is_refused(tmp_path):
    with pytest.raises(SynthesisError, match="the project is 'ninja', expected one of make, cmake, platformio, zephyr"):
        bundle("ninja")


def test_the_command_takes_a_project(tmp_path):
    (tmp_path / "p.oi").write_text(TEXT)
    write_oinf({"w": np.array([2, 4, 8], np.float32)}, tmp_path / "m.oinf")
    arguments = ["synth", str(tmp_path / "p.oi"), "--model", str(tmp_path / "m.oinf"), "--target", "c"]

    found = CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "out"), "--project", "cmake"])

    assert found.exit_code == 0, found.output
    assert (tmp_path / "out" / "CMakeLists.txt").is_file()


USER = """
cmake_minimum_required(VERSION 3.13)
project(user C CXX)
find_package(digits REQUIRED)
add_executable(in_c use.c)
target_link_libraries(in_c PRIVATE digits::digits)
configure_file(use.c use.cpp COPYONLY)
add_executable(in_cplusplus ${CMAKE_CURRENT_BINARY_DIR}/use.cpp)
target_link_libraries(in_cplusplus PRIVATE digits::digits)
"""

USE = """
#include <digits.h>
#include <stdio.h>
static struct digits instance;
int main(void) {
    const float x[3] = {1.0f, 2.0f, 3.0f};
    float y[3];
    struct digits_inputs inputs;
    struct digits_outputs outputs;
    inputs.v_x = x;
    outputs.v_y = y;
    if (digits_init(&instance) != DIGITS_OK || digits_step(&instance, &inputs, &outputs) != DIGITS_OK) { return 1; }
    printf("%g %g %g", (double)y[0], (double)y[1], (double)y[2]);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_cmake_builds_and_installs_a_library_that_other_projects_find(tmp_path):
    source, build, prefix = written(tmp_path / "source", "cmake"), tmp_path / "build", tmp_path / "installed"
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    user = tmp_path / "user"
    user.mkdir()
    (user / "CMakeLists.txt").write_text(USER)
    (user / "use.c").write_text(USE)

    call("cmake", "-S", str(source), "-B", str(build), f"-DCMAKE_INSTALL_PREFIX={prefix}")
    call("cmake", "--build", str(build))
    call(str(build / "digits"), "--input", f"x={tmp_path / 'x.npy'}", "--output", f"y={tmp_path / 'y.npy'}")
    call("cmake", "--install", str(build))
    call("cmake", "-S", str(user), "-B", str(user / "build"), f"-DCMAKE_PREFIX_PATH={prefix}")
    call("cmake", "--build", str(user / "build"))

    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [2, 8, 24])
    assert (prefix / "share" / "digits" / "PROVENANCE.json").is_file()
    assert call(str(user / "build" / "in_c")) == "2 8 24"
    assert call(str(user / "build" / "in_cplusplus")) == "2 8 24"


def test_the_files_of_platformio_are_of_its_forms():
    files = bundle("platformio").files
    parser = configparser.ConfigParser()
    parser.read_string(files["platformio.ini"].decode())
    library = json.loads(files["library.json"])

    assert parser["env:native"]["build_src_filter"] == "+<main.c> +<digits.c>"
    assert "-ffp-contract=off" in parser["env:native"]["build_flags"].split()
    assert library["name"] == "digits"
    assert "-ffp-contract=off" in library["build"]["flags"]


@pytest.mark.skipif(shutil.which("pio") is None, reason="PlatformIO (pio) is not installed")
def test_platformio_reads_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path / "core"))

    assert "env:native" in call("pio", "project", "config", cwd=written(tmp_path / "out", "platformio"))
    assert "env:board" in call("pio", "project", "config", cwd=of_board(tmp_path / "board", "platformio"))


def test_provenance_has_the_digests_of_program_model_and_files():
    files = bundle().files
    document = json.loads(files["PROVENANCE.json"])

    assert document["generator"] == {"openinfer-core": oi.__version__, "openinfer-synth-c": oi.__version__}
    assert set(document["files"]) == set(files) - {"PROVENANCE.json", "sbom.spdx.json"}
    for name, entry in document["files"].items():
        assert entry == {"sha256": hashlib.sha256(files[name]).hexdigest(), "bytes": len(files[name])}
    (tensor,) = document["model"]["tensors"]
    assert tensor["sha256"] == hashlib.sha256(np.array([2, 4, 8], "<f4").tobytes()).hexdigest()
    assert "-ffp-contract=off" in document["flags"]
    assert document["licenses"]["npy.h"] == "Apache-2.0"


def test_equal_programs_have_equal_digests_and_others_do_not():
    def digests(text, weights=(2, 4, 8)):
        model = oi.Model.from_arrays({"w": np.array(weights, np.float32)})
        document = json.loads(bundle(text=text, model=model).files["PROVENANCE.json"])
        return document["program"]["sha256"], document["model"]["sha256"]

    program, model = digests(TEXT)

    assert digests(oi.graph(TEXT).to_dsl()) == (program, model)
    assert digests(TEXT.replace("mul", "add"))[0] != program
    assert digests(TEXT, (2, 4, 9)) == (program, digests(TEXT, (2, 4, 9))[1]) != (program, model)


def test_the_list_of_files_follows_spdx():
    files = bundle().files
    document = json.loads(files["sbom.spdx.json"])

    assert (document["spdxVersion"], document["SPDXID"]) == ("SPDX-2.3", "SPDXRef-DOCUMENT")
    assert {entry["fileName"] for entry in document["files"]} == {f"./{name}" for name in files} - {"./sbom.spdx.json"}
    for entry in document["files"]:
        data = files[Path(entry["fileName"]).name]
        sums = {each["algorithm"]: each["checksumValue"] for each in entry["checksums"]}
        assert sums["SHA256"] == hashlib.sha256(data).hexdigest()
        assert sums["SHA1"] == hashlib.sha1(data, usedforsecurity=False).hexdigest()
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", entry["SPDXID"])
    (package,) = document["packages"]
    sums = sorted(each["checksums"][0]["checksumValue"] for each in document["files"])
    code = hashlib.sha1("".join(sums).encode(), usedforsecurity=False).hexdigest()
    assert package["packageVerificationCode"]["packageVerificationCodeValue"] == code
    ids = {document["SPDXID"], package["SPDXID"], *(entry["SPDXID"] for entry in document["files"])}
    for each in document["relationships"]:
        assert {each["spdxElementId"], each["relatedSpdxElement"]} <= ids


def test_provenance_names_the_device():
    made = oi.Synthesizer(arch="cortex-m4").synthesize(MODEL, TEXT)
    document = json.loads(made.bundle.files["PROVENANCE.json"])

    assert document["device"] == made.plan.arch.name
    assert "-mcpu=cortex-m4" in document["flags"]


BOARD_READS = {"Makefile", "board.c", "board.ld", "sketch.c"}


def test_a_bundle_of_a_board_has_nothing_for_a_desk_machine():
    board, desk = (oi.Synthesizer(arch=arch).synthesize(MODEL, TEXT).bundle.files for arch in ("cortex-m4", "generic"))

    assert set(board) >= BOARD_READS
    assert not {"main.c", "npy.h"} & set(board)
    assert not BOARD_READS & set(desk) - {"Makefile"}
    assert "./model" not in board["README.md"].decode()
    assert "```sh\nmake\n./model" in desk["README.md"].decode()


@pytest.mark.parametrize("arch", ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m55", "rv32imc"])
@pytest.mark.parametrize("project", ["make", "cmake"])
def test_build_files_of_a_board_call_its_cross_compiler_alone(arch, project):
    files = oi.Synthesizer(arch=arch, project=project).synthesize(MODEL, TEXT).bundle.files
    text = b"".join(files[name] for name in files if name in ("Makefile", "CMakeLists.txt", "toolchain.cmake")).decode()
    prefix = "riscv64-unknown-elf-" if arch.startswith("rv") else "arm-none-eabi-"

    assert prefix in text
    assert not re.findall(r"CC [?:]?= *(?:cc|gcc|clang)\b", text)
    assert not re.search(r"(?<![-\w])(?:cc|gcc)\b", text.replace("$(CROSS)gcc", ""))


MISSING = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]
needs_board = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def of_board(directory, project):
    """Write the bundle of a program for a board: y is x times 2, 4 and 8."""
    oi.Synthesizer(arch="cortex-m4", project=project).synthesize(MODEL, TEXT).emit(directory)
    sketch = directory / "sketch.c"
    if sketch.exists():
        sketch.write_text(sketch.read_text().replace("input_0[3];", "input_0[3] = {1.0f, 0.5f, -0.25f};"))
    return directory


@needs_board
@pytest.mark.parametrize("project", ["make", "cmake"])
def test_a_project_of_a_board_is_built_and_run_by_its_own_tools(tmp_path, project):
    if shutil.which(project) is None:
        pytest.skip(f"{project} is not installed")
    folder, build = of_board(tmp_path / "out", project), tmp_path / "build"
    calls = {
        "make": [("make", "-C", str(folder), "run")],
        "cmake": [
            ("cmake", "-S", str(folder), "-B", str(build)),
            ("cmake", "--build", str(build), "--target", "run"),
        ],
    }

    ran = [
        subprocess.run(command, capture_output=True, text=True, timeout=300, check=True) for command in calls[project]
    ]

    logged = ran[-1].stdout + ran[-1].stderr
    assert "done\noutput 2000\noutput 2000\noutput -2000\n" in logged


STUBS = Path(__file__).parent / "stub_headers"
CROSS_FLAGS = (
    "-mcpu=cortex-m4",
    "-mthumb",
    "-mfloat-abi=hard",
    "-mfpu=fpv4-sp-d16",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-O1",
)


@needs_board
@pytest.mark.parametrize(
    ("project", "sketch", "headers"),
    [
        ("zephyr", "samples/infer/src/main.c", "zephyr"),
        ("arduino", "examples/infer/infer.ino", "arduino"),
        ("platformio", "examples/infer/main.cpp", "arduino"),
        ("esp-idf", "examples/infer/main/main.c", ""),
        ("cmsis-pack", "sketch.c", ""),
    ],
)
def test_the_sketch_of_a_framework_compiles_with_stub_headers(tmp_path, project, sketch, headers):
    folder = of_board(tmp_path / "out", project)
    include = ("-I", str(folder), *(("-I", str(STUBS / headers)) if headers else ()))
    is_plus = not sketch.endswith(".c")
    language = ("-x", "c++", "-std=gnu++17") if is_plus else ("-std=gnu11",)
    compiler = "arm-none-eabi-g++" if is_plus else "arm-none-eabi-gcc"

    call(compiler, *language, *CROSS_FLAGS, *include, "-c", "-o", str(tmp_path / "s.o"), str(folder / sketch))
    call("arm-none-eabi-gcc", "-std=gnu11", *CROSS_FLAGS, "-c", "-o", str(tmp_path / "m.o"), str(folder / "model.c"))

    readme = (folder / "README.md").read_text()
    assert "were never given to" in readme
    assert "/".join(sketch.split("/")[:2]) in readme


@needs_board
def test_a_library_of_arduino_fuses_nothing_without_flags(tmp_path):
    text = "dynamic { x: f32[8]; z: f32[8]; } block entry { op mul(x, z) >> p; op add(p, x) >> y; return y; }"

    def instructions(project):
        folder = tmp_path / project
        oi.Synthesizer(arch="cortex-m4", project=project).synthesize(oi.Model.from_arrays({}), text).emit(folder)
        return call("arm-none-eabi-gcc", *CROSS_FLAGS, "-O2", "-S", "-o", "-", str(folder / "model.c"))

    assert "vfma" in instructions("zephyr")
    assert "vfma" not in instructions("arduino")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.parametrize("project", ["zephyr", "arduino", "esp-idf", "cmsis-pack"])
def test_a_bundle_of_a_framework_without_a_board_is_verified_here(project):
    made = oi.Synthesizer("c", prefix="digits", project=project).synthesize(MODEL, TEXT)

    result = made.run({"x": np.array([1, 2, 3], np.float32)})

    np.testing.assert_array_equal(result.outputs["y"], [2, 8, 24])


@pytest.mark.parametrize(("project", "arch"), [("zephyr", None), ("arduino", "cortex-m4"), ("platformio", "rv32imc")])
def test_a_file_of_weights_is_refused_where_nothing_reads_files(project, arch):
    with pytest.raises(SynthesisError, match=f"programs of {project} read no files") as caught:
        oi.Synthesizer("c", arch=arch, project=project, weights="file").synthesize(MODEL, TEXT)

    assert "--weights embedded" in caught.value.diagnostics[0].hint


@pytest.mark.parametrize(("project", "name"), [("arduino", "extras/proof.c"), ("zephyr", "proof.c")])
def test_a_framework_that_compiles_every_source_gets_the_program_of_the_proof_apart(project, name):
    plan = oi.Synthesizer("c", project=project).synthesize(MODEL, TEXT).plan
    proof = Proof(analyser="A", version="1", options=("-eva",), form="as written", alarms=(), seconds=1.0)

    files = bundle_of(plan, proof).files

    assert [file for file in files if file.endswith("proof.c")] == [name]
    assert f"frama-c -eva {name}" in files["README.md"].decode()
    included = re.search(r'#include "(.*model\.c)"', files[name].decode())[1]
    assert os.path.normpath(Path(name).parent / included) == "model.c"


@pytest.mark.parametrize(("arch", "board"), [("cortex-m4", "genericSTM32F405RG"), ("rv32imac", None)])
def test_platformio_gets_a_board_where_one_of_the_core_is_known(arch, board):
    files = oi.Synthesizer("c", arch=arch, project="platformio").synthesize(MODEL, TEXT).bundle.files
    parser = configparser.ConfigParser()
    parser.read_string(files["platformio.ini"].decode())

    assert parser["env:board"].get("board") == board
    assert ("platform" in parser["env:board"]) == (board is not None)


def test_a_prefix_renames_nothing_in_files_that_are_not_c(monkeypatch):
    monkeypatch.setattr(project_module, "with_prefix", lambda text, _: f"renamed\n{text}")
    files = texts("cmake")

    assert not files["toolchain.cmake"].startswith("renamed")
    assert files["sketch.c"].startswith("renamed")


def texts(project):
    bundle = oi.Synthesizer(arch="cortex-m4", project=project, prefix="digits").synthesize(MODEL, TEXT).bundle
    return {name: data.decode() for name, data in bundle.files.items()}


def mapping_of(text):
    """Return the lines ``key: value`` of a flat or nested YAML file by their paths."""
    found, above = {}, []
    for line in filter(str.strip, text.splitlines()):
        depth, (key, _, value) = (len(line) - len(line.lstrip())) // 2, line.strip().partition(": ")
        above = [*above[:depth], key.rstrip(":")]
        found["/".join(above)] = value.strip('"')
    return found


def test_manifests_have_the_keys_of_their_forms():
    arduino = dict(line.split("=", 1) for line in texts("arduino")["library.properties"].splitlines())
    module = mapping_of(texts("zephyr")["zephyr/module.yml"])
    component = mapping_of(texts("esp-idf")["idf_component.yml"])

    # arduino.github.io/arduino-cli/latest/library-specification
    assert set(arduino) >= {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"}
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]*", arduino["name"])
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", arduino["version"])
    # docs.zephyrproject.org/latest/develop/modules.html
    assert module == {"name": "digits", "build": "", "build/cmake": "zephyr", "build/kconfig": "zephyr/Kconfig"}
    # docs.espressif.com/projects/idf-component-manager/en/latest/reference/manifest_file.html
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", component["version"])
    assert component["dependencies/idf"] == ">=5.0"


def test_every_file_that_a_manifest_names_is_in_the_bundle(tmp_path):
    zephyr, esp, pack = texts("zephyr"), texts("esp-idf"), texts("cmsis-pack")
    package = ET.fromstring(pack["OpenInfer.digits.pdsc"])

    if "OPENINFER_PACK_XSD" in os.environ:  # a path of Open-CMSIS-Pack's PACK.xsd
        (tmp_path / "digits.pdsc").write_text(pack["OpenInfer.digits.pdsc"])
        call("xmllint", "--noout", "--schema", os.environ["OPENINFER_PACK_XSD"], str(tmp_path / "digits.pdsc"))
    named = {file.attrib["name"] for file in package.iter("file")}
    assert named <= set(pack)
    assert {"digits.h", "digits.c", "sketch.c"} == named
    assert [child.tag for child in package] == ["vendor", "name", "description", "url", "releases", "components"]
    assert "zephyr_library_sources(../digits.c)" in zephyr["zephyr/CMakeLists.txt"]
    assert 'SRCS "digits.c"' in esp["CMakeLists.txt"]
    assert mapping_of(esp["examples/infer/main/idf_component.yml"])["dependencies/digits/path"] == "../../.."
