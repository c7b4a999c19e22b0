"""Calls into the code of plugins: what it raises is named, what it prints is diverted, interrupts pass."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from openinfer.errors import DeviceError, PluginError
from openinfer.plugins.crossing import PUBLISHED_HERE, Owner, crossing, guarded, loading, shown
from openinfer.plugins.descriptions import misfit
from openinfer.plugins.discovery import Candidate
from openinfer.plugins.environment import PluginInfo, Status
from openinfer.plugins.loader import load_environment
from openinfer.plugins.offers import KINDS

OWNER = Owner("theirs", "their-dist")


class Rude(BaseException):
    """Not an `Exception`."""


class Unshowable:
    def __repr__(self) -> str:
        raise Rude

    def __str__(self) -> str:
        raise Rude


class SilentError(Exception):
    def __str__(self) -> str:
        raise Rude


FAILURES = {
    "exception": (ValueError("oops"), "raised ValueError: oops"),
    "key error": (KeyError("oops"), "raised KeyError: 'oops'"),
    "exit": (SystemExit(0), "raised SystemExit: 0"),
    "generator exit": (GeneratorExit(), "raised GeneratorExit"),
    "no exception": (Rude("oops"), "raised Rude: oops"),
    "stop": (StopIteration(3), "raised StopIteration: 3"),
    "text that raises": (SilentError(), "raised SilentError: (its text cannot be shown)"),
    "several lines": (ValueError("one\n two"), "raised ValueError: one two"),
    "without end": (ValueError("x" * 10**6), f"raised ValueError: {'x' * 1000} ("),
}


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def call() -> NoReturn:
        raise error

    return call


@contextmanager
def as_wrapper(action: str) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    yield lambda function: guarded(OWNER, action, function)()


@contextmanager
def as_context(action: str) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    with crossing(OWNER, action):
        yield lambda function: function()


@pytest.mark.parametrize("form", [as_wrapper, as_context])
@pytest.mark.parametrize(("error", "reported"), FAILURES.values(), ids=list(FAILURES))
def test_whatever_is_raised_names_plugin_distribution_and_call(form: Any, error: BaseException, reported: str) -> None:
    with pytest.raises(PluginError) as caught, form("rule x") as call:
        call(raising(error))

    assert str(caught.value).startswith(f"plugin 'theirs' of distribution their-dist: rule x {reported}")
    assert f"({__file__}:" in str(caught.value)
    assert str(caught.value).endswith("or OPENINFER_PLUGINS_BLOCK=theirs")
    assert (caught.value.plugin, caught.value.distribution) == ("theirs", "their-dist")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("form", [as_wrapper, as_context])
def test_errors_of_openinfer_pass(form: Any) -> None:
    with pytest.raises(DeviceError), form("probe") as call:
        call(raising(DeviceError("there is none")))


@pytest.mark.parametrize("form", [as_wrapper, as_context])
def test_an_interrupt_passes_and_says_what_was_running(form: Any) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, form("rule x") as call:
        call(raising(KeyboardInterrupt()))

    assert caught.value.__notes__ == ["while running: rule x, plugin 'theirs' of distribution their-dist"]


@pytest.mark.parametrize("form", [as_wrapper, as_context])
def test_an_exit_by_a_signal_handler_of_the_program_passes(form: Any) -> None:
    def leave(*_: object) -> NoReturn:
        sys.exit(143)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit), form("rule x") as call:
            call(lambda: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_loading_takes_errors_of_openinfer_for_failures_too() -> None:
    with pytest.raises(PluginError, match="hook h raised DeviceError: none") as caught, loading(OWNER, "hook h"):
        raise DeviceError("none")

    assert caught.value.status == "failed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("x" * 100, "'" + "x" * 79),
        (Unshowable(), "an object of type Unshowable that cannot be shown"),
        (10**5000, "an object of type int that cannot be shown"),
    ],
    ids=["number", "long", "raises", "too long"],
)
def test_values_are_shown_whatever_they_are(value: object, text: str) -> None:
    assert shown(value) == text


def module(api: object = 1, **attributes: object) -> ModuleType:
    made = ModuleType("their_plugin")
    made.OPENINFER_API = api
    vars(made).update(attributes)
    return made


def candidate(name: str, load: Callable[[], object], distribution: str = "their-dist") -> Candidate:
    return Candidate(name=name, distribution=distribution, version="1", value="theirs.plugin", load=load)


def loaded(monkeypatch: pytest.MonkeyPatch, *candidates: Candidate) -> dict[str, PluginInfo]:
    monkeypatch.setattr("openinfer.plugins.discovery.installed", lambda: list(candidates))
    return {info.name: info for info in load_environment().plugins}


@pytest.mark.parametrize(("error", "reported"), FAILURES.values(), ids=list(FAILURES))
def test_an_import_that_raises_anything_is_failed_and_the_rest_load(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, reported: str
) -> None:
    found = loaded(monkeypatch, candidate("bad", raising(error)), candidate("good", module))

    assert found["bad"].status is Status.FAILED
    assert found["bad"].reason.startswith(f"import of theirs.plugin {reported}")
    assert found["good"].status is Status.OK


class Hostile:
    """Comparing and hashing it raise; what it is called lies."""

    OPENINFER_API = 1

    def __eq__(self, other: object) -> bool:
        raise Rude

    def __hash__(self) -> int:
        raise Rude

    __repr__ = Unshowable.__repr__


STRANGE_VERSIONS = {
    "cannot be shown": (Unshowable(), "failed", "OPENINFER_API is an object of type Unshowable that cannot be shown"),
    "too long to show": (10**5000, "incompatible", "needs plugin API an object of type int that cannot be shown"),
    "negative": (-(10**5000), "failed", "OPENINFER_API is an object of type int that cannot be shown"),
    "bool": (True, "failed", "OPENINFER_API is True"),
}


@pytest.mark.parametrize(("api", "status", "reason"), STRANGE_VERSIONS.values(), ids=list(STRANGE_VERSIONS))
def test_a_strange_version_fails_its_plugin_alone(
    monkeypatch: pytest.MonkeyPatch, api: object, status: str, reason: str
) -> None:
    found = loaded(monkeypatch, candidate("bad", lambda: module(api)), candidate("good", module))

    assert found["bad"].status.value == status
    assert reason in found["bad"].reason
    assert found["good"].status is Status.OK


def test_a_plugin_that_cannot_be_compared_disturbs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, candidate("a", Hostile), candidate("good", module), candidate("b", Hostile))

    assert {info.status for info in found.values()} == {Status.OK}


def test_an_interrupted_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        loaded(monkeypatch, candidate("slow", raising(KeyboardInterrupt())))

    (note,) = caught.value.__notes__
    assert note == "while running: import of theirs.plugin, plugin 'slow' of distribution their-dist"


CHATTY = """
import os, sys
from types import ModuleType
from openinfer.plugins import discovery, loader

