"""`openinfer trace`: scripts, mistakes, and a dialogue on a real terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main, stepping
from openinfer.testing.waiting import interruptible, limit_s
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """dynamic { x: f32[B]; c: bool @init(true); }
volatile { W(l): f32[B] @pattern("w{l}"); y: f32[B]; }
persistent { n: i32; }
block entry {
  assign h: f32[B];
  transfer x >> h;
  loop layers (l in 0..2) {
    op mul(h, W[l]) >> h;
  }
  branch c head tail;
  cache.increment n;
  return y;
}
block head { op log(h) >> y; branch tail; }
block tail { op abs(y) >> y; }
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(2), "w0": np.ones(2, np.float32), "w1": np.full(2, 3, np.float32)}, "m.oinf")
    return tmp_path


def trace(*commands: str, options: tuple[str, ...] = ("--input", "x=[1, 2]")) -> Result:
    text = "".join(f"{command}\n" for command in commands)
    return CliRunner().invoke(main, ["trace", "g.oi", "--model", "m.oinf", *options], input=text)


def answers(result: Result) -> dict[str, list[str]]:
    """What was printed after each command, by command; the beginning under ``""``."""
    found: dict[str, list[str]] = {"": []}
    last = ""
    for line in result.stdout.splitlines():
        if line.startswith("(trace) "):
            last = line.removeprefix("(trace) ")
            found[last] = []
        else:
            found[last].append(line)
    return found


def test_it_begins_before_the_first_statement(files: Path) -> None:
    result = trace()
    assert result.exit_code == 0
    assert result.stdout == "next  5: [entry] assign h\n"


def test_stepping_shows_what_ran_with_its_value_and_what_comes_next(files: Path) -> None:
    found = answers(trace("step", "s 2", "next", "n"))
    assert found["step"] == [
        "ran   5: assign h",
        "      h: f32[2] = {0.00, 0.00}  min 0  max 0  mean 0",
        "next  6: [entry] transfer x >> h",
    ]
    assert found["s 2"][-1] == "next  8: [entry] op mul(h,W[l]) >> h"
    assert found["next"][0].startswith("ran   8: op mul(h,W[l=0]) >> h  (")
    assert found["n"][1:] == [
        "      h: f32[2] = {3.00, 6.00}  min 3  max 6  mean 4.5",
        "next  10: [entry] branch c head tail",
    ]


def test_turn_finish_and_continue(files: Path) -> None:
    found = answers(trace("s 3", "turn", "t", "s", "finish", "continue"))
    assert [found[command][-1] for command in ("s 3", "turn", "t", "s", "finish")] == [
        "next  8: [entry] op mul(h,W[l]) >> h",
        "next  8: [entry] op mul(h,W[l]) >> h",
        "next  10: [entry] branch c head tail",
        "next  14: [head] op log(h) >> y",
        "next  11: [entry] cache.increment n",
    ]
    assert found["continue"] == [
        "ran   12: return y",
        "step 1 of 1 is over",
        "y: f32[2] = {1.10, 1.79}  min 1.09861  max 1.79176  mean 1.44519",
    ]


@pytest.mark.parametrize(
    ("where", "ran", "hit"),
    [
        ("op log", "branch c head tail", "break op log"),
        ("line 15", "branch tail", "break line 15"),
        ("15", "branch tail", "break line 15"),
        ("block tail", "branch tail", "break block tail"),
        ("write y", "op log(h) >> y", "break write y"),
        ("range ..5 h", "op mul(h,W[l=1]) >> h", "break range -inf..5 h: `h` has 6.0 (1 of 2 are outside)"),
        ("if max(h) > 5 and l == 1", "op mul(h,W[l=1]) >> h", "break if max(h) > 5 and l == 1"),
    ],
)
def test_every_kind_of_breakpoint(files: Path, where: str, ran: str, hit: str) -> None:
    found = answers(trace(f"break {where}", "continue"))
    assert found[f"break {where}"] == [f"breakpoint 1: {hit.partition(':')[0].removeprefix('break ')}"]
    assert ran in found["continue"][0]
    assert hit in found["continue"]


