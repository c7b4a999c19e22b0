"""`openinfer fmt`: format program texts, with their comments."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from difflib import unified_diff
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli import failures
from openinfer.cli.findings import as_json, print_warnings
from openinfer.cli.graph_argument import STANDARD_INPUT
from openinfer.cli.program_argument import OpenModels, model_without_file
from openinfer.cli.program_files import program_files
from openinfer.cli.project_file import program_options_of
from openinfer.cli.terminal import print_document, wants_colour, width_of
from openinfer.diagnostics import Diagnostic, Severity, printable
from openinfer.dsl import decoded, text_of_file
from openinfer.dsl.formatting import formatted
from openinfer.dsl.upgrade import Change, upgrade
from openinfer.errors import OpenInferError
from openinfer.regular_files import read_bounded
from openinfer_oinf.atomicfile import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.cli.project_file import ProgramOptions
    from openinfer.model import Model
    from openinfer.validate.inference import InferredType


_STANDARD_INPUT_NAME = "<standard input>"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A text before and after; ``after`` is None where an error keeps it as it is.

    ``changes`` are those of an upgrade, or declarations that were written out; ``divisions`` are lines that an upgrade
    leaves, and that may mean something else than when they were written.
    """

    before: str
    after: str | None
    changes: tuple[Change, ...] = ()
    error: Exception | None = None
    divisions: tuple[int, ...] = ()

    @property
    def differs(self) -> bool:
        return self.after is not None and self.before != self.after


@click.command(name="fmt", short_help="Format program texts in place.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is not laid out.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change as a unified diff.")
@click.option("--upgrade", "upgrading", is_flag=True, help="Rewrite the earlier syntax where its meaning is clear.")
@click.option("--assign", "assigning", is_flag=True, help="Add declarations of temporaries.")
@click.option(
    "--model",
    "-m",
    metavar="FILE",
    help="Model whose sizes and tensors --assign and --upgrade infer from, for programs that need one.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print a list of objects, one for each file.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    check: bool,
    diff: bool,
    upgrading: bool,
    assigning: bool,
    model: str | None,
    json_wanted: bool,
) -> None:
    """Format program text FILES in place; - reads standard input and writes standard output.

    A folder means the .oi texts in it and below, except in hidden folders. A text with errors stays as it is; the
    others are formatted, and the exit status is 1.

    Every statement is put on one line, indented by two spaces a level. Order and comments stay as they are; a comment
    inside a statement moves in front of it. With --upgrade, each change is reported with its line, and so is each
    division that may be old enough to have had another result for a divisor of 0.

    With --upgrade and a model, of --model or the project file, data of the model that nothing is declared for get a
    declaration with their type, and temporaries get one as with --assign, where the rewritten program fits the model.
    A model of the project file that cannot be opened is a warning, one of --model an error.

    An object of --json has `file`, `changed` (or would be), `changes` (line, text) and `divisions` (lines) as --upgrade
    and --assign report them, and `findings`; `diff`, a list of lines, with --diff, and `text` of standard input.

    With --assign, each undeclared temporary gets an `assign` with its type, which the model determines. Dimensions
    are written as sizes where possible. A temporary whose shape is known only at run time is reported and not changed.
    """
    if model is not None and not (assigning or upgrading):
        raise click.UsageError("--model goes with --assign or --upgrade, and neither is given")
    if assigning and upgrading:
        raise click.UsageError("--upgrade with --model declares temporaries too: leave --assign out")
    changes_files = not (check or diff)
    outcomes: list[Outcome] = []
    documents: list[dict[str, Any]] = []
    with OpenModels() as models:
        with_model = _upgraded if upgrading else _assigned if assigning else None
        change = partial(with_model, path=model, models=models) if with_model else _laid_out
        for file in program_files(files):
            outcome = _outcome(file, change)
            outcome = _written(file, outcome) if changes_files else outcome
            outcomes.append(outcome)
            if json_wanted:
                documents.append(_document(file, outcome, with_diff=diff))
            else:
                _report(file, outcome, check=check, diff=diff, is_upgrade=upgrading)
    if json_wanted:
        print_document(documents)
    elif len(outcomes) != 1:
        _print_counts(outcomes, done=changes_files)
    if any(outcome.error is not None or (check and outcome.differs) for outcome in outcomes):
        ctx.exit(failures.WRONG_INPUT)


