"""The linear algebra library under NumPy, and how many threads it uses.

It rounds differently with each number of threads: it splits a product among them, and the pieces decide which of its
inner loops meets an element. Limited to one thread it gives the same bits on a machine, whatever number its user set.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Count: TypeAlias = Callable[[], int]
    SetCount: TypeAlias = Callable[[int], object]

_PREFIXES = ("scipy_", "")
_SUFFIXES = ("64_", "_64", "64", "")
"""Around the names of functions of OpenBLAS, as NumPy's wheels and distributions build it."""

_OPENMP = 2
"""What OpenBLAS answers where its threads are those of OpenMP."""


class Threads(Protocol):
    """The threads of a linear algebra library."""

    @property
    def held(self) -> bool:
        """Whether `alone` holds the library at one thread."""
        ...

    def count(self) -> int:
        """Return how many threads the library may use, as its user set it; 1 where it cannot be asked."""
        ...

    def alone(self, call: Callable[..., object], *operands: object) -> None:
        """Make a call, of operands, in which the library uses one thread; afterwards it may use as many as before."""
        ...


class ProcessThreads:
    """Threads whose number is one for the whole process: what runs concurrently with `alone` has one thread too.

    Calls may be nested, and made by several threads at once; the last that ends gives the number back. A number that
    was set meanwhile stays.
    """

    held = True

    def __init__(self, get: Count, set_count: SetCount) -> None:
        self.get = get
        self.set_count = set_count
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _begin(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before = 1
        # Odd while the library is limited to one thread; never the same value again.
        self._turn = 0

    def _after_fork(self) -> None:
        """Begin again in a child: the threads that held the library do not exist there."""
        if self._turn % 2:
            self.set_count(self._before)
        self._begin()

    def count(self) -> int:
        with self._lock:
            return self._before if self._users else self.get()

    def alone(self, call: Callable[..., object], *operands: object) -> None:
        # One thread that nobody holds it at is the user's own choice: there is nothing to do, and nothing to give back.
        turn = self._turn
        if not turn % 2 and self.get() == 1 and self._turn == turn:
            call(*operands)
            return
        self._enter()
        try:
            call(*operands)
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            if not self._users:
                self._before = self.get()
                self._turn += 1
                self.set_count(1)
            self._users += 1

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                if self.get() == 1:
                    self.set_count(self._before)
                self._turn += 1


class OwnThreads:
    """Threads whose number each thread that calls the library sets for itself."""

    held = True

    def __init__(self, get: Count, set_count: SetCount) -> None:
        self.get = get
        self.set_count = set_count

    def count(self) -> int:
        return self.get()

    def alone(self, call: Callable[..., object], *operands: object) -> None:
        before = self.get()
        if before == 1:
            call(*operands)
            return
        self.set_count(1)
        try:
            call(*operands)
        finally:
            self.set_count(before)


class UnknownThreads:
    """Threads of a library that cannot be asked."""

    held = False

    def count(self) -> int:
        return 1

    def alone(self, call: Callable[..., object], *operands: object) -> None:
        call(*operands)


@dataclass(frozen=True, slots=True)
class LinearAlgebra:
    """A linear algebra library; ``name`` has its version where that is known."""

    name: str
    threads: Threads


@cache
def linear_algebra() -> LinearAlgebra:
    """Return the library that NumPy multiplies matrices with."""
    found = next((library for path in _paths() if (library := openblas_in(path)) is not None), None)
    return found or LinearAlgebra(_configured(), UnknownThreads())


def openblas_in(path: Path) -> LinearAlgebra | None:
    """Return the OpenBLAS that a shared library is or links to, or None."""
    try:
        # Its functions are called for every product, and need no other thread to go on meanwhile.
        library = ctypes.PyDLL(str(path))
    except OSError:
        return None
    for prefix, suffix in product(_PREFIXES, _SUFFIXES):
        names = [f"{prefix}openblas_{what}{suffix}" for what in ("get_config", "get_parallel")]
        names += [f"{prefix}openblas_{what}_num_threads{suffix}" for what in ("get", "set")]
        if all(hasattr(library, name) for name in names):
            config, parallel, get, set_count = names
            name = _text(library, config)
            if _number(library, parallel)() == _OPENMP and hasattr(library, "omp_set_num_threads"):
                get, set_count = "omp_get_max_threads", "omp_set_num_threads"
                return LinearAlgebra(name, OwnThreads(_number(library, get), _setter(library, set_count)))
            return LinearAlgebra(name, ProcessThreads(_number(library, get), _setter(library, set_count)))
    return None


def _paths() -> Iterator[Path]:
    """Yield where functions of the library are found: what a library is linked with is searched too, but on Windows.

    NumPy's wheels have theirs in a folder next to the package.
    """
    extension = getattr(sys.modules.get("numpy._core._multiarray_umath"), "__file__", None)
    if extension is not None:
        yield Path(extension)
    yield from bundled(Path(np.__file__).parent)


def bundled(package: Path) -> Iterable[Path]:
    """Return the OpenBLAS that came with NumPy's package, if any."""
    return sorted((package.parent / "numpy.libs").glob("*openblas*"))


def _number(library: ctypes.PyDLL, name: str) -> Count:
    function = library[name]
    function.argtypes = []
    function.restype = ctypes.c_int
    return function


def _setter(library: ctypes.PyDLL, name: str) -> SetCount:
    function = library[name]
    function.argtypes = [ctypes.c_int]
    function.restype = None
    return function


def _text(library: ctypes.PyDLL, name: str) -> str:
    """Return name and version, the first words of what OpenBLAS says of itself."""
    function = library[name]
    function.argtypes = []
    function.restype = ctypes.c_char_p
    return " ".join(function().decode().split()[:2])


def _configured() -> str:
    """Return the library that NumPy was built for."""
    built = np.show_config(mode="dicts") or {}
    blas = built.get("Build Dependencies", {}).get("blas", {})
    return str(blas.get("name") or "a library without a name")
