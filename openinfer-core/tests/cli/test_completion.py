"""`openinfer completion`: scripts for shells, and what they are answered."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from openinfer.cli import main


def answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str) -> set[str]:
    """Return what the script of bash gets for the last of some words."""
    monkeypatch.setenv("_OPENINFER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main.main([])
    return set(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("openinfer co", {"plain,compare", "plain,completion"}),
        ("openinfer run --state-", {"plain,--state-per"}),
        ("openinfer completion ", {"plain,bash", "plain,zsh", "plain,fish"}),
        ("openinfer run dig", {"file,dig"}),
        ("openinfer run digits.oi --model dig", {"file,dig"}),
        ("openinfer run --nothing", set[str]()),
    ],
)
def test_commands_options_and_files_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, expected: set[str]
) -> None:
    assert answers(monkeypatch, capsys, words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_valid_and_completes_openinfer(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell]).output

    assert f"_OPENINFER_COMPLETE={shell}_complete" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
