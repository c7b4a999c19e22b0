"""`openinfer trace`: run a program statement by statement and look into it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.findings import print_unlogged_warnings
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.options import device_option
from openinfer.cli.program_options import INPUTS, StepValues, give_first_values, inputs_hinted, program_options
from openinfer.cli.progress import made_executor
from openinfer.cli.terminal import print_document, wants_colour
from openinfer.regular_files import read_bounded, read_regular

if TYPE_CHECKING:
    from openinfer.cli.program_argument import ProgramArgument
    from openinfer.cli.run_values import Input
    from openinfer.cli.stepping import Dialogue
    from openinfer.simulate import Executor

PROMPT = "(trace) "

_COMMANDS = "Commands of the dialogue"


@click.command(name="trace", cls=HeadedCommand, short_help="Run a program statement by statement.")
@program_options()
@device_option
@option_under(_COMMANDS)(
    "--break", "breaks", multiple=True, metavar="WHERE", help="Breakpoint, as the command `break` takes it."
)
@option_under(_COMMANDS)(
    "--watch", "watches", multiple=True, metavar="EXPRESSION", help="Report each change of its value."
)
@option_under(_COMMANDS)("--script", metavar="FILE", help="Read commands from a file; - for standard input.")
@option_under(INPUTS)("--state", "state_path", metavar="FILE", help="Persistent memory to start with.")
@click.option("--json", "as_json", is_flag=True, help="Print one object: commands with their output, and the trace.")
def command(
    *,
    program: ProgramArgument,
    inputs: list[Input],
    initial: list[Input],
    steps: int,
    sizes: dict[str, int],
    limits: dict[str, int],
    seed: int,
    placement: bool,
    device: str,
    breaks: tuple[str, ...],
    watches: tuple[str, ...],
    script: str | None,
    state_path: str | None,
    as_json: bool,
) -> None:
    """Run GRAPH (a .oi program, a .json graph, or a model such as model.onnx) statement by statement.

    Commands inspect its values. They come from the terminal, from --script, or from standard input. `help` lists them.

    \b
    openinfer trace digits.oi -m digits.oinf --input image=random
    openinfer trace digits.oi -m digits.oinf --input image=random --break nan --watch "max(hidden)"
    echo "break op softmax; continue; print logits" | tr ";" "\\n" |
        openinfer trace digits.oi -m digits.oinf --input image=random

    With --json the commands come from --script or standard input. The object has the lists `commands`, of objects with
    `command` (null for the beginning) and the lines of its `output`, and `events`, the trace as --trace of
    `openinfer run` writes it.

    An interactive session continues after an error; a script ends at its first error, with exit code 1.
    """
    from openinfer.cli.graph_argument import STANDARD_INPUT
    from openinfer.cli.stepping import Dialogue
    from openinfer.inspect import Inspector
    from openinfer.simulate import Simulator

    if program.graph == STANDARD_INPUT and script in (None, STANDARD_INPUT):
        raise click.UsageError("commands and the program cannot both come from standard input: give --script FILE")
    if initial and state_path is not None:
        raise click.UsageError("--initial and --state both give persistent variables their values: leave out one")
    lines = _script(script)
    if as_json and lines is None:
        raise click.UsageError(
            "--json is for commands of a script: give --script FILE, or write them to standard input"
        )
    with program.opened() as opened:
        given: dict[str, Any] = {"device": device, "sizes": sizes, "placement": placement, "limits": limits}
        simulator = Simulator(opened.model, opened.graph, trace=True, timer=True, echo=False, **given)
        print_unlogged_warnings(simulator.warnings)
        with made_executor(simulator) as executor:
            give_first_values(executor, opened.named(initial), seed)
            if state_path is not None:
                executor.restore(state_path)
            inspector = Inspector(executor)
            values = StepValues(opened.named(inputs), executor, opened.model, seed)
            transcript: list[dict[str, Any]] = [{"command": None, "output": []}]

            def record(text: str) -> None:
                transcript[-1]["output"] += text.splitlines()

            say = record if as_json else click.echo
            dialogue = Dialogue(inspector, values.at, steps, colour=wants_colour(sys.stdout), say=say)
            with closing(inspector), inputs_hinted():
                for line in (*(f"break {point}" for point in breaks), *(f"watch {name}" for name in watches)):
                    dialogue.do(line)
                if as_json:
                    _record(dialogue, lines or [], transcript)
                else:
                    _converse(dialogue, lines, executor)
            events = executor.trace()
    if as_json:
        from openinfer.serialize import trace_to_json

        print_document({"commands": transcript, "events": trace_to_json(events)})


def _record(dialogue: Dialogue, lines: list[str], transcript: list[dict[str, Any]]) -> None:
    """Carry out the commands of a script; each has an entry of the transcript."""
    dialogue.begin()
    for line in filter(str.strip, lines):
        transcript.append({"command": line.strip(), "output": []})
        if not dialogue.do(line):
            return


def _script(script: str | None) -> list[str] | None:
    """Return the commands of a script or of standard input; None for a dialogue with a person."""
    from openinfer.dsl import decoded

    if script is not None and script != "-":
        return decoded(read_regular(script), name=script).splitlines()
    if script is None and sys.stdin.isatty():
        return None
    name = "<standard input>"
    return decoded(read_bounded(sys.stdin.buffer, name), name=name).splitlines()


def _converse(dialogue: Dialogue, lines: list[str] | None, executor: Executor) -> None:
    from openinfer.validate.numbers import number_names

    dialogue.begin()
    if lines is not None:
        dialogue.follow(lines, PROMPT)
        return
    click.echo("`help` lists the commands, `quit` leaves")
    program = executor.program
    operators = {op.op for op in program.ops.values()}
    variables = program.variables.keys() - number_names(program.graph)
    _edit_lines([*sorted(variables), *program.tables, *program.graph.blocks, *sorted(operators)])
    dialogue.converse(_read)
    click.echo("")


def _read() -> str | None:
    """Return a line that a person types; None at the end of input."""
    try:
        return input(PROMPT)
    except EOFError:
        return None


def _edit_lines(names: list[str]) -> None:
    """Let a person edit lines, call earlier ones back, and complete commands and names, where Python can."""
    try:
        import readline
    except ImportError:
        return
    from openinfer.cli.stepping_words import WORDS

    commands = [word.name for word in WORDS]

    def complete(text: str, state: int) -> str | None:
        known = names if readline.get_begidx() else commands
        found = [f"{each} " for each in known if each.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
