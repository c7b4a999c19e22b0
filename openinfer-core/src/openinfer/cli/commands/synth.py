"""`openinfer synth`: write a program out as source, and check what it computes against the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from openinfer.cli.board_report import board_document, board_text
from openinfer.cli.difference_document import difference_document
from openinfer.cli.findings import print_warnings
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.options import SECONDS, limit_option, seed_option, size_option, strict_order_option, target_option
from openinfer.cli.program_argument import program_argument
from openinfer.cli.program_options import give_first_values, initial_option, input_option
from openinfer.cli.progress import made_executor, progress
from openinfer.cli.proofs import proof_document, proof_text, refuse_alarms
from openinfer.cli.terminal import print_document, table
from openinfer.cli.tolerance_option import tolerance_option
from openinfer.diagnostics import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.cli.program_argument import ProgramArgument
    from openinfer.cli.run_values import Input
    from openinfer.cli.verification import FirstDifference, Verification
    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.simulate import Simulator
    from openinfer.synth import Synthesis
    from openinfer.synth.target import Array
    from openinfer.tolerances import Tolerance

_SOURCE, _VERIFICATION = "Source", "Verification, with --verify or --prove"


@click.command(name="synth", cls=HeadedCommand, short_help="Generate source code from a program.")
@program_argument
@target_option
@click.option(
    "--arch", is_eager=True, metavar="FILE|NAME", help="What the program is for: a device file, or a name such as host."
)
@click.option("-o", "--output", "directory", metavar="DIR", help="Directory for the source files.")
@option_under(_SOURCE)("--schedules", metavar="FILE", help="Schedules in place of those that the cost model chooses.")
@option_under(_SOURCE)("--prefix", metavar="NAME", help="Prefix of functions, types, macros and files (model).")
@option_under(_SOURCE)(
    "--project", metavar="NAME", help="Build system: make (by default), cmake, platformio, zephyr ..."
)
@option_under(_SOURCE)(
    "--weights", metavar="WHERE", help="Weights embedded, in a file, or an object; by default by their size."
)
@option_under(_SOURCE)(
    "--io", metavar="WHERE", help="Inputs and outputs: the caller's arrays (by default), or also inside."
)
@option_under(_SOURCE)(
    "--threads", is_flag=True, help="Run blocks that await variables of entry on threads, not inline."
)
@size_option
@limit_option
@strict_order_option
@option_under(_VERIFICATION)(
    "--verify",
    is_flag=True,
    help="Compile, run on random inputs (for a board in QEMU), and compare with the simulator.",
)
@input_option("A .npy file, zeros or a value for an input for which random values make no sense.", _VERIFICATION)
@initial_option("Value of a persistent variable before the first step, but not of a table.", _VERIFICATION)
@seed_option(_VERIFICATION)
@tolerance_option("Accept this difference, absolute or of the largest magnitude of an output.", _VERIFICATION)
@option_under(_VERIFICATION)("--steps", type=click.IntRange(min=1), help="Run that many steps, each on other inputs.")
@option_under(_VERIFICATION)(
    "--inputs",
    "sequences",
    type=click.IntRange(min=1),
    help="That many sequences of steps, each from the start.",
)
@option_under(_VERIFICATION)("--prove", is_flag=True, help="Analyse the source for undefined behaviour (Frama-C).")
@option_under(_VERIFICATION)(
    "--timeout", default=60.0, show_default=True, type=SECONDS, help="Seconds that each tool may take."
)
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option("--plan", "show_plan", is_flag=True, help="Print the schedule and the memory map too.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(
    *,
    program: ProgramArgument,
    target: str | None,
    arch: str | None,
    directory: str | None,
    prefix: str | None,
    sizes: dict[str, int],
    verify: bool,
    inputs: Sequence[Input],
    initial: Sequence[Input],
    seed: int,
    tolerances: Mapping[str, Tolerance],
    steps: int | None,
    sequences: int | None,
    prove: bool,
    timeout: float,
    strict: bool,
    show_plan: bool,
    as_json: bool,
    **making: Any,
) -> None:
    """Write GRAPH (an .oi or .json file, - for standard input, or a model such as model.onnx) as source code.

    A model is imported first; the directory has its program, its weights and the source.

    The directory is replaced if it contains an earlier bundle; anything else in it is an error. Exit code 1:
    the program has errors, --verify found a difference or --prove an alarm. Exit code 3: --verify found no compiler, or
    --prove no analyser.
    """
    from openinfer.synth import Synthesizer

    _require(not (show_plan and as_json), "--plan prints tables: leave --json out")
    if not verify:
        numbers = {"--steps": steps, "--inputs": sequences, "--tolerance": tolerances or None}
        _refuse_given({**numbers, "--input": inputs or None, "--initial": initial or None})
    # The other options are parameters of a synthesizer by the same names.
    synthesizer = Synthesizer(target or (None if arch else "c"), arch=arch, prefix=prefix, **making)
    # After the target and the device are known: who asks for unknown ones learns that first.
    _require(directory or verify or prove, "give -o DIR, --verify or --prove")
    names = [f"{prefix or 'model'}{suffix}" for suffix in (".oi", ".oinf")]
    kept = None if directory is None else " and ".join(str(Path(directory, name)) for name in names)
    with program.opened(strict=strict, written=kept) as opened:
        model, graph = opened.model, opened.graph
        with progress("planning"):
            synthesis = synthesizer.synthesize(model, graph, sizes=sizes, strict=strict)
        if prove:
            with progress("analysing the source"):
                synthesis = synthesis.prove(timeout=timeout)
        bundled = _with_imported(synthesis, dict(zip(names, opened.files, strict=False)) if directory else {})
        written = bundled.emit(directory) if directory is not None else None
        checked, node = None, ""
        if verify:
            amounts = Amounts(seed, steps or 1, sequences or 1, timeout)
            with progress("verifying"):
                values = opened.named(inputs), opened.named(initial)
                checked, node = _verified(synthesis, model, graph, sizes, *values, amounts, tolerances)
    if as_json:
        print_document(_document(bundled, written, checked))
    else:
        _print(bundled, written, checked, steps=(steps or 1) * (sequences or 1), show_plan=show_plan)
    _refuse_failures(synthesis, checked, sequences or 1, node)


def _with_imported(synthesis: Synthesis, files: Mapping[str, Path]) -> Synthesis:
    """Return a synthesis whose bundle has the program and the weights that were imported, by their names in it."""
    if not files:
        return synthesis
    imported = {name: file.read_bytes() for name, file in files.items()}
    bundle = replace(synthesis.bundle, files={**synthesis.bundle.files, **imported})
    return replace(synthesis, bundle=bundle)


def _refuse_failures(synthesis: Synthesis, checked: Verification | None, sequences: int, node: str) -> None:
    """Raise where ``--verify`` found a difference or ``--prove`` an alarm."""
    if checked is not None and checked.first is not None:
        _refuse_differences(checked.first, sequences, node)
    if synthesis.proof is not None:
        refuse_alarms(synthesis.proof)


def _require(condition: object, message: str) -> None:
    if not condition:
        raise click.UsageError(message)


def _refuse_given(options: Mapping[str, object]) -> None:
    """Refuse options that mean nothing without ``--verify``."""
    for option, value in options.items():
        if value is not None:
            raise click.UsageError(f"{option} goes with --verify, which is not given")


def _first_node(
    first: FirstDifference | None,
    reference: Simulator,
    target: str,
    model: Model,
    program: Graph,
    sizes: dict[str, int],
    initial: Mapping[str, Array],
) -> str:
    """Return which node differs first, on the device that runs the target's code; empty where none differs or does."""
    from openinfer.cli.verification import first_node
    from openinfer.errors import OpenInferError
    from openinfer.plugins.environment import Environment
    from openinfer.simulate import Simulator

    if first is None or target not in Environment.default().devices:
        return ""
    try:
        return first_node(first, reference, Simulator(model, program, device=target, sizes=sizes), initial)
    except OpenInferError as error:
        return f"the first node that differs is unknown: {error}"


