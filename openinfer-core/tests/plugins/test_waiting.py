"""Imports that hang and threads that outlive a command are named on standard error."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from given_plugins import load, plugin

from openinfer.plugins import waiting
from openinfer.plugins.crossing import Owner

THIRD = Owner("acme", "acme-tools")

BEAT = """
import threading, time
from openinfer.plugins import waiting
waiting.THREADS_S = 0.1
def beat():
    time.sleep(0.6)
with waiting.naming_threads_left():
    threading.Thread(target=beat, name="heart").start()
"""


def test_an_import_that_hangs_is_named_with_its_plugin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "IMPORT_S", 0.02)

    with waiting.naming_slow_import(THIRD, "import of acme.plugin", "acme.plugin"):
        time.sleep(0.3)

    said = capsys.readouterr().err
    assert "still waiting for plugin 'acme' of distribution acme-tools: import of acme.plugin has not ended" in said
    assert "OPENINFER_PLUGINS_BLOCK=acme" in said


def test_a_module_that_is_there_starts_no_thread_and_others_leave_none() -> None:
    before = {*threading.enumerate()}

    with waiting.naming_slow_import(THIRD, "import of json", "json"):
        within = {*threading.enumerate()}
    with waiting.naming_slow_import(THIRD, "import of acme", "acme"):
        while_imported = {*threading.enumerate()}

    assert within == before
    assert len(while_imported - before) == 1
    assert {*threading.enumerate()} == before


def test_an_import_that_ends_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    load(("good", plugin()))

    assert capsys.readouterr().err == ""


def test_a_thread_that_outlives_a_command_is_named_with_its_place(tmp_path: Path) -> None:
    program = tmp_path / "acme.py"
    program.write_text(BEAT, encoding="utf-8")

    finished = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)

    assert f"waits for thread 'heart' (beat, {program}:6)" in finished.stderr


def test_a_daemon_is_not_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "acme.py"
    program.write_text(BEAT.replace('name="heart"', "daemon=True"), encoding="utf-8")

    assert subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stderr == ""
