"""`openinfer check`: every finding about programs, with carets or as JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from openinfer.cli.failures import findings_of
from openinfer.cli.findings import as_json, type_as_json
from openinfer.cli.graph_argument import read_program
from openinfer.cli.headings import HeadedCommand
from openinfer.cli.import_options import import_options
from openinfer.cli.options import limit_option, size_option
from openinfer.cli.program_argument import OpenModels, ProgramArgument, is_imported, model_without_file
from openinfer.cli.program_files import program_files
from openinfer.cli.progress import progress
from openinfer.cli.project_file import program_options_of
from openinfer.cli.terminal import print_document, wants_colour, width_of
from openinfer.diagnostics import Diagnostic, Severity, Source, as_errors, printable, render
from openinfer.errors import DslSyntaxError, OpenInferError, SerializationError
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


@click.command(name="check", cls=HeadedCommand, short_help="Report the errors and warnings of programs.")
@click.argument("graphs", metavar="GRAPH...", nargs=-1, required=True)
@click.option("--model", "-m", metavar="FILE", help="Check against this model too: sizes, types, operators.")
@click.option("--device", metavar="NAME", help="With a model: check that this device can run the program too.")
@click.option("--target", metavar="NAME", help="With a model: check that this synth target supports the program too.")
@import_options()
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
    options = CheckOptions(places, strict, explain_types)
    reports: list[Report] = []
    if imported is None:
        choices.refuse_for(", ".join(graphs))
        with progress("checking"):
            reports += _reports(program_files(graphs), model, options)
    else:
        argument = ProgramArgument(graph=imported, model=model, choices=choices)
        with argument.opened(strict=strict) as program:
            with progress("checking"):
                report = _report(imported, partial(_reading, program.graph, imported), program.model, options)
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


def _reports(files: Sequence[str], path: str | None, options: CheckOptions) -> Sequence[Report]:
    """Return the reports about programs in the order of their files, and then about their models.

    Args:
        path: file of the model of all programs, by default that of the project file of each.

    Raises:
        ModelError, OSError: the model of all programs cannot be opened.
    """
    by_model: dict[str, list[Report]] = {}
    reports: list[Report] = []
    with OpenModels() as models:
        if path is not None:
            models.at(path)
        for file in files:
            try:
                project = program_options_of(file)
                own_path = path or project.model
                model = None if own_path is None else models.at(own_path)
            except (OpenInferError, OSError) as error:
                reports.append(Report(file, findings_of(error), is_read=False))
                continue
            report = _report(file, partial(read_program, file), model, options.with_limits(project.limits))
            reports.append(report)
            if own_path is not None:
                by_model.setdefault(own_path, []).append(report)
        unused = [_unused(programs, models.at(own_path), own_path) for own_path, programs in by_model.items()]
    return [*reports, *chain.from_iterable(unused)]


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


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is reported about each program."""

    places: Places
    strict: bool
    explain_types: bool

    def with_limits(self, limits: Mapping[str, int]) -> CheckOptions:
        """Return these options with limits where they have no others of the same names."""
        return replace(self, places=replace(self.places, limits={**limits, **self.places.limits}))

    def refused_without_model(self) -> Sequence[str]:
        """Return why options that are about sizes and types cannot hold for a program without them."""
        places = self.places
        needs = {
            "--device needs --model: what a device runs depends on sizes and types": places.device,
            "--target needs --model: without sizes and types it cannot be known what a target covers": places.target,
            "--size needs --model: it takes the place of a size of the model": places.sizes,
            "--explain-types needs --model: types follow from sizes and tensors": self.explain_types,
        }
        return [message for message, value in needs.items() if value]


def _reading(graph: Graph, file: str) -> Reading:
    """Return the program that a file was imported as; it has no text that findings could point into."""
    from openinfer.dsl.reading import Reading

    return Reading(source=Source(file, ""), graph=graph)


def _report(file: str, read: Callable[[], Reading], model: Model | None, options: CheckOptions) -> Report:
    """Return the findings about a program; without a model those that need none."""
    try:
        reading = read()
    except (DslSyntaxError, SerializationError, OSError) as error:
        # A document that is not a graph has findings of its own; without any, there is no text to point into.
        return Report(
            file, findings_of(error), is_read=bool(getattr(error, "diagnostics", ())), has_model=model is not None
        )
    places = options.places
    refused: Sequence[Diagnostic] = ()
    if model is None:
        try:
            model = model_without_file(reading.graph, file, {**places.limits, **places.sizes})
        except click.UsageError as error:
            why = error.message
            refused = [Diagnostic(code="usage", message=text, hint=why) for text in options.refused_without_model()]
    findings, resolved = _findings(reading, model, places)
    findings = [*refused, *(as_errors(findings) if options.strict else findings)]
    types = _types(resolved, model) if options.explain_types and model is not None and resolved is not None else ()
    return Report(file, findings, types=types, resolved=resolved, has_model=model is not None)


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