def _first_values(simulator: Simulator, initial: Sequence[Input], seed: int) -> dict[str, Array]:
    """Return what persistent variables hold before the first step, of those that have a value of their own."""
    with made_executor(simulator) as executor:
        give_first_values(executor, initial, seed)
        declared = executor.program.graph.vars
        table = next((item.name for item in initial if declared[item.name].formals), None)
        if table is not None:
            message = f"--initial {table}: tables begin with their declared entries here; give those of plain variables"
            raise click.UsageError(message)
        return {item.name: executor.fetch_raw(item.name).array for item in initial}


@dataclass(frozen=True, slots=True)
class Amounts:
    """What ``--verify`` draws and how long it may take: a seed, steps of each sequence, sequences, and seconds."""

    seed: int
    steps: int
    sequences: int
    timeout: float


def _verified(
    synthesis: Synthesis,
    model: Model,
    graph: Graph,
    sizes: dict[str, int],
    inputs: Sequence[Input],
    initial: Sequence[Input],
    amounts: Amounts,
    tolerances: Mapping[str, Tolerance],
) -> tuple[Verification, str]:
    """Return how far each output is from the simulator's on cpu, and which node differs first.

    Sequences of steps have other inputs each.
    """
    from openinfer.cli.verification import verify
    from openinfer.cli.verification_inputs import SequenceInputs
    from openinfer.simulate import Simulator

    simulator = Simulator(model, graph, device="cpu", sizes=sizes)
    begin = _first_values(simulator, initial, amounts.seed)
    drawing = SequenceInputs(synthesis.plan, model, simulator, inputs, amounts.seed, amounts.steps)
    drawn = [drawing.drawn(sequence) for sequence in range(amounts.sequences)]
    checked = verify(
        synthesis,
        simulator,
        drawn,
        special=drawing.special(amounts.sequences),
        steps=amounts.steps,
        tolerances=tolerances,
        timeout=amounts.timeout,
        texts=drawing.texts,
        initial=begin,
    )
    return checked, _first_node(checked.first, simulator, synthesis.plan.target, model, graph, sizes, begin)


