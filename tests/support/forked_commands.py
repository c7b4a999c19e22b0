"""Commands in forks of one Python that has imported what they need: to start one takes ten times as long as a fork.

Each command is a process with its own streams, folder, environment and limits, as it is for a user. What tests say
about the start of the interpreter itself needs an interpreter of its own (`subprocess`).
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.testing.waiting import limit_s

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER = Path(__file__).with_name("fork_server.py")

LONGEST_REQUEST = 1 << 17


def run_forked(
    arguments: Sequence[str], directory: Path, *, text: str = "", merged: bool = False, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python ARGUMENTS`` and return its status and what it wrote.

    Args:
        arguments: of Python: ``-m MODULE …`` or ``-c SOURCE …``.
        text: its standard input.
        merged: have standard error written to standard output.
        timeout: seconds after which the process is ended; a minute by default.

    Raises:
        subprocess.TimeoutExpired: the process took longer.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error, tempfile.TemporaryFile() as input_:
        input_.write(text.encode())
        input_.seek(0)
        streams = [input_.fileno(), output.fileno(), (output if merged else error).fileno()]
        request = {"arguments": list(arguments), "directory": str(directory), "environment": dict(os.environ)}
        status = _answer(json.dumps(request).encode(), streams, timeout or limit_s(60))
        if status is None:
            raise subprocess.TimeoutExpired(list(arguments), timeout or limit_s(60))
        texts: list[str] = []
        for file in (output, error):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(arguments), status, texts[0], texts[1])


def _answer(request: bytes, streams: list[int], timeout: float) -> int | None:
    """Return the exit code of the process of a request, negative for a signal; None if it took longer."""
    server = _server()
    assert len(request) < LONGEST_REQUEST
    socket.send_fds(server, [f"{timeout:g} ".encode() + request], streams)
    answer = server.recv(64)
    assert answer, "the process that forks has ended"
    return json.loads(answer)


@cache
def _server() -> socket.socket:
    """Return a connection to the process that forks; it ends with the connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(SERVER), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            # A process with threads may not be forked: OpenBLAS starts some as it is imported.
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
        )
    atexit.register(_end, ours, process)
    return ours


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()
    process.wait()
