"""Checks of a PyTorch file before the library reads it: what its pickles name, and whether its storages are there.

Nothing is built: whatever class or function a pickle names is replaced by a class that does nothing, and a name
that state dicts have no use for is refused. The library then reads the file with a restricted unpickler of its own.
"""

from __future__ import annotations

import errno
import io
import mmap
import pickle
import zipfile
from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from typing import IO, Any, ClassVar, cast

from ..errors import OinfError
from .model import source_error
from .picklework import Keys, Work, check_pickle

_MODULES = ("torch", "collections", "_codecs")
_BUILTINS = ("set", "bytearray", "complex")
_LEGACY_PICKLES = 5  # magic number, version, platform, the object, the keys of its storages
# Classes that hash what they are made from: whether they take pairs of a key and a value.
_TABLES = {"set": False, "frozenset": False, "Counter": False, "dict": True, "OrderedDict": True, "defaultdict": True}
_BYTES = ("bytearray", "encode")
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
    """Raise `OinfError` (E_SOURCE) for a file that is packed, names what is unsafe, or has no storages; `OSError`."""
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
                raise source_error("a compressed or encrypted member, which the library never writes", member.filename)
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
    work = check_pickle(stream)
    stream.seek(start)
    unpickler = _InertUnpickler(stream, work)
    unpickler.load()
    return unpickler.storages


class _Inert:
    """Stands for any class or function: takes all arguments, all state and all items, and keeps none.

    What the library would do with them is counted in `work`, which the class of each name has.
    """

    work: Work
    keys: Keys

    def __new__(cls, *arguments: object, **_more: object) -> _Inert:
        cls.work.spend(1 + sum(len(each) for each in arguments if isinstance(each, Sized)))
        made = object.__new__(cls)
        made.keys = Keys(cls.work)
        if cls.__name__ in _TABLES:
            made._take(arguments)
        elif cls.__name__ in _BYTES and not _is_bytes(arguments):
            raise source_error(f"{cls.__name__} of something other than a text and its encoding, latin1")
        return made

    def __init__(self, *_arguments: object, **_more: object) -> None: ...

    def _take(self, arguments: tuple[object, ...]) -> None:
        """Count what filling a table from lists takes."""
        takes_pairs = _TABLES[type(self).__name__]
        for each in arguments:
            if not isinstance(each, list | tuple):
                continue
            for item in cast("Sequence[object]", each):
                pair = cast("Sequence[object]", item) if takes_pairs and isinstance(item, list | tuple) else ()
                self.add(pair[0] if len(pair) == 2 else cast("object", item))

    def __len__(self) -> int:
        return self.keys.count

    def __setstate__(self, _state: object) -> None: ...

    def __setitem__(self, key: object, _value: object) -> None:
        self.add(key)

    def add(self, item: object) -> None:
        self.keys.add(item)

    def append(self, _item: object) -> None: ...

    def extend(self, _items: object) -> None: ...


def _is_bytes(arguments: tuple[object, ...]) -> bool:
    """Whether arguments are bytes as pickles spell them: other encodings take quadratic time, a number any room."""
    first, *encoding = arguments or ("",)
    return isinstance(first, str | bytes | _Inert) and (not encoding or encoding in (["latin1"], ["latin-1"]))


def _push_table(unpickler: Any) -> None:
    unpickler.append(unpickler.inert("dict")())


def _push_filled_table(unpickler: Any) -> None:
    table = unpickler.inert("dict")()
    for key in unpickler.pop_mark()[::2]:
        table.add(key)
    unpickler.append(table)


def _push_filled_set(unpickler: Any) -> None:
    unpickler.append(unpickler.inert("set")(unpickler.pop_mark()))


# The one written in Python: the other makes room for as many memorised objects as a pickle says there are.
class _InertUnpickler(pickle._Unpickler):  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    """Reads a pickle without building tables, whose keys it only counts."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        pickle.EMPTY_DICT[0]: _push_table,
        pickle.EMPTY_SET[0]: _push_table,
        pickle.DICT[0]: _push_filled_table,
        pickle.FROZENSET[0]: _push_filled_set,
    }

    def __init__(self, stream: IO[bytes], work: Work) -> None:
        super().__init__(stream)
        self.storages: dict[str, int] = {}
        self._work = work
        self._classes: dict[str, type[_Inert]] = {}

    def find_class(self, module: str, name: str) -> Any:
        known = module.split(".")[0] in _MODULES or (module in ("builtins", "__builtin__") and name in _BUILTINS)
        if not known:
            message = f"{module}.{name} refused by the restricted unpickler, which creates weights only"
            raise source_error(message)
        return self.inert(name)

    def inert(self, name: str) -> type[_Inert]:
        """The class that stands for any class or function of a name."""
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = type(name, (_Inert,), {"work": self._work})
        return found

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case ("storage", type() as kind, str() as key, str(), int() as count, *_) if count >= 0:
                nbytes = count * _WIDTHS.get(kind.__name__, 1)
            case _:
                raise source_error("a persistent id that does not name a storage")
        self.storages[key] = max(nbytes, self.storages.get(key, 0))
        return self.inert("storage")()
