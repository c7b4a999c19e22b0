"""`openinfer check`: every finding about programs, with carets or as JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from openinfer.cli.failures import findings_of
from openinfer.cli.findings import as_json, type_as_json
from openinfer.cli.graph_argument import read_program
from openinfer.cli.import_options import import_options
from openinfer.cli.options import limit_option, size_option
from openinfer.cli.program_argument import ProgramArgument, is_imported
from openinfer.cli.program_files import program_files
from openinfer.cli.project_file import program_options_of
from openinfer.cli.terminal import print_document, wants_colour, width_of
from openinfer.diagnostics import Diagnostic, Severity, Source, as_errors, printable, render
from openinfer.errors import DslSyntaxError, SerializationError
from openinfer.ir.text import node_desc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.cli.import_options import ImportChoices
    from openinfer.diagnostics import Diagnostic
    from openinfer.dsl.reading import Reading
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.validate.inference import InferredType


@click.command(name="check", short_help="Report the errors and warnings of programs.")
@click.argument("graphs", metavar="GRAPH...", nargs=-1, required=True)
@click.option("--model", "-m", metavar="FILE", help="Check against this model too: sizes, types, operators.")
@click.option("--device", metavar="NAME", help="With a model: check that this device can run the program too.")
@click.option("--target", metavar="NAME", help="With a model: check that this synth target supports the program too.")
@import_options("GRAPH such as *.onnx: ")
@size_option
@limit_option
@click.option("--strict", is_flag=True, help="Turn warnings into errors.")
@click.option(
    "--explain-types", is_flag=True, help="With a model: print the types of temporaries that nothing declares."
)
@click.option("--json", "json_wanted", is_flag=True, help="Print a list of objects, one for each finding.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    graphs: tuple[str, ...],
    model: str | None,
    device: str | None,
    target: str | None,
    sizes: dict[str, int],
    limits: dict[str, int],
    strict: bool,
    explain_types: bool,
    json_wanted: bool,
    choices: ImportChoices,
) -> None:
    """Report all errors and warnings of each GRAPH (a .oi text, a .json graph, or -); exit 1 if one has errors.

    A folder means the .oi texts in it and below, except in hidden folders. The model of --model applies to all of them;
    without it, each program has that of its project file, if any. A GRAPH such as model.onnx is imported and checked
    with its own weights; it has to be the only one.

    The device of --device need not be usable here. Operators that fall back to another device are warnings.

    With --explain-types, --json prints an object: `findings` is the list, `types` has an object for each type.
    """
    imported = _imported(graphs)
    if limits and device is None and target is None:
        raise click.UsageError("--limit is for a device or a target: name one with --device or --target")
    places = Places(device, target, sizes, limits)
    asked = Asked(places, strict, explain_types)
    reports: list[Report] = []
    if imported is None:
        choices.refuse_for(", ".join(graphs))
        for path, files in _by_model(program_files(graphs), model).items():
            reports += _reports(files, path, asked)
    else:
        argument = ProgramArgument(graph=imported, model=model, choices=choices)
        with argument.opened(strict=strict) as program:
            report = _report(imported, partial(_reading, program.graph, imported), program.model, asked)
            reports += [report, *_unused([report], program.model, model or imported)]
    if json_wanted:
        findings = [{"file": report.file, **as_json(finding)} for report in reports for finding in report.findings]
        types = [{"file": report.file, **type_as_json(found)} for report in reports for found in report.types]
        print_document({"findings": findings, "types": types} if explain_types else findings)
    else:
        _print(reports)
        if explain_types:
            _print_types(reports)
        if any(report.is_read and not report.has_model for report in reports):
            click.echo("sizes and types were not checked: give a model with --model")
    if any(_errors(report.findings) for report in reports):
        ctx.exit(1)


def _imported(graphs: Sequence[str]) -> str | None:
    """Return the GRAPH that is a model of another format; None where there is none.

    Raises:
        UsageError: there are others.
    """
    imported = next(filter(is_imported, graphs), None)
    if imported is not None and len(graphs) > 1:
        raise click.UsageError(f"{imported} is imported with its own weights: check it alone")
    return imported


def _by_model(files: Sequence[str], model: str | None) -> Mapping[str | None, Sequence[str]]:
    """Return programs by the model to check them against: that of the command line, or else of their project file."""
    groups: dict[str | None, list[str]] = {}
    for file in files:
        groups.setdefault(model or program_options_of(file).model, []).append(file)
    return groups


def _reports(files: Sequence[str], path: str | None, asked: Asked) -> Sequence[Report]:
    """Return the reports about programs that share a model, and about the model."""
    if path is None:
        return [_report(file, partial(read_program, file), None, asked) for file in files]
    from openinfer.model import ModelLoader

    with ModelLoader.open(path) as model:
        reports = [_report(file, partial(read_program, file), model, asked) for file in files]
        return [*reports, *_unused(reports, model, path)]


@dataclass(frozen=True, slots=True)
class Report:
    """The findings about a file; where it cannot be read, one that says why.

    ``of_model`` is set where the file is the model that programs are checked against, ``has_model`` where there is one.
    """

    file: str
    findings: Sequence[Diagnostic]
    is_read: bool = True
    types: Sequence[InferredType] = ()
    resolved: ResolvedGraph | None = None
    of_model: bool = False
    has_model: bool = True


@dataclass(frozen=True, slots=True)
class Places:
    """Where programs shall run: a device, a synth target, sizes in place of the model's, and limits there."""

    device: str | None
    target: str | None
    sizes: Mapping[str, int]
    limits: Mapping[str, int]

    def with_limits(self, limits: Mapping[str, int]) -> Places:
        """Return these places with limits where they have no others of the same names."""
        return replace(self, limits={**limits, **self.limits})


