"""All distributions have one version and pin one another to it, require nothing they should not, and have metadata."""

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


META = "openinfer-meta"
"""The folder of the distribution `openinfer`, which requires the others and holds no code."""


def project(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_workspace_has_exactly_these_five_and_the_one_that_brings_them() -> None:
    assert sorted(path.parent.name for path in ROOT.glob("*/pyproject.toml")) == sorted([*NAMES, META])
    assert [project(name)["name"] for name in NAMES] == list(NAMES)
    assert project(META)["name"] == "openinfer"


def test_the_meta_distribution_brings_core_container_cpu_and_c_and_the_rest_by_extras() -> None:
    metadata = project(META)
    version = metadata["version"]

    assert set(metadata["dependencies"]) == {f"{name}=={version}" for name in set(NAMES) - {"openinfer-backend-vulkan"}}
    extras = metadata["optional-dependencies"]
    assert extras.pop("all") == [f"openinfer[{','.join(extras)}]"]
    assert extras == {
        "vulkan": [f"openinfer-backend-vulkan=={version}"],
        **{extra: [f"openinfer-core[{extra}]=={version}"] for extra in ("onnx", "ray")},
    }
    assert {"onnx", "ray"} <= set(project("openinfer-core")["optional-dependencies"])


def test_versions_agree_and_are_of_our_line() -> None:
    (version,) = {project(name)["version"] for name in (*NAMES, META)}

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


@pytest.mark.parametrize("name", [*NAMES, META])
def test_what_all_have_in_common(name: str) -> None:
    metadata = project(name)

    assert metadata["requires-python"] == ">=3.11"
    assert metadata["license"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata["classifiers"]
    assert {"inference", "machine learning"} <= set(metadata["keywords"])
    assert metadata["urls"] == project("openinfer-core")["urls"]
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(metadata["urls"])


@pytest.mark.parametrize("name", [*NAMES, META])
def test_classifiers_name_every_python_that_ci_runs(name: str) -> None:
    environments = re.findall(r"^    py3(\d+)$", (ROOT / "tox.ini").read_text(encoding="utf-8"), re.MULTILINE)
    supported = {f"Programming Language :: Python :: 3.{minor}" for minor in environments}
    named = [text for text in project(name)["classifiers"] if re.search(r"3\.\d+$", text)]

    assert len(supported) > 1
    assert set(named) == supported


@pytest.mark.parametrize("name", NAMES)
def test_each_of_the_five_is_a_plugin(name: str) -> None:
    assert len(project(name)["entry-points"]["openinfer"]) == 1


def test_the_import_contract_keeps_backends_from_each_front_end_that_exists() -> None:
    # import-linter refuses to name a module that does not exist, so the contract cannot list all three in advance.
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in workspace["tool"]["importlinter"]["contracts"] if c["id"] == "backends-below")
    core = ROOT / "openinfer-core" / "src" / "openinfer"

    existing = {f"openinfer.{name}" for name in ("cli", "dsl", "serialize") if (core / name / "__init__.py").exists()}

    assert set(contract["forbidden_modules"]) == existing
