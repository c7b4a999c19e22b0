"""A worker process: the job on standard input, then requests; answers on standard output.

Each message starts with its length: 8 bytes, little-endian. The end of the input means that the parent has exited; it
ends the process, even a busy one, and what it started. This file runs as a script: nothing else of the package is
imported before the input is read.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
from queue import SimpleQueue
from typing import IO, Any, NoReturn

_LENGTH = struct.Struct("<Q")

LOST_PARENT = 1
"""Exit code of a worker whose answer nobody reads."""

GRACE_SECONDS = 1.0
"""How long a worker may take to end after its parent has exited, or after it was ordered to end."""


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write a message.

    Raises:
        OSError: nobody reads the other end.
    """
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None where the stream ends before its end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None


def main() -> int:
    """Serve one parent until it closes its end; return the exit code."""
    signal.signal(signal.SIGTERM, _leave)
    requests, answers = _channels()
    messages = SimpleQueue[bytes | None]()
    # Before anything that may hang: this thread ends the process when the parent has exited.
    threading.Thread(target=_receive, args=(requests, messages), daemon=True).start()
    from openinfer.batch.session import opened

    job = messages.get()
    if job is None:
        return 0
    session, answer = opened(job)
    if session is None:
        write_message(answers, answer)
        return 0
    try:
        write_message(answers, answer)
        while (request := messages.get()) is not None:
            write_message(answers, session.run(request))
    except BrokenPipeError:
        return LOST_PARENT
    finally:
        session.close()
    return 0


def _receive(requests: IO[bytes], messages: SimpleQueue[bytes | None]) -> None:
    """Hand on messages and, as None, their end; an input that is running at the end goes no further."""
    while (message := read_message(requests)) is not None:
        messages.put(message)
    messages.put(None)
    time.sleep(GRACE_SECONDS)
    _signal_group(signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    if sys.platform != "win32":
        _signal_group(signal.SIGKILL)
    os._exit(LOST_PARENT)


def _signal_group(number: signal.Signals) -> None:
    """Signal this process, and what it started where it leads a process group."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), number)
    else:
        signal.raise_signal(number)


def _channels() -> tuple[IO[bytes], IO[bytes]]:
    """Return private copies of standard input and output, whose own places take what libraries print."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _leave(*_: Any) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
