"""What the wheels and sdists that `dist` built hold."""

import hashlib
import os
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

PACKAGES = {
    "openinfer-oinf": "openinfer_oinf",
    "openinfer-core": "openinfer",
    "openinfer-backend-cpu": "openinfer_backend_cpu",
    "openinfer-backend-vulkan": "openinfer_backend_vulkan",
    "openinfer-synth-c": "openinfer_synth_c",
}
# The container's two scripts are importable modules of their own, outside of the package.
TOP_LEVEL_MODULES = {"openinfer-oinf": {"dataclass_to_oinf.py", "verify_oinf.py"}}
ROOT = Path(__file__).resolve().parents[2]

if "OPENINFER_DIST" not in os.environ:
    pytest.skip("OPENINFER_DIST, the folder of built archives, is set by tox only", allow_module_level=True)

DIST = Path(os.environ["OPENINFER_DIST"])


def tracked_sources(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in files}


def wheel_names(name: str) -> list[str]:
    (path,) = DIST.glob(f"{name.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(path) as wheel:
        return wheel.namelist()


def sdist_names(name: str) -> set[str]:
    (path,) = DIST.glob(f"{name.replace('-', '_')}-*.tar.gz")
    with tarfile.open(path) as sdist:
        return {member.name.partition("/")[2] for member in sdist if member.isfile()}


def test_dist_holds_one_wheel_and_one_sdist_each() -> None:
    # One more: the distribution `openinfer`, which brings the others.
    assert len(list(DIST.glob("*.whl"))) == len(list(DIST.glob("*.tar.gz"))) == len(PACKAGES) + 1


def test_the_digest_of_every_archive_is_listed() -> None:
    lines = [line.split("  ") for line in (DIST / "SHA256SUMS").read_text(encoding="ascii").splitlines()]

    assert {name for _, name in lines} == {path.name for path in DIST.iterdir() if path.suffix in (".whl", ".gz")}
    assert all(hashlib.sha256((DIST / name).read_bytes()).hexdigest() == digest for digest, name in lines)


def test_the_meta_distribution_holds_no_code() -> None:
    assert [path for path in wheel_names("openinfer") if ".dist-info/" not in path] == []
    assert {"README.md", "CHANGELOG.md", "pyproject.toml"} <= sdist_names("openinfer")


@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_a_wheel_holds_the_whole_package_and_nothing_else(name: str, package: str) -> None:
    code = {path for path in wheel_names(name) if ".dist-info/" not in path}

    expected = {f"{package}/{path}" for path in tracked_sources(ROOT / name / "src" / package)}
    assert code == expected | TOP_LEVEL_MODULES.get(name, set())
    assert f"{package}/py.typed" in code


@pytest.mark.parametrize("name", PACKAGES)
def test_an_sdist_holds_sources_tests_readme_and_changelog(name: str) -> None:
    names = sdist_names(name)

    assert {"README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO"} <= names
    assert {f"tests/{path}" for path in tracked_sources(ROOT / name / "tests")} <= names
    assert {f"src/{path}" for path in tracked_sources(ROOT / name / "src")} <= names


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_metadata_carries_licence_and_readme(name: str) -> None:
    (path,) = DIST.glob(f"{name.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(path) as wheel:
        (metadata,) = (entry for entry in wheel.namelist() if entry.endswith(".dist-info/METADATA"))
        message = Parser().parsestr(wheel.read(metadata).decode("utf-8"))

    assert message["License-Expression"] == "Apache-2.0"
    assert message.get_payload().startswith(f"# {name}")
