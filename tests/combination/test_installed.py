"""What is installed is what was requested, from our own wheels: the files of the wheels that this run built."""

import base64
import csv
import hashlib
import importlib
import io
import os
import re
import subprocess
import sysconfig
import zipfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

FIVE = {
    "openinfer-oinf": "openinfer_oinf",
    "openinfer-core": "openinfer",
    "openinfer-backend-cpu": "openinfer_backend_cpu",
    "openinfer-backend-vulkan": "openinfer_backend_vulkan",
    "openinfer-synth-c": "openinfer_synth_c",
}

if "OPENINFER_COMBINATION" not in os.environ:
    pytest.skip("OPENINFER_COMBINATION is set by tox only", allow_module_level=True)

COMBINATION = os.environ["OPENINFER_COMBINATION"].split()


def ours_installed() -> dict[str, Distribution]:
    found = {distribution.name: distribution for distribution in distributions()}
    return {name: found[name] for name in FIVE if name in found}


def wheel_of(name: str) -> zipfile.ZipFile:
    (path,) = Path(os.environ["OPENINFER_DIST"]).glob(f"{name.replace('-', '_')}-*.whl")
    return zipfile.ZipFile(path)


def recorded_hashes(wheel: zipfile.ZipFile) -> dict[str, str]:
    """Path to `sha256=...` for every file of a wheel, from its own RECORD."""
    (record,) = (name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
    rows = csv.reader(io.StringIO(wheel.read(record).decode("utf-8")))
    return {path: digest for path, digest, _size in rows if digest}


def hash_of(path: Path) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=")
    return f"sha256={digest.decode('ascii')}"


def test_exactly_the_combination_is_installed() -> None:
    assert sorted(ours_installed()) == sorted(COMBINATION)


@pytest.mark.parametrize("name", COMBINATION)
def test_the_version_is_of_our_line(name: str) -> None:
    version = ours_installed()[name].version

    # 0.1.0 and 0.1.1 of openinfer-oinf on the public index are not ours.
    assert tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", version).groups()) >= (0, 2)


@pytest.mark.parametrize("name", COMBINATION)
def test_every_installed_file_is_the_one_in_our_wheel(name: str) -> None:
    distribution = ours_installed()[name]
    expected = recorded_hashes(wheel_of(name))

    installed = {path: hash_of(Path(str(distribution.locate_file(path)))) for path in expected}

    assert installed == expected


@pytest.mark.parametrize("name", COMBINATION)
def test_no_foreign_file_sits_in_the_package(name: str) -> None:
    folder = Path(str(ours_installed()[name].locate_file(FIVE[name])))
    present = {path.relative_to(folder.parent).as_posix() for path in folder.rglob("*") if path.is_file()}
    present = {path for path in present if "__pycache__" not in path}

    assert present == {path for path in recorded_hashes(wheel_of(name)) if path.startswith(f"{FIVE[name]}/")}


@pytest.mark.parametrize("name", COMBINATION)
def test_the_package_imports_and_says_its_version(name: str) -> None:
    assert importlib.import_module(FIVE[name]).__version__ == ours_installed()[name].version


def test_a_package_outside_the_combination_cannot_be_imported() -> None:
    for name in set(FIVE) - set(COMBINATION):
        with pytest.raises(ModuleNotFoundError, match=FIVE[name]):
            importlib.import_module(FIVE[name])


@pytest.mark.parametrize("name", COMBINATION)
def test_every_declared_command_answers_help(name: str) -> None:
    for entry_point in ours_installed()[name].entry_points.select(group="console_scripts"):
        command = Path(sysconfig.get_path("scripts"), entry_point.name)
        finished = subprocess.run([command, "--help"], capture_output=True, text=True, timeout=600, check=False)
        assert finished.returncode == 0, finished.stderr
        assert "usage:" in finished.stdout.lower()
