"""The dialogue of `openinfer trace`: reads commands, runs them, shows where the program is."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from openinfer.cli import stepping_views as views
from openinfer.cli.failures import rendered
from openinfer.cli.program_options import inputs_hinted
from openinfer.cli.run_report import save_array
from openinfer.cli.stepping_words import CODE, STEPPING, breakpoint_of, whole, word
from openinfer.cli.trace_files import write_trace
from openinfer.errors import ExecutionError, OpenInferError
from openinfer.inspect.conditions import Access, parse
from openinfer.plugins.output import diverted_output

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from types import FrameType
    from typing import Any

    from openinfer.inspect import Inspector, Stop

    InputsOf: TypeAlias = Callable[[int], Mapping[str, Any]]
    """The inputs of a step by its number, from 0."""


class Dialogue:
    """Steps of a program under inspection.

    Args:
        inspector: what runs it.
        inputs_of: values for each step.
        steps: how many steps there are.
        colour: whether errors are shown in colour.
        say: takes what commands print, lines without the last line end.
    """

    def __init__(
        self,
        inspector: Inspector,
        inputs_of: InputsOf,
        steps: int,
        *,
        colour: bool,
        say: Callable[[str], None] = click.echo,
    ) -> None:
        self._inspector = inspector
        self._inputs_of = inputs_of
        self._steps = steps
        self._colour = colour
        self._say = say
        self._begun = 0
        self._stop: Stop | None = None
        self._repeated = ""
        self._commands: Mapping[str, Callable[[str], None]] = {
            "step": self._step,
            "next": self._without("next", lambda: self._run(inspector.next)),
            "turn": self._without("turn", lambda: self._run(inspector.turn)),
            "finish": self._without("finish", lambda: self._run(inspector.finish)),
            "continue": self._without("continue", self._continue),
            "break": self._break,
            "watch": self._watch,
            "delete": lambda text: inspector.remove(whole(text, "the number of a breakpoint or watch")),
            "print": lambda text: self._value(text, "print"),
            "show": lambda text: self._value(text, "show"),
            "variables": self._without("variables", lambda: self._show(views.variable_lines(inspector.executor))),
            "list": self._list,
            "stack": self._without("stack", lambda: self._show(views.stack_lines(inspector))),
            "operators": self._without("operators", self._operators),
            "memory": self._without("memory", lambda: self._show(views.live_lines(inspector.executor))),
            "export": self._export,
            "save": self._save,
            "help": self._without("help", lambda: self._show(views.help_lines())),
        }

    def begin(self) -> None:
        """Begin the next step, and show where it is.

        Raises:
            OpenInferError: an input does not fit.
        """
        number = self._begun
        values = self._inputs_of(number)
        self._begun += 1
        with diverted_output():
            stop = self._inspector.begin(**values)
        self._report(stop)

    def do(self, line: str) -> bool:
        """Carry out a command; return whether to go on.

        An empty one repeats the last that ran statements; what begins with ``#`` is a comment.

        Raises:
            OpenInferError: the command is none, or what it does failed.
            OSError: a file cannot be written.
        """
        text = line.strip() or self._repeated
        if not text or text.startswith("#"):
            return True
        name, _, rest = text.partition(" ")
        command = word(name)
        self._repeated = text if command.name in STEPPING else ""
        if command.name == "quit":
            return False
        self._commands[command.name](rest.strip())
        return True

    def converse(self, read: Callable[[], str | None]) -> None:
        """Carry out commands of a person until there are no more; mistakes are reported, and the dialogue goes on."""
        going = True
        while going:
            try:
                line = read()
            except KeyboardInterrupt:
                self._say("\n`quit` or Ctrl-D leaves")
                continue
            if line is None:
                return
            going = self._tried(line)

    def follow(self, lines: Sequence[str], prompt: str) -> None:
        """Carry out the commands of a script, each shown after a prompt; empty lines do nothing.

        Raises:
            OpenInferError, OSError: a command is wrong or failed.
        """
        for line in filter(str.strip, lines):
            self._show([f"{prompt}{line.strip()}"])
            if not self.do(line):
                return

    def _tried(self, line: str) -> bool:
        try:
            with inputs_hinted():
                return self.do(line)
        except (OpenInferError, OSError) as error:
            self._say(rendered(error, colour=self._colour))
            return True

    # Commands

    def _step(self, text: str) -> None:
        count = whole(text, "how many statements to run") if text else 1
        self._run(lambda: self._inspector.step(max(count, 1)))

    def _continue(self) -> None:
        begins = not self._inspector.is_running and self._begun < self._steps
        if begins:
            self.begin()
        if not begins or (self._stop is not None and not self._stop.hits and self._inspector.is_running):
            self._run(self._inspector.resume)

    def _run(self, run: Callable[[], Stop]) -> None:
        """Run statements, or begin the next step where none is running.

        An interrupt from the keyboard stops after the statement that runs, a second one at once.
        """
        if not self._inspector.is_running:
            if self._begun == self._steps:
                message = "the last step is over: `print` and `export` still work, `quit` leaves"
                raise ExecutionError(message, code=CODE)
            self.begin()
            return
        with _interrupts(self._inspector.interrupt), diverted_output():
            stop = run()
        self._report(stop)

    def _report(self, stop: Stop) -> None:
        self._stop = stop
        self._show(views.stop_lines(stop, self._inspector.executor))
        if not stop.ended:
            return
        self._say(f"step {self._begun} of {self._steps} is over")
        for name in self._inspector.executor.outputs():
            self._show(views.output_lines(name, self._inspector.executor.result(name)))

    def _break(self, text: str) -> None:
        if not text:
            self._show(views.point_lines(self._inspector))
            return
        found = breakpoint_of(text)
        self._say(f"breakpoint {self._inspector.add(found)}: {found}")

    def _watch(self, text: str) -> None:
        number = self._inspector.watch(self._needed(text, "watch"))
        watch, value = self._inspector.watches[number]
        self._show([f"watch {number}: {watch.text} = {value}"])

    def _value(self, text: str, name: str) -> None:
        self._show(views.value_lines(self._inspector.values, self._needed(text, name), whole=name == "show"))

    def _list(self, text: str) -> None:
        line = whole(text, "the number of a line") if text else None
        place = None if self._stop is None else self._stop.next
        self._show(views.listing(self._inspector, None if place is None else place.node, line))

    def _operators(self) -> None:
        self._show(views.operator_lines(self._inspector.executor.trace()))

    def _export(self, text: str) -> None:
        file = self._needed(text, "export")
        executor = self._inspector.executor
        write_trace(file, None, executor)
        self._show([f"{len(executor.trace())} events are in {file}"])

    def _save(self, text: str) -> None:
        name, _, file = self._needed(text, "save").rpartition(" ")
        access = parse(name) if name.strip() else None
        if not isinstance(access, Access) or not file.endswith(".npy"):
            raise ExecutionError("expected a variable and a file, such as `save h h.npy`", code=CODE)
        save_array(Path(file), self._inspector.values.tensor(access))

    def _show(self, lines: Iterable[str]) -> None:
        self._say(views.printed(lines))

    def _needed(self, text: str, name: str) -> str:
        if not text:
            raise ExecutionError(f"`{name}` takes {word(name).usage}", code=CODE)
        return text

    def _without(self, name: str, run: Callable[[], None]) -> Callable[[str], None]:
        """Return a command that takes no arguments."""

        def checked(text: str) -> None:
            if text:
                raise ExecutionError(f"`{name}` takes nothing, found {text!r}", code=CODE)
            run()

        return checked


@contextmanager
def _interrupts(first: Callable[[], None]) -> Generator[None]:
    """Let an interrupt from the keyboard call a function, and a second one raise `KeyboardInterrupt`.

    A process that was started with interrupts ignored, as shells start those in the background, keeps that.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        first()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
