"""The language server: answers requests of editors over standard input and output with the modules of this package."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, PyglsError
from pygls.lsp.server import LanguageServer

from openinfer.diagnostics import Severity
from openinfer.editors.analysis import analyse
from openinfer.editors.completion import Class, completions
from openinfer.editors.hover import hover
from openinfer.editors.inlay import inlay_hints
from openinfer.editors.outline import Sort
from openinfer.editors.places import Places
from openinfer.editors.protocol import AnsweringProtocol
from openinfer.editors.rename import RenameError, definition_to_rename, renamed
from openinfer.errors import DslSyntaxError, OpenInferError
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.diagnostics import Diagnostic, Span
    from openinfer.editors.analysis import Analysis
    from openinfer.editors.outline import Occurrence
    from openinfer.model import Model

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_ITEMS = {
    Class.KEYWORD: types.CompletionItemKind.Keyword,
    Class.OPERATOR: types.CompletionItemKind.Function,
    Class.SETTING: types.CompletionItemKind.Property,
    Class.VARIABLE: types.CompletionItemKind.Variable,
    Class.BLOCK: types.CompletionItemKind.Module,
    Class.DTYPE: types.CompletionItemKind.TypeParameter,
    Class.VALUE: types.CompletionItemKind.Value,
}
_SYMBOLS = {
    Sort.VARIABLE: types.SymbolKind.Variable,
    Sort.TEMPORARY: types.SymbolKind.Variable,
    Sort.LOOP: types.SymbolKind.Event,
    Sort.BLOCK: types.SymbolKind.Function,
}


@dataclass(frozen=True, slots=True)
class Opened:
    """An open document of one version."""

    uri: str
    version: int | None
    analysis: Analysis
    places: Places

    def range(self, start: int, end: int) -> types.Range:
        """Return a piece of the text as the protocol writes it."""
        return types.Range(types.Position(*self.places.position(start)), types.Position(*self.places.position(end)))

    def name_at(self, position: types.Position) -> Occurrence | None:
        """Return the name under a cursor."""
        return self.analysis.outline.at(self.places.offset(position.line, position.character))


class Server(LanguageServer):
    """A server with the environment of this process, and a model if it was started with one."""

    def __init__(self, version: str, model: Model | None = None) -> None:
        # Whole texts: columns of changes would have to be counted by the rules of whoever applies them.
        super().__init__(  # pyright: ignore[reportUnknownMemberType] -- pygls leaves one of its types open
            "openinfer", version, types.TextDocumentSyncKind.Full, protocol_cls=AnsweringProtocol
        )
        self.environment = Environment.default()
        self.model = model
        self._opened: dict[str, Opened] = {}

    def document(self, uri: str) -> Opened:
        """Return a document analysed; a text that fits no more keeps the sizes of the last one that did."""
        document = self.workspace.get_text_document(uri)
        known = self._opened.get(uri)
        if known is not None and known.version == document.version and known.analysis.text == document.source:
            return known
        analysis = analyse(document.source, self.environment, self.model)
        if analysis.resolved is None and known is not None:
            analysis = replace(analysis, resolved=known.analysis.resolved, is_current=False)
        encoding = str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding))
        opened = Opened(uri, document.version, analysis, Places(document.source, encoding))
        self._opened[uri] = opened
        return opened

    def forget(self, uri: str) -> None:
        """Drop a document that was closed."""
        self._opened.pop(uri, None)

    def report_server_error(self, error: Exception, source: type[PyglsError | JsonRpcException]) -> None:
        """Answer a message that is not JSON; anything else is reported as pygls does it."""
        is_of_text = source is JsonRpcException and isinstance(error, (ValueError, RecursionError))
        if is_of_text and isinstance(self.protocol, AnsweringProtocol):
            self.protocol.refuse_text(error)
        else:
            super().report_server_error(error, source)

    def publish(self, uri: str) -> None:
        """Send the findings of a document."""
        opened = self.document(uri)
        found = [_diagnostic(opened, finding) for finding in opened.analysis.findings]
        parameters = types.PublishDiagnosticsParams(uri=uri, diagnostics=found, version=opened.version)
        self.text_document_publish_diagnostics(parameters)


def serve(version: str, model: Model | None = None) -> None:
    """Answer one client on standard input and output until it leaves.

    The server closes its stream at the end, so it gets one of its own; what anything else prints goes to standard
    error, where it cannot break a message.
    """
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with redirect_stdout(sys.stderr):
        make_server(version, model).start_io(stdout=stream)


def make_server(version: str, model: Model | None = None) -> Server:
    """Return a server with every feature."""
    server = Server(version, model)
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(did_open)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(did_change)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(did_close)
    server.feature(types.TEXT_DOCUMENT_HOVER)(hovered)
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(defined)
    server.feature(types.TEXT_DOCUMENT_REFERENCES)(references)
    server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(symbols)
    server.feature(types.TEXT_DOCUMENT_FORMATTING)(laid_out)
    server.feature(types.TEXT_DOCUMENT_INLAY_HINT)(hinted)
    triggers = types.CompletionOptions(trigger_characters=[".", "(", ",", "=", ":", "@", "[", ">"])
    server.feature(types.TEXT_DOCUMENT_COMPLETION, triggers)(completed)
    server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)(rename_prepared)
    server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))(rename)
    return server


# Documents


def did_open(server: Server, parameters: types.DidOpenTextDocumentParams) -> None:
    server.publish(parameters.text_document.uri)


def did_change(server: Server, parameters: types.DidChangeTextDocumentParams) -> None:
    server.publish(parameters.text_document.uri)


def did_close(server: Server, parameters: types.DidCloseTextDocumentParams) -> None:
    uri = parameters.text_document.uri
    server.forget(uri)
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))


def _diagnostic(opened: Opened, finding: Diagnostic) -> types.Diagnostic:
    return types.Diagnostic(
        range=_range(opened, finding.span),
        message=finding.message + (f"\n{finding.hint}" if finding.hint else ""),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        source="openinfer",
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(opened.uri, _range(opened, related.span)), related.message
            )
            for related in finding.related
        ],
    )


def _range(opened: Opened, span: Span | None) -> types.Range:
    return opened.range(0, 0) if span is None else opened.range(span.start, span.end)


# Questions about a name


def hovered(server: Server, parameters: types.HoverParams) -> types.Hover | None:
    opened = server.document(parameters.text_document.uri)
    name = opened.name_at(parameters.position)
    text = None if name is None else hover(opened.analysis, name, server.environment)
    if name is None or text is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.Hover(contents=content, range=opened.range(name.start, name.end))


def defined(server: Server, parameters: types.DefinitionParams) -> types.Location | None:
    opened = server.document(parameters.text_document.uri)
    name = opened.name_at(parameters.position)
    found = None if name is None else opened.analysis.outline.definition(name)
    return None if found is None else types.Location(opened.uri, opened.range(found.start, found.end))


def references(server: Server, parameters: types.ReferenceParams) -> list[types.Location]:
    opened = server.document(parameters.text_document.uri)
    name = opened.name_at(parameters.position)
    found = None if name is None else opened.analysis.outline.definition(name)
    if found is None:
        return []
    wanted = parameters.context.include_declaration
    uses = (use for use in opened.analysis.outline.uses(found) if wanted or use.start != found.start)
    return [types.Location(opened.uri, opened.range(use.start, use.end)) for use in uses]


def symbols(server: Server, parameters: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    opened = server.document(parameters.text_document.uri)
    return list(_symbols(opened))


def hinted(server: Server, parameters: types.InlayHintParams) -> list[types.InlayHint]:
    opened = server.document(parameters.text_document.uri)
    begin, end = (opened.places.offset(at.line, at.character) for at in (parameters.range.start, parameters.range.end))
    found = inlay_hints(opened.analysis, server.environment, server.model)
    kind = types.InlayHintKind.Type
    return [
        types.InlayHint(position=opened.range(offset, offset).start, label=label, kind=kind)
        for offset, label in found
        if begin <= offset <= end
    ]


def _symbols(opened: Opened) -> Iterator[types.DocumentSymbol]:
    for found in opened.analysis.outline.definitions:
        if found.sort in _SYMBOLS:
            place = opened.range(found.start, found.end)
            yield types.DocumentSymbol(
                name=found.name, kind=_SYMBOLS[found.sort], range=place, selection_range=place, detail=found.text
            )


# Writing


def completed(server: Server, parameters: types.CompletionParams) -> list[types.CompletionItem]:
    opened = server.document(parameters.text_document.uri)
    offset = opened.places.offset(parameters.position.line, parameters.position.character)
    return [
        types.CompletionItem(
            label=proposal.label,
            kind=_ITEMS[proposal.of],
            insert_text=proposal.insert,
            detail=proposal.detail or None,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, proposal.documentation)
            if proposal.documentation
            else None,
        )
        for proposal in completions(opened.analysis, offset, server.environment, server.model)
    ]


def laid_out(server: Server, parameters: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """Lay the text out as `openinfer fmt` does; a text with syntax errors stays as it is, they are shown already."""
    from openinfer.dsl.formatting import formatted

    opened = server.document(parameters.text_document.uri)
    text = opened.analysis.text
    try:
        wanted = formatted(text)
    except DslSyntaxError:
        return None
    return [] if wanted == text else [types.TextEdit(opened.range(0, len(text)), wanted)]


def rename_prepared(server: Server, parameters: types.PrepareRenameParams) -> types.Range | None:
    opened = server.document(parameters.text_document.uri)
    name = opened.name_at(parameters.position)
    if name is None:
        return None
    try:
        definition_to_rename(opened.analysis.outline, name)
    except RenameError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    return opened.range(name.start, name.end)


def rename(server: Server, parameters: types.RenameParams) -> types.WorkspaceEdit | None:
    opened = server.document(parameters.text_document.uri)
    name = opened.name_at(parameters.position)
    if name is None:
        return None
    try:
        edits = renamed(opened.analysis.outline, name, parameters.new_name, server.model)
    except OpenInferError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    changes = [types.TextEdit(opened.range(edit.start, edit.end), edit.text) for edit in edits]
    return types.WorkspaceEdit(changes={opened.uri: changes})
