"""`openinfer lsp`: the language server for editors."""

from __future__ import annotations

from importlib.util import find_spec

import click

import openinfer
from openinfer.errors import MissingDependencyError
from openinfer_oinf.installing import install_command
from openinfer_oinf.standard_streams import check_input


@click.command(name="lsp", short_help="Serve an editor on standard input and output.")
@click.option("--model", "-m", metavar="FILE", help="Check programs against this model: sizes, types, names.")
@click.option("--stdio", is_flag=True, help="Use standard input and output (the only transport; editors pass this).")
def command(*, model: str | None, stdio: bool) -> None:
    """Answer an editor on standard input and output: diagnostics, hover, definitions, completion, rename."""
    del stdio  # There is no other way to speak.
    if find_spec("pygls") is None:
        how = install_command("openinfer-core[lsp]")
        raise MissingDependencyError(f"`openinfer lsp` needs pygls, which is not installed: {how}")
    check_input()
    from openinfer.editors.server import serve

    if model is None:
        serve(openinfer.__version__)
        return
    from openinfer.model import ModelLoader

    with ModelLoader.open(model) as opened:
        serve(openinfer.__version__, opened)
