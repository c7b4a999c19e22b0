"""The language server as an editor meets it: messages over standard input and output, with time limits."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from openinfer.testing.waiting import limit_s
from openinfer_oinf import OinfWriter

pytest.importorskip("pygls", reason="pygls, the extra `lsp`, is not installed")

URI = "file:///program.oi"
PROGRAM = """dynamic { x: f32[B]; }
volatile { y: f32[B]; }
block entry {
  op relu(x) >> y; // 😀 x
  return y;
}
"""


class Client:
    """One conversation with one server."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "openinfer", "lsp", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._received: queue.Queue[dict[str, Any]] = queue.Queue()
        self._kept: list[dict[str, Any]] = []
        self._count = 0
        self.capabilities: dict[str, Any] = {}
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        while header := stream.readline():
            name, _, value = header.partition(b":")
            if name.lower() != b"content-length":
                continue
            while stream.readline().strip():
                pass
            self._received.put(json.loads(stream.read(int(value))))

    def send(self, method: str, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, **message}).encode())

    def write(self, body: bytes) -> None:
        """Send a message as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a request: it has ``result`` or ``error``."""
        self._count += 1
        self.send(method, id=self._count, params=params)
        return self._wait(lambda message: message.get("id") == self._count and "method" not in message)

    def answer_to(self, body: bytes, number: int | None) -> dict[str, Any]:
        """Return the answer that has the id ``number`` to a message sent as it is."""
        self.write(body)
        return self._wait(lambda message: "id" in message and message["id"] == number and "method" not in message)

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        answer = self.request(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def published(self) -> dict[str, Any]:
        """Return the next findings that the server sends."""
        return self._wait(lambda message: message.get("method") == "textDocument/publishDiagnostics")["params"]

    def _wait(self, wanted: Any) -> dict[str, Any]:
        until = time.monotonic() + limit_s(20)
        for message in self._kept:
            if wanted(message):
                self._kept.remove(message)
                return message
        while True:
            message = self._received.get(timeout=max(0.01, until - time.monotonic()))
            if wanted(message):
                return message
            self._kept.append(message)

    def initialize(self, capabilities: dict[str, Any]) -> None:
        answer = self.ask("initialize", processId=None, rootUri=None, capabilities=capabilities)
        self.capabilities = answer["capabilities"]

    def open(self, text: str) -> dict[str, Any]:
        document = {"uri": URI, "languageId": "openinfer", "version": 1, "text": text}
        self.send("textDocument/didOpen", params={"textDocument": document})
        return self.published()

    def change(self, text: str, version: int) -> dict[str, Any]:
        document = {"uri": URI, "version": version}
        self.send("textDocument/didChange", params={"textDocument": document, "contentChanges": [{"text": text}]})
        return self.published()

    def at(self, line: int, character: int) -> dict[str, Any]:
        return {"textDocument": {"uri": URI}, "position": {"line": line, "character": character}}


def started(*arguments: str, encodings: tuple[str, ...] = ("utf-16",)) -> Iterator[Client]:
    client = Client(*arguments)
    try:
        capabilities = {
            "general": {"positionEncodings": list(encodings)},
            "textDocument": {"rename": {"prepareSupport": True}},
        }
        client.initialize(capabilities)
        client.send("initialized", params={})
        yield client
        client.request("shutdown")
        client.send("exit")
        assert client.process.wait(limit_s(20)) == 0
    finally:
        client.process.kill()
        client.process.wait(limit_s(20))
        for stream in (client.process.stdin, client.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return one conversation, in which each test opens a text of its own."""
    yield from started()


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def test_it_says_what_it_can_do(client: Client) -> None:
    capabilities = client.capabilities

    for feature in ("hoverProvider", "definitionProvider", "documentFormattingProvider"):
        assert capabilities[feature]
    for feature in ("referencesProvider", "documentSymbolProvider"):
        assert capabilities[feature]
    assert capabilities["renameProvider"] == {"prepareProvider": True}
    assert capabilities["completionProvider"]["triggerCharacters"]


def test_findings_come_when_a_text_opens_changes_and_closes(client: Client) -> None:
    assert client.open(PROGRAM)["diagnostics"] == []

    broken = client.change(PROGRAM.replace("return y;", "branch nowhere;\n  return z;"), 2)
    assert broken["version"] == 2
    assert [(found["code"], found["range"]["start"]["line"]) for found in broken["diagnostics"]] == [
        ("unknown-block", 4),
        ("unknown-variable", 5),
    ]
    assert all((found["severity"], found["source"]) == (1, "openinfer") for found in broken["diagnostics"])

    syntax = client.change(PROGRAM.replace("y; //", "y //"), 3)
    assert [found["code"] for found in syntax["diagnostics"]] == ["syntax"]

    client.send("textDocument/didClose", params={"textDocument": {"uri": URI}})
    assert client.published()["diagnostics"] == []


def test_the_other_place_of_a_finding_is_related(client: Client) -> None:
    (found,) = client.open("dynamic { x: f32;\n x: f32; } block entry { return; }")["diagnostics"]

    assert found["code"] == "duplicate-name"
    assert found["range"] == span(1, 1, 2)
    assert found["relatedInformation"][0]["location"]["range"]["start"]["line"] == 0


def test_hover_and_definition(client: Client) -> None:
    client.open(PROGRAM)

    hover = client.ask("textDocument/hover", **client.at(3, 10))
    assert "x: f32[B];" in hover["contents"]["value"]
    assert hover["range"] == span(3, 10, 11)
    assert client.ask("textDocument/definition", **client.at(3, 10)) == {"uri": URI, "range": span(0, 10, 11)}
    assert client.ask("textDocument/hover", **client.at(4, 3)) is None
    assert "max" in client.ask("textDocument/hover", **client.at(3, 6))["contents"]["value"].lower()


def test_references_and_symbols(client: Client) -> None:
    client.open(PROGRAM)

    found = client.ask("textDocument/references", **client.at(4, 9), context={"includeDeclaration": False})
    assert [place["range"] for place in found] == [span(3, 16, 17), span(4, 9, 10)]
    symbols = client.ask("textDocument/documentSymbol", textDocument={"uri": URI})
    assert [symbol["name"] for symbol in symbols] == ["x", "y", "entry"]


def test_completion_in_a_text_that_is_being_written(client: Client) -> None:
    client.open(PROGRAM.replace("return y;", "op re"))

    items = client.ask("textDocument/completion", **client.at(4, 7))
    relu = next(item for item in items if item["label"] == "relu")
    assert relu["insertText"] == "relu"
    assert relu["documentation"]["kind"] == "markdown"


def test_rename_edits_every_place_and_refuses_what_cannot_be(client: Client) -> None:
    client.open(PROGRAM)

    assert client.ask("textDocument/prepareRename", **client.at(3, 10)) == span(3, 10, 11)
    edits = client.ask("textDocument/rename", **client.at(3, 10), newName="image")["changes"][URI]
    assert [(edit["range"], edit["newText"]) for edit in edits] == [
        (span(0, 10, 11), "image"),
        (span(3, 10, 11), "image"),
    ]
    taken = client.request("textDocument/rename", **client.at(3, 10), newName="y")
    assert "is taken" in taken["error"]["message"]
    size = client.request("textDocument/prepareRename", **client.at(0, 17))
    assert "does not define it" in size["error"]["message"]


def test_formatting_keeps_comments_and_leaves_broken_texts_alone(client: Client) -> None:
    options = {"tabSize": 8, "insertSpaces": True}

    client.open("dynamic{x:f32[B];}\nblock entry{ // 😀 first\nreturn  x ;}")
    (edit,) = client.ask("textDocument/formatting", textDocument={"uri": URI}, options=options)
    assert edit["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 12}}
    assert "  return x;\n" in edit["newText"]
    assert "// 😀 first" in edit["newText"]

    client.change(edit["newText"], 2)
    assert client.ask("textDocument/formatting", textDocument={"uri": URI}, options=options) == []
    client.change("block entry { op (; }", 3)
    assert client.ask("textDocument/formatting", textDocument={"uri": URI}, options=options) is None


@pytest.mark.parametrize(("encoding", "column"), [("utf-16", 39), ("utf-8", 41), ("utf-32", 38)])
def test_columns_are_counted_as_agreed(encoding: str, column: int) -> None:
    for client in started(encodings=(encoding,)):
        assert client.capabilities["positionEncoding"] == encoding
        (found,) = client.open(PROGRAM.replace("// 😀 x", "/* 😀 */ op f(x, x, q) >> y;"))["diagnostics"][:1]
        line = found["range"]["start"]

        assert line["line"] == 3
        assert line["character"] == column


def test_types_of_undeclared_temporaries_follow_their_first_output(tmp_path: Path) -> None:
    path = tmp_path / "model.oinf"
    with OinfWriter(path) as writer:
        writer.sizevar("B", 5)
    text = PROGRAM.replace("op relu(x) >> y;", "op concat(x, x, axis=0) >> t; op relu(t) >> u;").replace(
        "turn y", "turn u"
    )
    document = {"textDocument": {"uri": URI}, "range": {"start": place(0, 0), "end": place(9, 0)}}
    for client in started("--model", str(path)):
        assert client.open(text)["diagnostics"] == []
        hints = client.ask("textDocument/inlayHint", **document)
        assert [(each["label"], each["position"]) for each in hints] == [
            (": f32[2*B]", place(3, 30)),
            (": f32[2*B]", place(3, 47)),
        ]
        assert "temporary of block `entry`" in client.ask("textDocument/hover", **client.at(4, 9))["contents"]["value"]
        assert client.ask("textDocument/definition", **client.at(4, 9))["range"]["start"] == place(3, 46)


def place(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def test_a_model_gives_shapes_and_deeper_findings(tmp_path: Path) -> None:
    path = tmp_path / "model.oinf"
    with OinfWriter(path) as writer:
        writer.sizevar("B", 5)
    for client in started("--model", str(path)):
        assert client.open(PROGRAM)["diagnostics"] == []
        assert "f32[5]" in client.ask("textDocument/hover", **client.at(3, 10))["contents"]["value"]

        (found,) = client.change(PROGRAM.replace("y: f32[B]", "y: f32[B+1]"), 2)["diagnostics"]
        assert found["code"] == "shape-mismatch"
        assert "f32[5]" in client.ask("textDocument/hover", **client.at(3, 10))["contents"]["value"]


def test_nonsense_is_answered_and_does_not_end_the_server(client: Client) -> None:
    for text in ("\0", "{" * 3000, '"' * 500, "block entry {" * 300, "/*" * 1000, "\ud83d"):
        client.open(text)
        client.ask("textDocument/completion", **client.at(0, 1))
        client.ask("textDocument/documentSymbol", textDocument={"uri": URI})
    client.ask("textDocument/hover", **client.at(1_000_000, 1_000_000))
    assert "error" in client.request("textDocument/nothing")

    assert client.change(PROGRAM, 9)["diagnostics"] == []


INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, PARSE_ERROR, NOT_INITIALIZED = -32600, -32601, -32602, -32700, -32002

MALFORMED = {
    "parameters are missing": (
        b'{"jsonrpc":"2.0","id":900,"method":"textDocument/hover"}', 900, INVALID_PARAMS, "are missing"
    ),
    "a parameter is missing": (
        b'{"jsonrpc":"2.0","id":901,"method":"textDocument/hover","params":{"position":{}}}', 901, INVALID_PARAMS,
        "`textDocument/hover`",
    ),
    "an unknown method without parameters": (
        b'{"jsonrpc":"2.0","id":902,"method":"textDocument/nothing"}', 902, METHOD_NOT_FOUND, "nothing"
    ),
    "no version": (b'{"id":903,"method":"shutdown"}', 903, INVALID_REQUEST, "`jsonrpc`"),
    "another version": (b'{"jsonrpc":"1.0","id":904,"method":"shutdown"}', 904, INVALID_REQUEST, "found '1.0'"),
    "an id that is an object": (b'{"jsonrpc":"2.0","id":{},"method":"shutdown"}', None, INVALID_REQUEST, "an id"),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":905,"method":1}', 905, INVALID_REQUEST, "a method"),
    "an id that is a truth value": (b'{"jsonrpc":"2.0","id":true,"method":"shutdown"}', None, INVALID_REQUEST, "an id"),
    "a number": (b"5", None, INVALID_REQUEST, "an object"),
    "a string": (b'"a"', None, INVALID_REQUEST, "an object"),
    "null": (b"null", None, INVALID_REQUEST, "an object"),
    "a batch": (b'[{"jsonrpc":"2.0","id":906,"method":"shutdown"}]', None, INVALID_REQUEST, "no batches"),
    "text that is not JSON": (b'{"jsonrpc":', None, PARSE_ERROR, "not JSON"),
    "bytes that are not text": (b'{"\xff', None, PARSE_ERROR, "not JSON"),
    "brackets without end": (b"[" * 100_000, None, PARSE_ERROR, "not JSON"),
    "a second initialize": (
        b'{"jsonrpc":"2.0","id":907,"method":"initialize","params":{"capabilities":{}}}', 907, INVALID_REQUEST,
        "only once",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "number", "code", "words"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_answered(
    client: Client, body: bytes, number: int | None, code: int, words: str
) -> None:
    error = client.answer_to(body, number)["error"]

    assert error["code"] == code
    assert words in error["message"]
    assert client.open(PROGRAM)["diagnostics"] == []


def test_requests_before_the_first_and_after_the_last_are_answered() -> None:
    client = Client()
    try:
        early = client.request("textDocument/hover", **client.at(3, 10))
        assert early["error"]["code"] == NOT_INITIALIZED
        assert client.request("initialize")["error"]["code"] == INVALID_PARAMS
        client.initialize({})
        assert client.request("shutdown")["result"] is None
        late = client.request("textDocument/hover", **client.at(3, 10))
        assert (late["error"]["code"], "shut down" in late["error"]["message"]) == (INVALID_REQUEST, True)
        client.send("exit")
        assert client.process.wait(limit_s(20)) == 0
    finally:
        client.process.kill()
        client.process.communicate()


def test_a_long_program_is_answered_within_seconds(client: Client) -> None:
    lines = "".join(f"  op add(x, y) >> y; // {i}\n" for i in range(5000))
    start = time.monotonic()
    client.open(PROGRAM.replace("  return y;", lines + "  return y;"))
    client.ask("textDocument/hover", **client.at(4000, 9))
    client.ask("textDocument/rename", **client.at(4000, 9), newName="image")

    assert time.monotonic() - start < limit_s(8)


def test_without_pygls_the_command_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pygls' else find(name, *rest)\n"
        "from openinfer.cli import main; main(['lsp'])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert finished.returncode == 3
    assert "openinfer-core[lsp]" in finished.stderr


def test_help_does_not_load_the_server() -> None:
    program = (
        "import sys\nfrom openinfer.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit('pygls' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
