"""The five distributions have one version, pin one another to it, and require nothing they should not."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "openinfer-backend-cpu",
    "openinfer-backend-vulkan",
    "openinfer-core",
    "openinfer-oinf",
    "openinfer-synth-c",
)
# The table of packages in the architecture: what each may require of the other four.
REQUIRES_OF_OURS = {
    "openinfer-oinf": set(),
    "openinfer-core": {"openinfer-oinf"},
    "openinfer-backend-cpu": {"openinfer-core"},
    "openinfer-backend-vulkan": {"openinfer-core"},
    "openinfer-synth-c": {"openinfer-core"},
}


def project(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_workspace_has_exactly_these_five() -> None:
    assert sorted(path.parent.name for path in ROOT.glob("*/pyproject.toml")) == list(NAMES)
    assert [project(name)["name"] for name in NAMES] == list(NAMES)


def test_versions_agree_and_are_of_our_line() -> None:
    (version,) = {project(name)["version"] for name in NAMES}

    major, minor = version.split(".")[:2]
    assert (int(major), int(minor)) >= (0, 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_package_says_the_version_of_its_project(name: str) -> None:
    (source,) = (ROOT / name / "src").glob("*/__init__.py")

    (said,) = re.findall(r'^__version__ = "(.+)"$', source.read_text(encoding="utf-8"), re.MULTILINE)

    assert said == project(name)["version"]


@pytest.mark.parametrize("name", NAMES)
def test_requirements_on_each_other_are_exact_pins(name: str) -> None:
    version = project("openinfer-core")["version"]
    ours = [requirement for requirement in project(name)["dependencies"] if requirement.startswith("openinfer-")]

    assert sorted(ours) == [f"{required}=={version}" for required in sorted(REQUIRES_OF_OURS[name])]


@pytest.mark.parametrize("name", NAMES)
def test_what_all_five_have_in_common(name: str) -> None:
    metadata = project(name)

    assert metadata["requires-python"] == ">=3.11"
    assert metadata["license"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata["classifiers"]
    assert len(metadata["entry-points"]["openinfer"]) == 1


def test_the_import_contract_keeps_backends_from_each_front_end_that_exists() -> None:
    # import-linter refuses to name a module that does not exist, so the contract cannot list all three in advance.
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in workspace["tool"]["importlinter"]["contracts"] if c["id"] == "backends-below")
    core = ROOT / "openinfer-core" / "src" / "openinfer"

    existing = {f"openinfer.{name}" for name in ("cli", "dsl", "serialize") if (core / name / "__init__.py").exists()}

    assert set(contract["forbidden_modules"]) == existing