def _report(file: str, outcome: Outcome, *, check: bool, diff: bool, is_upgrade: bool) -> None:
    """Print what became of a text, or what would."""
    if diff:
        _print_diff(file, outcome)
    elif file == STANDARD_INPUT and not check:
        click.echo(outcome.after or "", nl=False)
    elif outcome.differs:
        click.echo(f"{printable(file)}: {'not laid out' if check else 'laid out'}")
    if is_upgrade and (outcome.changes or outcome.error is None):
        _print_changes(file, outcome, done=not (check or diff))
    elif outcome.changes:
        _print_assigned(file, outcome)
    if outcome.error is not None:
        _print_error(outcome.error)


def _document(file: str, outcome: Outcome, *, with_diff: bool) -> dict[str, Any]:
    """Return what became of a text, or what would; ``text`` is for standard input, which is not written to."""
    findings = () if outcome.error is None else failures.findings_of(outcome.error)
    document: dict[str, Any] = {
        "file": _name(file),
        "changed": outcome.differs,
        "changes": [asdict(change) for change in outcome.changes],
        "divisions": list(outcome.divisions),
        "findings": [as_json(finding) for finding in findings],
    }
    if file == STANDARD_INPUT:
        document["text"] = outcome.after
    if with_diff:
        document["diff"] = [*_diff(_name(file), outcome.before, outcome.after)] if outcome.after is not None else []
    return document


def _outcome(file: str, change: Callable[[str, str], Outcome]) -> Outcome:
    name = _name(file)
    before = ""
    try:
        before = _read(file, name)
        return change(before, name)
    except (OpenInferError, click.UsageError, OSError) as error:
        return Outcome(before, None, error=error)


def _laid_out(text: str, name: str) -> Outcome:
    return Outcome(text, formatted(text, name=name))


def _upgraded(text: str, name: str, *, path: str | None, models: OpenModels) -> Outcome:
    """Return a text without earlier syntax; with a model, also with the declarations that it determines.

    Without ``path`` the model is that of the project file, where it can be opened; otherwise a warning is printed.

    Raises:
        ModelError, OSError: the model at ``path`` cannot be opened.
    """
    path = path or _project_model(name, models)
    if path is None:
        rewritten = upgrade(text, name=name)
        return Outcome(text, rewritten.text, rewritten.changes, rewritten.error, rewritten.divisions)
    rewritten = upgrade(text, name=name, type_of=partial(_type_of, models.at(path)))
    changes, after = rewritten.changes, rewritten.text
    if after is not None and changes:
        try:
            assigned = _assigned(after, name, path=path, models=models)
        except OpenInferError as error:
            why = str(error).partition("\n")[0]
            changes = (*changes, Change(0, f"temporaries stay undeclared, the program does not fit the model: {why}"))
        else:
            after, changes = assigned.after, (*changes, *assigned.changes)
    return Outcome(text, after, changes, rewritten.error, rewritten.divisions)


def _project_model(name: str, models: OpenModels) -> str | None:
    """Return the path of the model that the project file names, if it can be opened: an upgrade needs no model."""
    path = _project_options(name).model
    if path is None:
        return None
    try:
        models.at(path)
    except (OpenInferError, OSError) as error:
        reason = failures.findings_of(error)[0]
        message = f"{name}: upgraded without the model of the project file: {reason.message}"
        print_warnings([Diagnostic(code=reason.code, message=message, severity=Severity.WARNING)])
        return None
    return path


def _type_of(model: Model, data: str, is_pattern: bool) -> str | None:
    """Return the type of model data: of a pattern, the one that all data of such names have."""
    if not is_pattern:
        names = [data] if data in model.tensors else []
    else:
        numbered = re.sub(r"\\\{\w+\\\}", "[0-9]+", re.escape(data))
        names = [name for name in model.tensors if re.fullmatch(numbered, name)]
    tensors = [model.tensors[name] for name in names]
    types = {f"{tensor.dtype.name}{list(tensor.shape) if tensor.shape else ''}" for tensor in tensors}
    return types.pop() if len(types) == 1 else None


def _assigned(text: str, name: str, *, path: str | None, models: OpenModels) -> Outcome:
    """Return a text with the inferred declarations written out.

    Args:
        path: file of the model, by default that of the project file.

    Raises:
        OpenInferError: the program has errors, or does not fit the model.
        UsageError: the program needs a model, and none is named.
    """
    from openinfer.dsl import graph
    from openinfer.plugins.environment import Environment
    from openinfer.validate import resolve
    from openinfer.validate.assigning import with_assigns
    from openinfer.validate.inference import inferred_types

    plain = formatted(text, name=name)
    program = graph(plain, name=name)
    options = _project_options(name)
    path = path or options.model
    model = models.at(path) if path is not None else model_without_file(program, name, options.limits)
    types = inferred_types(resolve(program, model), model, Environment.default())
    assigned = with_assigns(plain, program, types)
    left = (
        Change(_line(type_), f"not declared, its shape is known only when the program runs: {type_}")
        for type_ in assigned.left
    )
    changes = [*(Change(_line(type_), f"assign {type_};") for type_ in assigned.written), *left]
    return Outcome(text, formatted(assigned.text, name=name), tuple(changes))