def _refuse_differences(first: FirstDifference, sequences: int, node: str) -> NoReturn:
    from openinfer.errors import SynthesisError

    where = f" in step {first.step}" + (f" of sequence {first.sequence}" if sequences > 1 else "")
    where += " with special values among the inputs" if first.sequence > sequences else ""
    message = f"the synthesised program and the simulator differ beyond tolerance in: {', '.join(first.outputs)}"
    raise SynthesisError(f"{message}{where}" + (f"; {node}" if node else ""), code="verify-mismatch")


def _document(synthesis: Synthesis, written: Path | None, checked: Verification | None) -> dict[str, Any]:
    plan = synthesis.plan
    document: dict[str, Any] = {
        "target": plan.target,
        "directory": None if written is None else str(written),
        "files": {name: len(data) for name, data in synthesis.bundle.files.items()},
        "arena_nbytes": plan.arena_nbytes,
        "weights_nbytes": plan.weights_nbytes,
        "inputs": {port.name: str(port.type) for port in plan.inputs},
        "outputs": {port.name: str(port.type) for port in plan.outputs},
    }
    if synthesis.proof is not None:
        document["proof"] = proof_document(synthesis.proof)
    if checked is not None:
        first = checked.first
        document["verify"] = {
            "within": checked.within,
            "micros": checked.micros if checked.board is None else None,
            "board": None if checked.board is None else board_document(checked.board),
            "instead": checked.instead or None,
            "repeat": checked.repeat,
            "inputs": dict(checked.inputs),
            "outputs": [difference_document(difference) for difference in checked.differences],
            "first": None
            if first is None
            else {"sequence": first.sequence, "step": first.step, "outputs": first.outputs},
        }
    return document


def _print(
    synthesis: Synthesis,
    written: Path | None,
    checked: Verification | None,
    *,
    steps: int,
    show_plan: bool,
) -> None:
    plan, bundle = synthesis.plan, synthesis.bundle
    print_warnings(synthesis.warnings)
    if show_plan:
        click.echo(f"{synthesis.report()}\n\n{synthesis.memory_map()}\n")
    click.echo(table(("file", "bytes"), [(name, str(len(data))) for name, data in bundle.files.items()]))
    click.echo(f"arena {plan.arena_nbytes} bytes, weights {plan.weights_nbytes} bytes")
    if written is not None:
        click.echo(f"written to {written}")
    if synthesis.proof is not None:
        click.echo(proof_text(synthesis.proof))
    if checked is None:
        return
    if checked.inputs:
        click.echo(table(("input", "values"), list(checked.inputs.items())))
    rows = [
        (d.name, f"{d.largest:.3g}", f"{d.relative:.3g}", str(d.tolerance), "yes" if d.within else "NO")
        for d in checked.differences
    ]
    click.echo(table(("output", "largest difference", "relative", "allowed", "agrees"), rows))
    for d in checked.differences:
        if d.within and d.not_finite:
            click.echo(f"{d.name}: {d.not_finite} of {d.elements} elements are NaN or infinite in both")
    if checked.board is not None:
        click.echo(board_text(checked.board))
        return
    if checked.instead:
        click.echo(checked.instead)
    digits = 1 if checked.micros >= 10 else 3
    click.echo(f"{checked.micros:.{digits}f} microseconds per step ({_how_timed(checked, steps)})")


def _how_timed(checked: Verification, steps: int) -> str:
    """Return by which clock steps were timed, and which of their runs count."""
    if checked.repeat == 1:
        return f"wall clock, {counted(steps, 'step')}, run once, first use included"
    return f"wall clock, {counted(steps, 'step')}, least of {checked.repeat} runs after one that does not count"
