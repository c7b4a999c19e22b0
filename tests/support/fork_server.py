"""The process of `forked_commands`: `fork_server.py SOCKET` imports what commands need and forks for each request."""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from openinfer.plugins.environment import Environment

PRELOADED = (
    "numpy",
    "openinfer.cli.program",
    "openinfer.dsl.reading",
    "openinfer.plan.make_plan",
    "openinfer.simulate",
    "openinfer.simulate.simulator",
    "openinfer.synth",
    "openinfer_oinf.cli",
)
"""Modules that most commands need, which take half a second to import."""

LONGEST_REQUEST = 1 << 18


def serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Answer requests until the connection ends; return the request and streams of a fork, in that fork."""
    while True:
        message, streams, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
        if not message:
            return None
        timeout, _, request = message.partition(b" ")
        child = os.fork()
        if child == 0:
            connection.close()
            return json.loads(request), streams
        for stream in streams:
            os.close(stream)
        connection.send(json.dumps(waited_for(child, float(timeout))).encode())


def waited_for(child: int, timeout: float) -> int | None:
    """Return the exit code of a child; None if it took longer than its time and was ended."""
    opened = os.pidfd_open(child)
    signal.signal(signal.SIGALRM, lambda *_: signal.pidfd_send_signal(opened, signal.SIGKILL))
    until = time.monotonic() + timeout
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(opened)
    return os.waitstatus_to_exitcode(status) if time.monotonic() < until else None


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Give this process the streams, folder, environment and arguments of a request."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])


def run(arguments: list[str]) -> None:
    """Run what follows ``python`` on a command line."""
    warnings.resetwarnings()
    for hidden in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", hidden)
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        arguments = arguments[2:]
    option, name, *rest = arguments
    sys.path[0] = "" if option == "-c" else str(Path.cwd())
    if option == "-c":
        sys.argv = ["-c", *rest]
        exec(compile(name, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [name, *rest]
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    Environment.default()
    gc.freeze()
    forked = serve(connection)
    if forked is not None:
        request, streams = forked
        become(request, streams)
        run(request["arguments"])


if __name__ == "__main__":
    main()
