"""Plugins are found by entry point, in a defined order, also where an installation is damaged."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from openinfer.plugins import newer_core
from openinfer.plugins.discovery import installed
from openinfer.plugins.environment import Status
from openinfer.plugins.loader import load_environment


def install(folder: Path, distribution: str, entry_points: str, metadata: str | None = None) -> None:
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(f"[openinfer]\n{entry_points}\n", encoding="utf-8")
    text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n" if metadata is None else metadata
    (info / "METADATA").write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_core_comes_first_then_names_then_distributions(folder: Path) -> None:
    install(folder, "dist-b", "aaa = json")
    install(folder, "dist-a", "aaa = json\nzzz = json")

    found = [(candidate.distribution, candidate.name) for candidate in installed()]

    assert found[0] == ("openinfer-core", "core")
    assert [pair for pair in found if pair[0].startswith("dist-")] == [
        ("dist-a", "aaa"),
        ("dist-b", "aaa"),
        ("dist-a", "zzz"),
    ]


def test_finding_imports_nothing_and_knows_name_distribution_and_version(folder: Path) -> None:
    install(folder, "dist-a", "absent = no_such_module.plugin")

    (candidate,) = (c for c in installed() if c.name == "absent")

    assert (candidate.distribution, candidate.version, candidate.value) == ("dist-a", "1.0", "no_such_module.plugin")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("bad = no_such_module.plugin", "No module named 'no_such_module'"),
        ("bad = json:absent", "has no attribute 'absent'"),
        ("bad = json", "json does not set OPENINFER_API = 1"),
        ("bad = plugin_that_stops", "raised SystemExit: 5"),
        ("bad = plugin_that_warns", "raised UserWarning: old"),
        ("bad = plugin_that_is_no_python", "raised SyntaxError: '(' was never closed"),
    ],
)
def test_an_entry_point_that_cannot_be_loaded_is_a_failed_plugin(folder: Path, entry: str, reason: str) -> None:
    (folder / "plugin_that_stops.py").write_text("raise SystemExit(5)", encoding="utf-8")
    (folder / "plugin_that_warns.py").write_text("import warnings\nwarnings.warn('old')", encoding="utf-8")
    (folder / "plugin_that_is_no_python.py").write_text("OPENINFER_API = (", encoding="utf-8")
    install(folder, "dist-a", entry)

    (bad,) = (plugin for plugin in load_environment(allow=["bad"]).plugins if plugin.name == "bad")

    assert bad.status is Status.FAILED
    assert reason in bad.reason


@pytest.mark.parametrize("metadata", ["", "no header at all", None], ids=["empty", "rubbish", "absent"])
def test_a_damaged_installation_is_listed(folder: Path, metadata: str | None) -> None:
    install(folder, "dist-a", "damaged = json", metadata=metadata or "")
    if metadata is None:
        (folder / "dist_a-1.0.dist-info" / "METADATA").unlink()

    (damaged,) = (plugin for plugin in load_environment(allow=[]).plugins if plugin.name == "damaged")

    assert (damaged.distribution, damaged.version, damaged.status) == ("(unnamed)", "", Status.BLOCKED)


NEWER = (
    "from openinfer.plugin import DeviceSpec, hookimpl{extra}\nOPENINFER_API = 1\n@hookimpl\ndef openinfer_devices():\n"
)
NEWER += "    yield DeviceSpec(name='d', summary='s', probe='a:b', backend='a:B', expression_dtypes=None{field})\n"
REQUIRING = (
    "Metadata-Version: 2.1\nName: dist-a\nVersion: 1.0\nRequires-Dist: numpy\nRequires-Dist: openinfer-core>=9.5\n"
)


@pytest.mark.parametrize(
    ("extra", "field", "metadata", "reason"),
    [
        (
            "",
            ", telepathy=True",
            REQUIRING,
            "DeviceSpec has no field 'telepathy' in openinfer-core {}: needs openinfer-core >=9.5",
        ),
        ("", ", telepathy=True", None, "needs openinfer-core > {}, unless 'telepathy' is a mistake"),
        ("", ", telepathy=True", REQUIRING.replace(">=9.5", ">=0.1"), "needs openinfer-core > {}, unless"),
        ("", ", telepathy=True", REQUIRING.replace("-core>=9.5", "_core (>=9.5)"), "needs openinfer-core >=9.5"),
        ("", ", telepathy=True", REQUIRING.replace("core>=", "core-extras>="), "needs openinfer-core > {}, unless"),
        ("", ", fallbackk=None", REQUIRING, "DeviceSpec has no field 'fallbackk': did you mean `fallback`?"),
        (
            ", Telepathy",
            "",
            REQUIRING,
            "openinfer.plugin has no 'Telepathy' in openinfer-core {}: needs openinfer-core >=9.5",
        ),
    ],
)
def test_a_field_or_name_of_a_newer_core_says_which_core_the_plugin_needs(
    folder: Path, extra: str, field: str, metadata: str | None, reason: str
) -> None:
    (folder / "newer_plugin.py").write_text(NEWER.format(extra=extra, field=field), encoding="utf-8")
    install(folder, "dist-a", "newer = newer_plugin", metadata)

    environment = load_environment(allow=["newer"])
    sys.modules.pop("newer_plugin", None)

    (info,) = (info for info in environment.plugins if info.name == "newer")
    assert info.status is Status.FAILED
    assert reason.format(version("openinfer-core")) in info.reason


@pytest.mark.parametrize(
    ("required", "is_met"),
    [
        (">=0.2", True),
        (">=0.1,<0.3", True),
        (">0.2", False),
        ("~=0.2.0", True),
        ("~=0.1", True),
        ("~=0.1.5", False),
        ("==0.2.*", True),
        ("!=0.2.*", False),
        ("==0.2.0", True),
        (">=0.10", False),
        ("at least 1", False),
    ],
)
def test_a_requirement_is_compared_by_numbers(required: str, is_met: bool) -> None:
    assert newer_core._admits(required, "0.2") is is_met