def test_infinity_is_found_where_it_appears(files: Path) -> None:
    found = answers(trace("break non-finite", "c", options=("--input", "x=[0, 2]")))
    assert "break non-finite: infinity in `y`" in found["c"]


def test_breakpoints_and_watches_on_the_command_line(files: Path) -> None:
    options = ("--input", "x=[1, 2]", "--break", "op abs", "--watch", "max(h)", "--watch", "n")
    found = answers(trace("c", "b", options=options))
    assert "watch max(h): 2 -> 6 (op mul(h,W[l=1]) >> h)" in found["c"]
    assert found["b"] == ["  1  break op abs", "  2  watch max(h) = 6", "  3  watch n = 0"]
    assert found[""][-1] == "next  5: [entry] assign h"


def test_looking_around(files: Path) -> None:
    commands = ("break 10", "s 3", "list", "l 1", "stack", "print h * 2", "print h", "show h", "p W[l]", "p l")
    found = answers(trace(*commands))
    assert found["list"] == [
        "      4  block entry {",
        "      5    assign h: f32[B];",
        "      6    transfer x >> h;",
        "      7    loop layers (l in 0..2) {",
        "=>    8      op mul(h, W[l]) >> h;",
        "      9    }",
        "  *  10    branch c head tail;",
        "     11    cache.increment n;",
        "     12    return y;",
    ]
    assert found["l 1"][0] == "      1  dynamic { x: f32[B]; c: bool @init(true); }"
    assert found["stack"] == ["block entry", "loop layers (l = 0, to 2), entered from line 7"]
    assert found["print h * 2"] == ["h * 2 = {2.00, 4.00}"]
    assert found["print h"] == ["h: f32[2] = {1.00, 2.00}  min 1  max 2  mean 1.5"]
    assert found["show h"][1:] == ["[1. 2.]"]
    assert found["p W[l]"] == ["W[l]: f32[2] = {1.00, 1.00}  min 1  max 1  mean 1"]
    assert found["p l"] == ["l: i64 = {0}"]


def test_tables_of_variables_operators_and_memory(files: Path) -> None:
    found = answers(trace("b block tail", "c", "variables", "operators", "memory"))
    assert [line.split()[:2] for line in found["variables"]] == [
        ["dynamic", "x:"],
        ["dynamic", "c:"],
        ["volatile", "y:"],
        ["persistent", "n:"],
        ["temporary", "h:"],
        ["volatile", "W[l]:"],
    ]
    assert {line.split()[0]: line.split()[1] for line in found["operators"][1:]} == {"mul": "2", "log": "1"}
    rows = {line.rsplit(maxsplit=1)[0]: int(line.rsplit(maxsplit=1)[1]) for line in found["memory"][1:]}
    assert rows == {"dynamic": 9, "volatile": 8 + 16, "constant": 0, "persistent": 4, "temporary": 8, "in all": 45}


def test_traces_and_values_are_written_to_files(files: Path) -> None:
    result = trace("c", "export t.json", "export t.perfetto.json", "save y y.npy")
    assert result.exit_code == 0
    assert len(json.loads(Path("t.json").read_text())) == 11
    assert "traceEvents" in json.loads(Path("t.perfetto.json").read_text())
    assert np.load("y.npy").tolist() == pytest.approx(np.log([3, 6]), rel=1e-6)


def test_steps_follow_each_other(files: Path) -> None:
    options = ("--input", "x=random", "--steps", "3")
    over = answers(trace("continue", "break op log", "c", "p n", options=options))
    assert "step 1 of 3 is over" in over["continue"]
    assert "break op log" in over["c"]
    assert over["p n"] == ["n: i32 = {1}"]
    one_by_one = answers(trace("c", "c", "step", "p n", options=options))
    assert one_by_one["step"] == ["next  5: [entry] assign h"]
    assert one_by_one["p n"] == ["n: i32 = {2}"]


