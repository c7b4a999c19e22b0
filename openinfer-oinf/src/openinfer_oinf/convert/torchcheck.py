"""Checks of a PyTorch file before the library reads it: what its pickles name, and whether its storages are there.

Nothing is built: whatever class or function a pickle names is stood in for by a class that does nothing, and a name
that state dicts have no use for is refused. The library then reads the file with a restricted unpickler of its own.
"""

from __future__ import annotations

import errno
import io
import mmap
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import IO, Any, cast

from ..errors import OinfError
from .model import source_error

_MODULES = ("torch", "collections", "_codecs")
_BUILTINS = ("set", "bytearray", "complex")
_LEGACY_PICKLES = 5  # magic number, version, platform, the object, the keys of its storages
# Hashing a tuple goes one level deeper into the processor's stack for each tuple inside.
_TUPLE_DEPTH = 64
_BROKEN = (
    *(pickle.UnpicklingError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, MemoryError),
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError),
)
# Bytes of an element, by the name of the class; an element of any other takes at least one.
_WIDTHS = {
    **dict.fromkeys(("ShortStorage", "HalfStorage", "BFloat16Storage"), 2),
    **dict.fromkeys(("IntStorage", "FloatStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("LongStorage", "DoubleStorage", "ComplexFloatStorage"), 8),
    "ComplexDoubleStorage": 16,
}


def check_torch(path: Path) -> None:
    """Raise `OinfError` (E_SOURCE) for a file that is packed, names what is unsafe, or lacks storages; `OSError`."""
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\3\4"
        _check_archive(path) if is_zip else _check_legacy(path)
    except OinfError:
        raise
    except _BROKEN as error:
        raise source_error(f"not a sound PyTorch file: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # zipfile seeks to where a damaged directory points, also before the start of the file.
        raise source_error("not a sound PyTorch file: its directory points outside it") from error


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise source_error("a packed or encrypted member, which the library never writes", member.filename)
        pickled = [member.filename for member in members if member.filename.endswith("/data.pkl")]
        if len(pickled) != 1:
            raise source_error(f"{len(pickled)} members called data.pkl where one is due")
        data = archive.read(pickled[0])
    folder = pickled[0].removesuffix("data.pkl") + "data/"
    sizes = {each.filename.removeprefix(folder): each.file_size for each in members}
    for key, nbytes in _storages(io.BytesIO(data)).items():
        if nbytes > sizes.get(key, -1):
            there = f"has {sizes[key]}" if key in sizes else "does not exist"
            raise source_error(f"storage {key} is to hold {nbytes} bytes, and {there}")


def _check_legacy(path: Path) -> None:
    size = path.stat().st_size
    if not size:
        raise source_error("not a sound PyTorch file: it is empty")
    # A mapping, not a file: reads of a size that a pickle only claims end where the file does.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        stream = cast("IO[bytes]", data)
        total = sum(sum(_storages(stream).values()) for _ in range(_LEGACY_PICKLES))
        if total > size - data.tell():
            raise source_error(f"the storages are to hold {total} bytes, and {size - data.tell()} are left for them")


def _storages(stream: IO[bytes]) -> dict[str, int]:
    """The bytes that each storage of the next pickle has to hold, by its key."""
    start = stream.tell()
    _check_tuples(stream)
    stream.seek(start)
    unpickler = _InertUnpickler(stream)
    unpickler.load()
    return unpickler.storages


def _check_tuples(stream: IO[bytes]) -> None:
    """Follow how deep tuples lie in one another, and that every length is within the pickle, without unpickling."""
    mark = -1
    stack: list[int] = []
    memo: dict[object, int] = {}
    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
            continue
        if name in ("GET", "BINGET", "LONG_BINGET", "DUP"):
            stack.append(stack[-1] if name == "DUP" else memo[argument])
            continue
        taken: list[int] = []
        before = opcode.stack_before
        if pickletools.markobject in before:
            while (top := stack.pop()) != mark:
                taken.append(top)
            before = before[: before.index(pickletools.markobject)]
        taken += [stack.pop() for _ in before]
        depth = 1 + max(taken, default=0) if name.startswith("TUPLE") else 0
        if depth > _TUPLE_DEPTH:
            raise source_error(f"tuples in one another, more than {_TUPLE_DEPTH} deep")
        stack += [mark if each is pickletools.markobject else depth for each in opcode.stack_after]


class _Inert:
    """Stands for any class or function: takes all arguments, all state and all items, and keeps none."""

    def __new__(cls, *_arguments: object, **_more: object) -> _Inert:
        return object.__new__(cls)

    def __init__(self, *_arguments: object, **_more: object) -> None: ...

    def __setstate__(self, _state: object) -> None: ...

    def __setitem__(self, _key: object, _value: object) -> None: ...

    def append(self, _item: object) -> None: ...

    def extend(self, _items: object) -> None: ...


# The one written in Python: the other makes room for as many memorised objects as a pickle says there are.
class _InertUnpickler(pickle._Unpickler):  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self.storages: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        known = module.split(".")[0] in _MODULES or (module in ("builtins", "__builtin__") and name in _BUILTINS)
        if not known:
            message = f"{module}.{name} refused by the restricted unpickler, which builds weights only"
            raise source_error(message)
        return type(name, (_Inert,), {})

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, count = pid[:5]
        if not isinstance(key, str) or not isinstance(count, int) or count < 0:
            raise source_error(f"{pid!r:.200} is no storage")
        nbytes = count * _WIDTHS.get(getattr(kind, "__name__", ""), 1)
        self.storages[key] = max(nbytes, self.storages.get(key, 0))
        return _Inert()