@dataclass(frozen=True, slots=True)
class Asked:
    """What is reported about each program."""

    places: Places
    strict: bool
    explain_types: bool

    def refuse_without_model(self) -> None:
        """Refuse options that are about sizes and types.

        Raises:
            UsageError: one was written.
        """
        places = self.places
        needs = {
            "--device needs --model: what a device runs depends on sizes and types": places.device,
            "--target needs --model: without sizes and types it cannot be known what a target covers": places.target,
            "--size needs --model: it takes the place of a size of the model": places.sizes,
            "--explain-types needs --model: types follow from sizes and tensors": self.explain_types,
        }
        for message, value in needs.items():
            if value:
                raise click.UsageError(message)


def _reading(graph: Graph, file: str) -> Reading:
    """Return the program that a file was imported as; it has no text that findings could point into."""
    from openinfer.dsl.reading import Reading

    return Reading(source=Source(file, ""), graph=graph)


def _report(file: str, read: Callable[[], Reading], model: Model | None, asked: Asked) -> Report:
    """Return the findings about a program; without a model those that need none."""
    try:
        reading = read()
    except (DslSyntaxError, SerializationError, OSError) as error:
        # A document that is not a graph has findings of its own; without any, there is no text to point into.
        return Report(
            file, findings_of(error), is_read=bool(getattr(error, "diagnostics", ())), has_model=model is not None
        )
    places = asked.places.with_limits(program_options_of(file).limits)
    known = model or _own_model(reading.graph, places, asked)
    found, resolved = _findings(reading, known, places)
    types = _types(resolved, known) if asked.explain_types and known is not None and resolved is not None else ()
    findings = as_errors(found) if asked.strict else found
    return Report(file, findings, types=types, resolved=resolved, has_model=known is not None)


def _own_model(graph: Graph, places: Places, asked: Asked) -> Model | None:
    """Return a model without tensors for a program that takes nothing from one; None for others.

    Raises:
        UsageError: there is none, and options are about sizes and types.
    """
    from openinfer.model import Model
    from openinfer.validate.model_needs import model_needs

    needs, values = model_needs(graph), {**places.limits, **places.sizes}
    if needs.without(values):
        asked.refuse_without_model()
        return None
    return Model.from_arrays(sizevars={name: values[name] for name in needs.sizes})


def _types(resolved: ResolvedGraph, model: Model) -> Sequence[InferredType]:
    """Return the types of what the program does not declare."""
    from openinfer.plugins.environment import Environment
    from openinfer.validate.inference import inferred_types

    return inferred_types(resolved, model, Environment.default())


def _unused(reports: Sequence[Report], model: Model, path: str) -> Sequence[Report]:
    """Return what is said of tensors that no program uses, where all programs are understood."""
    from openinfer.validate.missing_data import unused_tensors

    programs = [report.resolved for report in reports if report.resolved is not None]
    found = unused_tensors(programs, model) if len(programs) == len(reports) else ()
    return [Report(path, found, of_model=True)] if found else []


def _findings(
    reading: Reading, model: Model | None, places: Places
) -> tuple[Sequence[Diagnostic], ResolvedGraph | None]:
    """Return the independent findings of every phase, and the program with its sizes where it has no errors."""
    from openinfer.validate import checked_program, program_findings

    if model is None:
        return program_findings(reading), None
    checked = checked_program(reading, model=model, device=places.device, sizes=places.sizes)
    refused = () if checked.resolved is None else _refused(checked.resolved, model, places)
    # A device and a target may share their kernels, and then refuse the same statements.
    return (*dict.fromkeys(refused), *checked.findings), checked.resolved


def _refused(resolved: ResolvedGraph, model: Model, places: Places) -> Sequence[Diagnostic]:
    """Return what a device and a target refuse. The simulator and planner are imported only where one is needed."""
    from openinfer.plugins.environment import Environment

    found: list[Diagnostic] = []
    if places.device is not None:
        from openinfer.simulate.execute.whole_program import device_findings

        found += device_findings(resolved, model, places.device, Environment.default(), places.limits)
    if places.target is not None:
        from openinfer.synth import Synthesizer

        found += Synthesizer(places.target, limits=places.limits).refusals(model, resolved.graph, sizes=places.sizes)
    return found


def _print(reports: Sequence[Report]) -> None:
    """Print findings with a line of counts for each file; for many files, for those with findings and for all.

    Files that cannot be read are reported on standard error.
    """
    programs = sum(not report.of_model for report in reports)
    for report in reports:
        stream = sys.stdout if report.is_read else sys.stderr
        colour, width = wants_colour(stream), width_of(stream)
        for finding in report.findings:
            click.echo(render(finding, colour=colour, width=width), err=not report.is_read, color=colour)
        if report.is_read and not report.of_model and (report.findings or programs == 1):
            click.echo(f"{report.file}: {_counts(report.findings)}")
    if programs != 1:
        every = [finding for report in reports for finding in report.findings]
        click.echo(f"{_count(programs, 'program')} checked: {_counts(every)}")


def _print_types(reports: Sequence[Report]) -> None:
    """Print the types that were inferred, each with where and by which statement."""
    for report in (report for report in reports if not report.of_model):
        for found in report.types:
            where = f"{found.span.line}:{found.span.column}: " if found.span is not None else ""
            click.echo(printable(f"{report.file}:{where}{found}  // {node_desc(found.node)}"))
        if not report.types and len(reports) == 1:
            click.echo(f"{report.file}: no temporary without a declaration has a type")


def _errors(findings: Sequence[Diagnostic]) -> int:
    return sum(finding.severity is Severity.ERROR for finding in findings)


def _counts(findings: Sequence[Diagnostic]) -> str:
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    return f"{_count(_errors(findings), 'error')}, {_count(warnings, 'warning')}"


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