def test_a_script_is_a_file(files: Path) -> None:
    Path("s.txt").write_text("# to the end\n\ncontinue\nprint n\n")
    result = trace(options=("--input", "x=1", "--script", "s.txt"))
    assert (result.exit_code, answers(result)["print n"]) == (0, ["n: i32 = {1}"])


@pytest.mark.parametrize(
    ("commands", "reported"),
    [
        (("contineu",), "did you mean `continue`"),
        (("st",), "may be step, stack"),
        (("break opp log",), "expected where to break, found 'opp log'"),
        (("break op lgo",), "did you mean `log`"),
        (("break if h >",), "bad-condition"),
        (("break range 3",), "expected LOW..HIGH"),
        (("step x",), "expected how many statements"),
        (("step " + "9" * 5000,), "expected how many statements"),
        (("next 3",), "`next` takes nothing"),
        (("print",), "`print` takes EXPRESSION"),
        (("print hh",), "did you mean"),
        (("print h",), "temporary-unset"),
        (("turn",), "no loop is running"),
        (("delete 7",), "there are none"),
        (("c", "step"), "the last step is over"),
        (("export no/where.json",), "no/where.json"),
        (("save h",), "expected a variable and a file"),
        (("watch nothing",), "unknown variable `nothing`"),
    ],
)
def test_a_mistake_ends_a_script(files: Path, commands: tuple[str, ...], reported: str) -> None:
    result = trace(*commands, "print n")
    assert result.exit_code == 1
    assert reported in result.output
    assert "(trace) print n" not in result.output
    assert "Traceback" not in result.output


def test_an_input_that_is_missing_is_hinted_at(files: Path) -> None:
    result = trace("c", options=())
    assert (result.exit_code, "--input NAME=FILE.npy" in result.output) == (1, True)


def test_the_program_and_the_commands_cannot_share_standard_input(files: Path) -> None:
    result = CliRunner().invoke(main, ["trace", "-", "--model", "m.oinf"], input=PROGRAM)
    assert (result.exit_code, "--script FILE" in result.output) == (2, True)
    Path("s.txt").write_text("c\n")
    arguments = ["trace", "-", "--model", "m.oinf", "--input", "x=1", "--script", "s.txt"]
    assert CliRunner().invoke(main, arguments, input=PROGRAM).exit_code == 0


class Terminal:
    """A process on a terminal of its own; every wait is bounded."""

    def __init__(self, *arguments: str) -> None:
        self.leader, follower = pty.openpty()
        self.seen = ""
        environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1"}
        with interruptible():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "openinfer", *arguments],
                stdin=follower,
                stdout=follower,
                stderr=follower,
                start_new_session=True,
                preexec_fn=self.take_control,
                env=environment,
            )
        os.close(follower)

    @staticmethod
    def take_control() -> None:
        """Make the terminal the session's own, so that its keys send signals."""
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """Read until a text comes; return what came before it and forget both."""
        end = time.monotonic() + limit_s(seconds)
        while text not in self.seen:
            ready, _, _ = select.select([self.leader], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{text!r} did not come, only {self.seen!r}"
            try:
                piece = os.read(self.leader, 65536).decode()
            except OSError:
                piece = ""
            assert piece, f"it ended before {text!r}: {self.seen!r}"
            self.seen += piece.replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, keys: str) -> None:
        os.write(self.leader, keys.encode())

    def ended(self, seconds: float = 30) -> int:
        """Wait for the end; return the exit code."""
        end = time.monotonic() + limit_s(seconds)
        while self.process.poll() is None and time.monotonic() < end:
            ready, _, _ = select.select([self.leader], [], [], 0.05)
            if ready:
                try:
                    self.seen += os.read(self.leader, 65536).decode()
                except OSError:
                    break
        return self.process.wait(max(end - time.monotonic(), 0.1))

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(limit_s(10))
        os.close(self.leader)


@pytest.fixture
def terminal(files: Path) -> Iterator[Terminal]:
    found = Terminal("trace", "g.oi", "--model", "m.oinf", "--input", "x=[1, 2]", "--steps", "1")
    yield found
    found.close()


PROMPT = "(trace) "


