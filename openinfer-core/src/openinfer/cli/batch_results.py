"""Results of a batch in files: an archive for each input, or one for all. Each is there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import ExecutionError
from openinfer.regular_files import naming
from openinfer_oinf.staging import create_file, put_in_place, remove_abandoned

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    import numpy.typing as npt

    from openinfer.batch.answers import Outcome

    Array = npt.NDArray[Any]

INDEX = "batch.index"
"""Array of an archive of all results with the number of the input of each row; no variable can have this name."""

WRONG = "batch-output"

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of files in archives, so that the same results are the same bytes."""


class FolderResults:
    """One archive for each input that did not fail.

    Raises:
        ExecutionError: ``batch-output``, a result would take the place of an input.
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: str, stems: Sequence[str], read: Iterable[Path]) -> None:
        self._files = [Path(folder, f"{stem}.npz") for stem in stems]
        _keep_apart(self._files, read)
        Path(folder).mkdir(parents=True, exist_ok=True)
        remove_abandoned(Path(folder))

    def add(self, outcome: Outcome) -> None:
        """Save the outputs of an input."""
        if outcome.error is not None:
            return
        with written(self._files[outcome.index]) as stream, zipfile.ZipFile(stream, "w") as archive:
            for name, tensor in outcome.outputs.items():
                with _member(archive, name) as member:
                    np.lib.format.write_array(member, np.asarray(tensor.array), allow_pickle=False)

    def finish(self) -> None:
        """Everything is saved."""

    def close(self) -> None:
        """Nothing is open."""


class StackedResults:
    """One archive in which row i of every output is of the input ``batch.index[i]``; inputs that failed have none.

    Rows wait on disk until the last one has come.

    Raises:
        ExecutionError: ``batch-output``, the file is an input, or no archive by its name.
        OSError: its folder is not there.
    """

    def __init__(self, file: Path, names: Sequence[str], read: Iterable[Path]) -> None:
        if file.suffix != ".npz":
            message = f"{str(file)!r} is not an archive: --output NAME=FILE.npz takes the results of a whole batch"
            raise ExecutionError(message, code=WRONG)
        _keep_apart([file], read)
        if not file.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "There is no such folder to save results in", str(file.parent))
        remove_abandoned(file.parent)
        self._file = file
        self._rows = {name: _Rows(tempfile.TemporaryFile(dir=file.parent)) for name in names}  # noqa: SIM115 - `close`
        self._indices: list[int] = []

    def add(self, outcome: Outcome) -> None:
        """Keep the outputs of an input.

        Raises:
            ExecutionError: ``batch-output``, an output has another shape than that of the inputs before.
        """
        if outcome.error is not None:
            return
        for name, rows in self._rows.items():
            array = np.asarray(outcome.outputs[name].array)
            if not rows.fits(array):
                message = f"output `{name}` of {outcome.name} is {array.dtype} {list(array.shape)}, {rows.kind} before"
                raise ExecutionError(f"{message}: save outputs that differ with --output-dir", code=WRONG)
            with naming(self._file):
                rows.append(array)
        self._indices.append(outcome.index)

    def finish(self) -> None:
        """Write the archive, unless all inputs failed."""
        if not self._indices:
            return
        with written(self._file) as stream, zipfile.ZipFile(stream, "w") as archive:
            for name, rows in self._rows.items():
                with _member(archive, name) as member:
                    rows.write(member)
            with _member(archive, INDEX) as member:
                np.lib.format.write_array(member, np.array(self._indices, np.int64), allow_pickle=False)

    def close(self) -> None:
        """Let go of the rows."""
        for rows in self._rows.values():
            rows.stream.close()


class _Rows:
    """Arrays of one type and shape, one after the other in a file without a name."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self._first: Array | None = None
        self._count = 0

    def fits(self, array: Array) -> bool:
        first = self._first
        return first is None or (array.dtype, array.shape) == (first.dtype, first.shape)

    @property
    def kind(self) -> str:
        return "none" if self._first is None else f"{self._first.dtype} {list(self._first.shape)}"

    def append(self, array: Array) -> None:
        if self._first is None:
            self._first = array
        self.stream.write(array.tobytes())
        self._count += 1

    def write(self, target: IO[bytes]) -> None:
        first = self._first
        if first is None:
            return
        head = {
            "descr": np.lib.format.dtype_to_descr(first.dtype),
            "fortran_order": False,
            "shape": (self._count, *first.shape),
        }
        np.lib.format.write_array_header_1_0(target, head)
        self.stream.seek(0)
        shutil.copyfileobj(self.stream, target, 1 << 20)


@contextmanager
def written(file: Path) -> Generator[IO[bytes]]:
    """Open a file next to ``file`` that takes its place at the end; nothing is left of it after an error."""
    part, descriptor = create_file(file.parent, file.name)
    try:
        with naming(file), os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            put_in_place(part, stream, file)
    finally:
        part.unlink(missing_ok=True)


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True)


def _keep_apart(written_to: Iterable[Path], read: Iterable[Path]) -> None:
    taken = {file.resolve() for file in read}
    both = next((file for file in written_to if file.resolve() in taken), None)
    if both is not None:
        raise ExecutionError(f"{str(both)!r} is an input: save results elsewhere", code=WRONG)
