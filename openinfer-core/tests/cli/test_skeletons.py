"""`openinfer plugins new`: packages of every kind of part, which load as they are written."""

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from given_plugins import info, load

from openinfer.cli import main
from openinfer.cli.skeletons import kinds, package
from openinfer.errors import OpenInferError


def written(folder: Path, name: str, *kind: str) -> Path:
    arguments = [word for one in kind for word in ("--kind", one)]
    finished = CliRunner().invoke(main, ["plugins", "new", name, *arguments, "-o", str(folder)])
    assert finished.exit_code == 0, finished.output
    assert f'next: pip install -e "{folder / name}[test]", then pytest {folder / name}' in finished.output
    return folder / name


@pytest.mark.parametrize("kind", kinds())
def test_a_package_of_one_kind_loads_and_offers_what_its_hooks_yield(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path, f"acme-{kind}", kind)
    monkeypatch.syspath_prepend(folder / "src")
    plugin = importlib.import_module(f"acme_{kind}.plugin")

    environment = load((f"acme_{kind}", plugin))

    assert info(environment, f"acme_{kind}").reason == ""
    assert [owner for owner in environment.providers.values() if owner == f"acme_{kind}"]
    assert {name for name in vars(plugin) if name.startswith("openinfer_")} == {h.hook for h in kinds()[kind].hooks}
    assert (folder / "tests" / "test_plugin.py").is_file()


def test_kinds_share_a_hook_and_the_kit_tests_their_operators() -> None:
    files = package("acme-tools", [kinds()["compute"], kinds()["reduction"]])

    assert files["src/acme_tools/plugin.py"].count("def openinfer_ops()") == 1
    assert "    yield COMPUTE\n    yield REDUCTION\n" in files["src/acme_tools/plugin.py"]
    assert "--openinfer-op acme_tools_outer_product --openinfer-op acme_tools_peak" in files["tox.ini"]
    assert not [path for path, text in files.items() if "plugin_name" in path + text or "plugin-name" in path + text]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Acme", "expected the name of a distribution"),
        ("../acme", "expected the name of a distribution"),
        ("json", "'json' is a name of Python or OpenInfer"),
        ("numpy", "a module 'numpy' is installed"),
        ("openinfer-more", "'openinfer_more' is a name of Python or OpenInfer"),
        ("class", "'class' is a name of Python or OpenInfer"),
    ],
)
def test_a_name_that_is_not_one_of_a_package_is_refused(name: str, said: str) -> None:
    with pytest.raises(OpenInferError, match=said):
        package(name, [])


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()

    finished = CliRunner().invoke(main, ["plugins", "new", "acme", "--kind", "pass", "-o", str(tmp_path)])

    assert finished.exit_code == 1
    assert "File exists" in finished.stderr
    assert list((tmp_path / "acme").iterdir()) == []


def test_kinds_are_listed_and_a_misspelt_one_gets_a_hint() -> None:
    listed = CliRunner().invoke(main, ["plugins", "new", "--list"])
    misspelt = CliRunner().invoke(main, ["plugins", "new", "acme", "--kind", "reducton"])

    assert {line.split()[0] for line in listed.output.splitlines()[1:]} == set(kinds())
    assert misspelt.exit_code == 2
    assert "unknown kind 'reducton': did you mean `reduction`?" in misspelt.stderr
