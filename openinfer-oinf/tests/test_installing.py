"""Commands that install what is missing work in the shell of the interpreter that prints them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from openinfer_oinf import installing
from openinfer_oinf.installing import install_command


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the current one, with an interpreter in `.venv/bin` that has pip."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(
        installing, "find_spec", lambda name: importlib.util.find_spec("sys") if name == "pip" else None
    )
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_active_environment_is_called_python(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(environment / ".venv" / "bin"))
    assert install_command("openinfer-core[onnx]") == 'python -m pip install "openinfer-core[onnx]"'


def test_an_environment_that_is_not_active_is_named_by_its_path(environment: Path, monkeypatch) -> None:
    assert install_command("pygls") == ".venv/bin/python -m pip install pygls"
    (environment / "elsewhere").mkdir()
    monkeypatch.chdir(environment / "elsewhere")
    assert install_command("pygls") == f"{environment}/.venv/bin/python -m pip install pygls"


def test_an_environment_without_pip_is_filled_by_another(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda _: None)
    assert install_command("pygls") == "python3 -m pip --python .venv/bin/python install pygls"


def test_a_path_with_a_space_is_quoted(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(environment / "a b" / "python"))
    assert install_command("pygls") == '"a b/python" -m pip install pygls'


def test_the_printed_command_runs_the_pip_that_installs_here(tmp_path: Path) -> None:
    program = "from openinfer_oinf.installing import install_command; print(install_command('numpy'))"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout.strip()
    # Numpy is there, so that nothing is fetched: pip says where it found it.
    finished = subprocess.run(
        f"{printed} --no-index --dry-run", shell=True, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if "No module named pip" in finished.stderr:
        pytest.skip("neither this interpreter nor python3 has pip")
    assert "Requirement already satisfied: numpy" in finished.stdout, finished.stderr
