"""Files of the user: pipes and devices are not opened, sizes are bounded, and every error names its file."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from openinfer.regular_files import head_of, naming, open_regular, read_bounded, read_regular

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_regular(path) == b"12345"
    assert read_regular(str(path), 5) == b"12345"
    assert head_of(path, 2) == b"12"
    with pytest.raises(OSError, match="larger than") as caught:
        read_regular(path, 4)
    assert caught.value.filename == str(path)


@needs_pipes
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for read in (open_regular, read_regular, lambda pipe: head_of(pipe, 1)):
        with pytest.raises(OSError, match="found a pipe") as caught:
            read(path)
        assert caught.value.filename == str(path)


@needs_pipes
def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(Path, "stat", lambda _: os.stat(tmp_path / "file"))  # noqa: PTH116
    with pytest.raises(OSError, match="found a pipe"):
        open_regular(path)


def test_directories_and_devices_are_not_opened(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    if Path("/dev/zero").exists():
        with pytest.raises(OSError, match="found a device"):
            read_regular("/dev/zero")
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


def test_no_more_of_a_stream_is_read_than_its_limit() -> None:
    class Endless(io.RawIOBase):
        asked = 0

        def read(self, size: int = -1, /) -> bytes:
            assert size >= 0
            self.asked += size
            return bytes(size)

    stream = Endless()
    with pytest.raises(OSError, match="larger than"):
        read_bounded(stream, "<standard input>", 100)
    assert stream.asked == 101


@pytest.mark.parametrize(
    "raised", [OSError(errno.ENOSPC, "No space left on device"), OSError("512 requested and 0 written")]
)
def test_errors_get_the_name_of_their_file(raised: OSError) -> None:
    with pytest.raises(OSError, match=str(raised.strerror or raised)) as caught, naming("net.json"):
        raise raised
    assert caught.value.filename == "net.json"
    assert caught.value.errno is not None


def test_errors_that_name_a_file_keep_it() -> None:
    with pytest.raises(FileNotFoundError) as caught, naming("net.json"):
        raise FileNotFoundError(errno.ENOENT, "none", "other")
    assert caught.value.filename == "other"