def chatty():
    print("printed by Python")
    os.write(1, b"printed by a library\\n")
    made = ModuleType("chatty")
    made.OPENINFER_API = 1
    return made

print("before")
loader.load_environment(autoload=False, extra=[("silent", ModuleType("silent"))])
found = discovery.Candidate(name="chatty", distribution="d", version="1", value="chatty", load=chatty)
discovery.installed = lambda: [found]
print(*(plugin.status.value for plugin in loader.load_environment().plugins))
"""


def test_what_an_import_prints_goes_to_standard_error() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", CHATTY], capture_output=True, text=True, timeout=300, check=True, env=dict(os.environ)
    )

    assert finished.stdout == "before\nok\n"
    assert finished.stderr == "printed by Python\nprinted by a library\n"


def test_the_descriptions_of_core_fit() -> None:
    environment = load_environment(autoload=False)

    offered = [value for kind in KINDS for value in getattr(environment, kind.field).values()]

    assert len(offered) > 150
    assert [misfit(type(value), value) for value in offered] == [None] * len(offered)


def test_plugins_published_here_are_named_as_in_their_projects() -> None:
    root = Path(__file__).resolve().parents[3]
    if not (root / "openinfer-oinf" / "pyproject.toml").exists():
        pytest.skip("the repository is not here")

    assert sorted(PUBLISHED_HERE) == sorted(path.parent.name for path in root.glob("openinfer-*/src"))
