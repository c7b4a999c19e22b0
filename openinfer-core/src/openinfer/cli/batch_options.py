"""Options of `openinfer run` for many inputs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import click

from openinfer.cli.headings import option_under
from openinfer.cli.options import SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What the options say; None where one was not given."""

    source: str
    runner: str | None
    workers: int | None
    state_per: Literal["input", "worker"] | None
    output_dir: str | None
    look_ahead: int | None
    retries: int | None
    timeout: float | None
    start_timeout: float | None
    send_model: bool


_option = option_under("Many inputs, with --batch")

_OPTIONS = (
    _option("--batch", "source", metavar="SOURCE", help="Run many inputs: a .npz or .npy file, a folder, '*.npz'."),
    _option("--runner", metavar="NAME", help="Where inputs of a batch are run: in-process, processes, ray, ..."),
    _option("--workers", type=click.IntRange(min=1), metavar="N", help="Workers of a batch; several are processes."),
    _option(
        "--state-per",
        type=click.Choice(["input", "worker"]),
        help="Persistent memory that inputs of a batch start with: initial (input), or the previous input's (worker).",
    ),
    _option("--output-dir", metavar="DIR", help="Save the outputs of each input of a batch as .npz files there."),
    _option(
        "--look-ahead",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum number of inputs of a batch to read ahead.",
    ),
    _option("--retries", type=click.IntRange(min=0), metavar="N", help="Run an input again after a lost worker."),
    _option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        help="Give up an input of a batch that runs longer.",
    ),
    _option(
        "--start-timeout",
        type=SECONDS,
        metavar="SECONDS",
        help="Replace a worker of a batch that takes longer to start; by default 120.",
    ),
    _option("--send-model", is_flag=True, help="Send workers of a batch the model's bytes instead of its path."),
)


def batch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of batches; the parameter ``batch`` is a `BatchOptions`, or None without ``--batch``."""
    names = [field.name for field in fields(BatchOptions)]

    @wraps(function)
    def called(**arguments: Any) -> Any:
        given = {name: arguments.pop(name) for name in names}
        return function(**arguments, batch=_checked(given))

    command: Callable[..., Any] = called
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _checked(given: dict[str, Any]) -> BatchOptions | None:
    if given["source"] is not None:
        return BatchOptions(**given)
    unused = next((name for name, value in given.items() if value), None)
    if unused is not None:
        raise click.UsageError(f"--{unused.replace('_', '-')} is about the inputs of --batch, which is not given")
    return None
