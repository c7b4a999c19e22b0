"""Explanations for people: on a terminal, and as the error index of the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.cli.explanations import Phase, codes, explanation, format_codes
from openinfer.cli.explanations.examples import findings
from openinfer.diagnostics import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.cli.explanations import Explanation

_HEAD = """\
# Error index

Every finding has a stable code. `openinfer explain CODE` shows one entry of this page, which is made from the same
source: `openinfer explain --markdown`. Operators and devices may add findings of their own.
"""


def terminal_text(explained: Explanation, *, colour: bool = False, width: int | None = None) -> str:
    """Return an explanation as plain text: meaning, a wrong example with what is said about it, a right one."""
    parts = [f"{explained.code}: found {explained.phase.title}", explained.text.rstrip()]
    for head, example in _examples(explained):
        parts += [f"{head}:", _indented(example)] if example else [f"{head},"]
    said = messages(explained, colour=colour, width=width)
    if said:
        parts += [said]
    if explained.right:
        parts += ["Right is:", _indented(explained.right)]
    return "\n\n".join(parts) + "\n"


def messages(explained: Explanation, *, colour: bool = False, width: int | None = None) -> str:
    """Return what is said about the wrong example; empty where there is no example."""
    if explained.said or not explained.wrong:
        return explained.said.rstrip()
    return "\n".join(render(found, colour=colour, width=width) for found in findings(explained, explained.wrong))


def error_index() -> str:
    """Return the page of all codes as Markdown."""
    known = [explanation(code) for code in (*codes(), *format_codes())]
    return "\n".join([_HEAD, *_contents(known), *(line for one in known for line in _entry(one))])


def _contents(known: list[Explanation]) -> Iterator[str]:
    yield "| found | codes |"
    yield "|---|---|"
    for phase in Phase:
        links = ", ".join(f"[{one.code}](#{one.code.lower()})" for one in known if one.phase is phase)
        if links:
            yield f"| {phase.title} | {links} |"
    yield ""


def _entry(explained: Explanation) -> Iterator[str]:
    yield f"## {explained.code}\n"
    yield f"Found {explained.phase.title}. {explained.text}"
    for head, example in _examples(explained):
        yield f"{head}:\n\n```text\n{example}```\n" if example else f"{head},\n"
    said = messages(explained)
    if said:
        yield f"```text\n{said}\n```\n"
    if explained.right:
        yield f"Right is:\n\n```text\n{explained.right}```\n"


def _examples(explained: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the parts of the wrong example, each with what precedes it."""
    where = f"For example, {explained.given}" if explained.given else "For example"
    if explained.wrong:
        yield where, explained.wrong
        where = "and then"
    for name, text in explained.files.items():
        file = f"{'a' if text else 'an empty'} file `{name}`"
        yield {"and then": f"next to {file}", "For example": f"{where}, {file}"}.get(where, f"{where}; {file}"), text
        where = "and then"
    if explained.host:
        yield "and in the host" if explained.wrong else where, explained.host
    if explained.command:
        yield where, f"{explained.command}\n"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").splitlines())
