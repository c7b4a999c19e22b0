"""The machine that runs programs, with items made by hand; names, devices, logs."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from openinfer import symbolic
from openinfer.dtypes import F32
from openinfer.errors import DepthError, DeviceError, ExecutionError
from openinfer.ir.nodes import Assign, Barrier, Branch, Loop, Node, NodeKind, Return
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import DeviceSpec
from openinfer.simulate import logs
from openinfer.simulate.devices.opening import choose_device
from openinfer.simulate.program import machine
from openinfer.simulate.program.describe import Description, always
from openinfer.simulate.program.failures import Place
from openinfer.simulate.program.integers import LoopIndex, integer, value_of
from openinfer.simulate.program.items import Action, Call, Code, Leave, Repeat
from openinfer.simulate.program.machine import Machine


class Log(list[Any]):
    """What was called, in order."""


def node(kind: NodeKind, index: int = 0) -> Node:
    return Node(index=index, uuid=UUID(int=index), kind=kind)


def action(log: Log, what: Any) -> Action:
    def call() -> None:
        log.append(what() if callable(what) else what)

    return Action(place=Place(node(Barrier()), "b"), call=call, describe=always(Description("")))


def repeat(index: LoopIndex, start: int, end: int, body: Code) -> Repeat:
    zero = symbolic.Const(0)
    place = Place(node(Loop("l", index.name, zero, zero)), "b")
    return Repeat(place=place, index=index, start=start, end=end, reads=frozenset(), body=body)


def call(code: Code) -> Call:
    place = Place(node(Branch(code.block)), "b")
    return Call(place=place, condition=None, reads=frozenset(), then=code, otherwise=code)


def leave() -> Leave:
    return Leave(place=Place(node(Return()), "b"), names=())


def code(name: str, *items: Any) -> Code:
    made = Code(name, list(items))
    made.merge()
    return made


def run(entry: Code, *, merged: bool) -> Machine:
    memory: Any = SimpleNamespace(available=set[str](), variables={})
    made = Machine(memory, entry, merged=merged)
    made.run()
    return made


@pytest.mark.rule("runtime.control.2")
@pytest.mark.parametrize("merged", [False, True])
def test_items_run_in_order_and_calls_come_back(merged: bool) -> None:
    log = Log()
    inner = code("inner", action(log, 2), leave(), action(log, "unreachable"))
    run(code("entry", action(log, 1), call(inner), action(log, 3), call(inner)), merged=merged)
    assert log == [1, 2, 3, 2]


@pytest.mark.parametrize("merged", [False, True])
def test_a_loop_that_is_left_by_recursion_gets_its_index_back(merged: bool) -> None:
    log, index = Log(), LoopIndex("i")
    block = code("block")
    depth = iter([True, False, False, False, False, False])
    body = code("block", *[_maybe(block, depth)], action(log, index))
    block.items.append(repeat(index, 0, 2, body))
    block.merge()
    run(block, merged=merged)
    assert log == [0, 1, 0, 1]


def _maybe(block: Code, answers: Any) -> Call:
    nothing = code("nothing")
    place = Place(node(Branch("block", "c", "nothing")), "b")
    return Call(place=place, condition=lambda: next(answers), reads=frozenset(), then=block, otherwise=nothing)


@pytest.mark.rule("runtime.control.4")
@pytest.mark.parametrize("merged", [False, True])
def test_a_return_in_nested_loops_leaves_one_block(merged: bool) -> None:
    log, i, j = Log(), LoopIndex("i"), LoopIndex("j")
    innermost = code("inner", action(log, j), leave())
    inner = code("inner", repeat(i, 0, 3, code("inner", repeat(j, 5, 9, innermost))))
    run(code("entry", call(inner), action(log, "after")), merged=merged)
    assert log == [5, "after"]


@pytest.mark.rule("runtime.errors.5")
@pytest.mark.parametrize("merged", [False, True])
def test_an_error_names_its_node_once(merged: bool) -> None:
    def fail() -> None:
        raise ZeroDivisionError("by hand")

    log, index = Log(), LoopIndex("i")
    place = Place(node(Assign("t", F32), 7), "b")
    failing = Action(place=place, call=fail, describe=always(Description("")))
    entry = code("entry", repeat(index, 0, 3, code("b", action(log, index), failing)))
    with pytest.raises(ExecutionError, match="assign t: ZeroDivisionError: by hand") as caught:
        run(entry, merged=merged)
    assert (caught.value.node_index, caught.value.block, caught.value.node_desc) == (7, "b", "assign t")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert log == [0]


@pytest.mark.rule("runtime.control.9")
def test_frames_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_FRAMES", 10)
    block = code("block")
    block.items.append(call(block))
    block.merge()
    with pytest.raises(DepthError):
        run(block, merged=True)


def test_integer_expressions_read_what_changes() -> None:
    index = LoopIndex("i")
    expr = symbolic.parse("2*i+N")
    found = integer(expr, lambda name: index if name == "i" else 10)
    index.value = 4
    assert value_of(found) == 18
    assert integer(symbolic.parse("N*N-1"), lambda _: 10) == 99
    assert integer(symbolic.parse("i"), lambda _: index) is index


@pytest.mark.rule("runtime.log.1", "runtime.log.2", "runtime.log.3")
@pytest.mark.parametrize(
    ("variables", "kinds"),
    [
        ({}, {"CRITICAL"}),
        ({"OPENINFER_TRACE": "1"}, {"CRITICAL", "TRACE", "ERROR"}),
        ({"OPENINFER_TRACE": " FULL"}, {"CRITICAL", "TRACE", "ERROR", "WARNING"}),
        ({"OPENINFER_TRACE": "yes"}, {"CRITICAL"}),
        ({"OPENINFER_VULKAN_TRACE": "Full"}, {"CRITICAL", "VK_TRACE"}),
    ],
)
def test_log_lines_are_written_as_the_environment_asks(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kinds: set[str]
) -> None:
    stream = io.StringIO()
    with monkeypatch.context() as patch:
        for name in ("OPENINFER_TRACE", "OPENINFER_VULKAN_TRACE"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr("sys.stderr", stream)
        logs.read_environment()
        for kind in logs.LogKind:
            logs.log(kind, "hello")
    logs.read_environment()
    assert {line.split()[1].strip("[]") for line in stream.getvalue().splitlines()} == kinds
    assert all(line.endswith("-- hello") and line[2] == line[5] == ":" for line in stream.getvalue().splitlines())


def test_a_log_line_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    logs.log(logs.LogKind.CRITICAL, "a\x1b[2Jb\nc")
    assert stream.getvalue().endswith("-- a\\x1b[2Jb\\nc\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.rule("runtime.log.4")
@pytest.mark.parametrize(
    ("kind", "colour"), [("WARNING", 33), ("ERROR", 91), ("CRITICAL", 31), ("VK_TRACE", 32), ("TRACE", 34)]
)
def test_kinds_have_their_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, kind: str, colour: int) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = []
    with monkeypatch.context() as patch:
        patch.setenv("OPENINFER_TRACE", "full")
        patch.setenv("OPENINFER_VULKAN_TRACE", "1")
        logs.read_environment()
        for stream in (Terminal(), io.StringIO()):
            patch.setattr("sys.stderr", stream)
            logs.log(logs.LogKind[kind], "hello")
            lines.append(stream.getvalue()[9:])
    logs.read_environment()
    assert lines == [f"\x1b[{colour}m[{kind}]\x1b[0m -- hello\n", f"[{kind}] -- hello\n"]


@pytest.mark.rule("runtime.log.3")
def test_the_time_of_a_log_line_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    before = datetime.now(UTC).replace(microsecond=0)
    logs.log(logs.LogKind.CRITICAL, "hello")
    after = datetime.now(UTC)
    assert before.strftime("%H:%M:%S") <= stream.getvalue()[:8] <= after.strftime("%H:%M:%S") or after.hour == 0


@pytest.mark.rule("runtime.log.2", "runtime.log.5")
@pytest.mark.parametrize(("value", "written"), [("1", "TRACE ERROR CRITICAL"), ("", "CRITICAL")])
def test_the_environment_is_read_when_logging_is_imported(value: str, written: str) -> None:
    code = (
        "import os; from openinfer.simulate import logs; os.environ['OPENINFER_TRACE'] = 'full'\n"
        "for kind in logs.LogKind: logs.log(kind, 'hello')"
    )
    variables = {k: v for k, v in os.environ.items() if not k.startswith("OPENINFER_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**variables, "OPENINFER_TRACE": value},
    )
    assert " ".join(line.split()[1].strip("[]") for line in done.stderr.splitlines()) == written
    assert done.stdout == ""


def device(probe: str) -> DeviceSpec:
    return DeviceSpec(name="box", summary="", probe=probe, backend="", expression_dtypes=frozenset())


def absent() -> Any:
    from openinfer.plugins.types import Availability

    return Availability(available=False, detail="no box here: buy one")


def present() -> Any:
    from openinfer.plugins.types import Availability

    return Availability(available=True, detail="")


def environment(probe: str, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setitem(sys.modules, "box_probes", cast("Any", SimpleNamespace(absent=absent, present=present)))
    return Environment(devices={"box": device(f"box_probes:{probe}")})


@pytest.mark.rule("runtime.devices.1")
def test_a_device_that_cannot_be_used_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="no box here: buy one") as caught:
        choose_device("box", environment("absent", monkeypatch))
    assert caught.value.code == "device-unavailable"


def test_a_device_may_have_an_ordinal(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = environment("present", monkeypatch)
    assert (choose_device("box:1", offered).name, choose_device("box:0", offered).name) == ("box:1", "box")
    with pytest.raises(DeviceError, match="5000 digits"):
        choose_device("box:" + "9" * 5000, offered)
    for name in ("box:", "box:-1", "box:x", "bix"):
        with pytest.raises(DeviceError):
            choose_device(name, offered)
