"""The command that installs a missing package where it is missing: in the environment of this interpreter."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

_PLAIN = re.compile(r"[\w./:\\+=@-]+")


def install_command(requirement: str) -> str:
    """Return a shell command that installs a package for the interpreter that runs this.

    The interpreter is named as shortly as the shell finds it: ``python`` in an active environment, else a path. An
    environment without pip of its own is filled by the pip of another interpreter. An extra of an installed package,
    such as ``openinfer-core[onnx]``, installs what it requires, also where the package comes from a checkout.

    Args:
        requirement: what pip takes, such as ``"openinfer-core[onnx]"``.
    """
    python = quoted(_interpreter())
    pip = f"{python} -m pip" if find_spec("pip") is not None else f"python3 -m pip --python {python}"
    return f"{pip} install {quoted(requirement)}"


def _interpreter() -> str:
    executable = Path(sys.executable or "python")
    first = shutil.which("python")
    if first is not None and Path(first) == executable:
        return "python"
    try:
        return str(executable.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(executable)


def quoted(word: str) -> str:
    """Return a word in double quotes, which all shells know, unless it needs none."""
    return word if _PLAIN.fullmatch(word) else f'"{word}"'