def test_a_dialogue_on_a_terminal(terminal: Terminal) -> None:
    assert "next  5: [entry] assign h" in terminal.wait_for(PROMPT)
    terminal.type("break op log\n")
    assert "breakpoint 1: op log" in terminal.wait_for(PROMPT)
    terminal.type("contineu\n")
    assert "did you mean `continue`" in terminal.wait_for(PROMPT)
    terminal.type("continue\n")
    assert "next  14: [head] op log(h) >> y" in terminal.wait_for(PROMPT)
    terminal.type("s\n")
    assert "ran   14: op log(h) >> y" in terminal.wait_for(PROMPT)
    terminal.type("\n")
    assert "ran   14: branch tail" in terminal.wait_for(PROMPT)
    terminal.type("print max(y)\n")
    assert "max(y) = 1.79175949" in terminal.wait_for(PROMPT)
    terminal.type("quit\n")
    assert terminal.ended() == 0


def test_keys_complete_and_leave(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.type("stac\t\n")
    assert "block entry" in terminal.wait_for(PROMPT)
    terminal.type("break block hea\t\n")
    assert "breakpoint 1: block head" in terminal.wait_for(PROMPT)
    terminal.type("half a line")
    terminal.wait_for("half a line")
    # The line editor of Python notices an interrupt while it waits for keys: one that comes as it still draws the line
    # waits for the next key.
    time.sleep(limit_s(0.5))
    terminal.type("\x03")
    assert "Ctrl-D leaves" in terminal.wait_for(PROMPT)
    terminal.type("\x04")
    assert terminal.ended() == 0


def test_interrupts_that_the_shell_ignores_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stepping._interrupts(lambda: pytest.fail("interrupted")):
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_stops_a_running_program_and_not_the_dialogue(files: Path) -> None:
    Path("g.oi").write_text(
        "dynamic { x: f32[B]; } volatile { y: f32[B]; } persistent { n: i64; }\n"
        "block entry { loop long (i in 0..1000000000) { cache.increment n; } return; }"
    )
    terminal = Terminal("trace", "g.oi", "--model", "m.oinf", "--input", "x=1")
    try:
        terminal.wait_for(PROMPT)
        terminal.type("continue\n")
        terminal.wait_for("continue\n")
        time.sleep(limit_s(0.3))
        terminal.type("\x03")
        assert "interrupted" in terminal.wait_for(PROMPT)
        terminal.type("print n > 10\n")
        assert "n > 10 = true" in terminal.wait_for(PROMPT)
        terminal.type("step\n")
        assert "ran   2: cache.increment n" in terminal.wait_for(PROMPT)
        terminal.type("\x04")
        assert terminal.ended() == 0
    finally:
        terminal.close()


def test_a_process_without_standard_input_says_so_at_once(files: Path) -> None:
    arguments = ["trace", "g.oi", "--model", "m.oinf", "--input", "x=1"]
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "openinfer", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=limit_s(60), check=False)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == "error[file]: standard input is closed: <standard input>\n"


def test_a_graph_without_a_text_can_be_stepped_through(files: Path) -> None:
    graph = CliRunner().invoke(main, ["graph", "g.oi", "--json"])
    Path("g.json").write_text(graph.stdout)
    arguments = ["trace", "g.json", "--model", "m.oinf", "--input", "x=1"]
    result = CliRunner().invoke(main, arguments, input="break op log\nc\nstack\n")
    assert result.exit_code == 0
    assert "next  [head] op log(h) >> y" in result.output
    refused = CliRunner().invoke(main, arguments, input="break 8\n")
    assert (refused.exit_code, "it does not come from a text" in refused.stderr) == (1, True)


def test_with_json_commands_and_their_output_are_one_document(files: Path) -> None:
    result = trace("step", "print x", options=("--input", "x=[1, 2]", "--json"))
    document = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert [entry["command"] for entry in document["commands"]] == [None, "step", "print x"]
    assert document["commands"][0]["output"][0].startswith("next")
    assert document["commands"][2]["output"][0].startswith("x: f32[2] = {1.00, 2.00}")
    assert document["events"][0]["block_name"] == "entry"