def _project_options(name: str) -> ProgramOptions:
    return program_options_of(STANDARD_INPUT if name == _STANDARD_INPUT_NAME else name)


def _line(type_: InferredType) -> int:
    return type_.span.line if type_.span is not None else 0


def _read(file: str, name: str) -> str:
    return decoded(read_bounded(sys.stdin.buffer, name), name=name) if file == STANDARD_INPUT else text_of_file(file)


def _name(file: str) -> str:
    return _STANDARD_INPUT_NAME if file == STANDARD_INPUT else file


def _written(file: str, outcome: Outcome) -> Outcome:
    """Write a text that has no errors; return the outcome, which may be that it cannot be written."""
    if file == STANDARD_INPUT or outcome.after is None or not outcome.differs:
        return outcome
    try:
        _replace(Path(file), outcome.after)
    except OSError as error:
        return Outcome(outcome.before, None, outcome.changes, OSError(error.errno, error.strerror, file))
    return outcome


def _print_changes(file: str, outcome: Outcome, *, done: bool) -> None:
    """Report the rewritings of an upgrade: to standard error where standard output has a text or a diff."""
    is_done = done and outcome.error is None
    head = "upgraded" if is_done else "would be upgraded" if outcome.error is None else "not upgraded, errors are left"
    lines = (
        f"  line {change.line}: {change.text}" if change.line else f"  {change.text}" for change in outcome.changes
    )
    text = [f"{_name(file)}: {head if outcome.changes else 'has no earlier syntax'}", *lines]
    text += [f"  line {line}: note: {_DIVIDED}" for line in outcome.divisions]
    click.echo("\n".join(map(printable, text)), err=not done or file == STANDARD_INPUT or outcome.error is not None)


_DIVIDED = "a float divided by 0 is an infinity or NaN (IEEE 754); div_by_zero_mask=nan gives NaN, as it was earlier"
"""What an upgrade says of divisions in today's syntax."""


def _print_assigned(file: str, outcome: Outcome) -> None:
    """Report the declarations that were written out on standard error; lines are those of the text laid out."""
    lines = (f"{_name(file)}:{change.line}: {change.text}" for change in outcome.changes)
    click.echo("\n".join(map(printable, lines)), err=True)


def _print_error(error: Exception) -> None:
    text = failures.rendered(error, colour=wants_colour(sys.stderr), width=width_of(sys.stderr))
    click.echo(text, err=True, color=wants_colour(sys.stderr))


def _print_counts(outcomes: Sequence[Outcome], *, done: bool) -> None:
    """Report how many of several files changed."""
    changed = sum(outcome.differs for outcome in outcomes)
    wrong = sum(outcome.error is not None for outcome in outcomes)
    counts = [f"{changed} {'laid out' if done else 'to lay out'}", f"{len(outcomes) - changed - wrong} unchanged"]
    counts += [f"{wrong} with errors"] if wrong else []
    click.echo(f"{len(outcomes)} files: {', '.join(counts)}", err=True)


def _print_diff(file: str, outcome: Outcome) -> None:
    if not outcome.differs:
        return
    colour = wants_colour(sys.stdout)
    for line in _diff(printable(_name(file)), outcome.before, outcome.after or ""):
        style = next((style for mark, style in _STYLES.items() if line.startswith(mark)), None) if colour else None
        # A file takes the lines as they are, so that they can be applied; a terminal could act on them.
        shown = "\t".join(map(printable, line.split("\t"))) if sys.stdout.isatty() else line
        click.echo(f"\x1b[{style}m{shown}\x1b[0m" if style else shown, color=colour)


_STYLES = {"---": "1", "+++": "1", "@@": "36", "-": "31", "+": "32"}
"""ANSI styles of the lines of a diff by what they start with."""


def _diff(name: str, before: str, after: str) -> Iterator[str]:
    """Yield the lines of a unified diff, without line ends."""
    lines = (list(StringIO(text)) for text in (before, after))
    for line in unified_diff(*lines, fromfile=name, tofile=name):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _replace(file: Path, text: str) -> None:
    """Write a file so that it is whole at every moment, and keep its mode."""
    with AtomicFile.writing(file) as written:
        written.write_whole(text.encode("utf-8"))
