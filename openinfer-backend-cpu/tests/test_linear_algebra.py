"""The library under NumPy is limited to one thread while a call runs; its own number is restored afterwards."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Barrier, Event, Thread

import numpy as np
import pytest

from openinfer_backend_cpu import linear_algebra as module
from openinfer_backend_cpu import probe
from openinfer_backend_cpu.linear_algebra import (
    LinearAlgebra,
    OwnThreads,
    ProcessThreads,
    UnknownThreads,
    bundled,
    linear_algebra,
    openblas_in,
)


class Library:
    """One number of threads, and every number that was set."""

    def __init__(self, number: int = 4) -> None:
        self.number = number
        self.settings: list[int] = []

    def get(self) -> int:
        return self.number

    def put(self, number: int) -> None:
        self.number = number
        self.settings.append(number)


Kind = type[ProcessThreads] | type[OwnThreads]
KINDS = (ProcessThreads, OwnThreads)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_finds_one_thread_and_leaves_as_many_as_before(kind: Kind) -> None:
    library, found = Library(), list[int]()
    kind(library.get, library.put).alone(lambda: found.append(library.number))
    assert (found, library.number) == ([1], 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_raises_leaves_as_many_as_before(kind: Kind) -> None:
    library = Library()
    threads = kind(library.get, library.put)
    with pytest.raises(ZeroDivisionError):
        threads.alone(lambda: 1 // 0)
    assert library.number == 4


@pytest.mark.parametrize("kind", KINDS)
def test_calls_in_calls_leave_as_many_as_before(kind: Kind) -> None:
    library, found = Library(), list[int]()
    threads = kind(library.get, library.put)

    def outer() -> None:
        threads.alone(lambda: found.append(library.number))
        found.append(library.number)

    threads.alone(outer)
    assert (found, library.number) == ([1, 1], 4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_thread_of_the_user_is_not_touched(kind: Kind) -> None:
    library = Library(1)
    kind(library.get, library.put).alone(lambda: None)
    assert library.settings == []


def test_calls_of_several_threads_end_in_any_order() -> None:
    library = Library()
    threads = ProcessThreads(library.get, library.put)
    both, first_over = Barrier(2), Event()
    found: list[int] = []

    def second() -> None:
        both.wait()
        first_over.wait()
        found.append(library.number)

    second_thread = Thread(target=threads.alone, args=(second,))
    second_thread.start()
    threads.alone(lambda: found.append(both.wait() * 0 + library.number))
    first_over.set()
    second_thread.join()
    assert (found, library.number) == ([1, 1], 4)


def test_a_call_that_begins_while_another_holds_the_library_holds_it_too() -> None:
    """The one thread that it finds is not the user's."""
    library = Library()
    threads = ProcessThreads(library.get, library.put)
    inside, over, found = Event(), Event(), list[int]()

    def first() -> None:
        inside.set()
        over.wait()

    second_thread = Thread(target=threads.alone, args=(first,))

    def second() -> None:
        over.set()
        second_thread.join()
        found.append(library.number)

    second_thread.start()
    inside.wait()
    threads.alone(second)
    assert (found, library.number) == ([1], 4)


def test_many_calls_of_many_threads_all_find_one_thread() -> None:
    library = Library()
    threads = ProcessThreads(library.get, library.put)
    found: set[int] = set()

    def work() -> None:
        for _ in range(300):
            threads.alone(lambda: found.add(library.number))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        several = [Thread(target=work) for _ in range(4)]
        for each in several:
            each.start()
        for each in several:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert (found, library.number) == ({1}, 4)


def test_a_number_that_is_set_meanwhile_stays() -> None:
    library = Library()
    ProcessThreads(library.get, library.put).alone(lambda: library.put(3))
    assert library.number == 3


def test_the_number_of_threads_is_the_users_also_while_the_library_is_limited() -> None:
    library, found = Library(), list[int]()
    threads = ProcessThreads(library.get, library.put)
    threads.alone(lambda: found.append(threads.count()))
    assert (found, threads.count()) == ([4], 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_child_has_the_number_of_threads_that_its_parent_had_limited() -> None:
    library = Library()
    threads = ProcessThreads(library.get, library.put)

    def fork() -> None:
        child = os.fork()
        if not child:
            found = 0
            try:
                found = 10 * library.number + threads.count()
            finally:
                os._exit(found)
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    status: list[int] = []
    threads.alone(fork)
    assert (status, library.number) == ([44], 4)


def test_a_library_that_is_not_known_is_left_alone() -> None:
    threads, found = UnknownThreads(), list[int]()
    threads.alone(lambda: found.append(threads.count()))
    assert (found, threads.held) == ([1], False)


def held() -> ProcessThreads | OwnThreads:
    """Return the threads of the library under NumPy."""
    threads = linear_algebra().threads
    if not isinstance(threads, ProcessThreads | OwnThreads):
        pytest.skip(f"{linear_algebra().name}: a library whose threads cannot be limited")
    return threads


def test_numpys_library_is_limited() -> None:
    threads = held()
    before, found = threads.count(), list[int]()
    threads.set_count(2)
    try:
        threads.alone(lambda: found.append(threads.get()))
        assert (found, threads.get()) == ([1], 2)
    finally:
        threads.set_count(before)


def test_the_library_of_numpys_wheel_is_found_next_to_it() -> None:
    """Where functions of linked libraries cannot be looked up: on Windows."""
    paths = bundled(Path(np.__file__).parent)
    if not paths:
        pytest.skip("NumPy did not bring a library of its own")
    found = [library for path in paths if (library := openblas_in(path)) is not None]
    assert found[0].name == linear_algebra().name


def test_files_other_than_openblas_are_ignored(tmp_path: Path) -> None:
    text = tmp_path / "openblas.txt"
    text.write_text("no library")
    assert openblas_in(text) is None


def test_the_probe_names_the_library() -> None:
    assert linear_algebra().name in probe.probe().detail


def test_the_probe_says_where_results_may_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "linear_algebra", lambda: LinearAlgebra("accelerate", UnknownThreads()))
    assert probe.probe().detail.endswith(
        "accelerate, whose threads cannot be limited: results of matrix products may depend on their number"
    )
