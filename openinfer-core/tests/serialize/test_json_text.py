"""Text that is not a JSON object is refused as a graph, with its place."""

from __future__ import annotations

import pytest

from openinfer.errors import SerializationError
from openinfer.serialize import GraphDeserialize


@pytest.mark.rule("json.form.1")
@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_tokens_that_are_not_json_are_refused(token: str) -> None:
    with pytest.raises(SerializationError, match="is not JSON") as caught:
        GraphDeserialize.from_json(f'{{"a \\"NaN": "Infinity",\n "next_index": {token}}}')
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.path) == ("non-finite", "")
    assert (finding.span.line, finding.span.column) == (2, 16)
    assert finding.span.end - finding.span.start == len(token)


@pytest.mark.rule("json.form.1")
def test_repeated_keys_are_refused_where_they_are() -> None:
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json('{"vars": {"a/b": {"x": 1, "x": 2}}, "vars": {"a/b": {"x": 1, "x": 2}}}')
    assert [(d.code, d.path) for d in caught.value.diagnostics] == [
        ("duplicate-key", ""),
        ("duplicate-key", "/vars/a~1b"),
    ]


@pytest.mark.parametrize("text", ["", "{", "[1,]", '"graph"', "7", "null", "[]", "[" * 100_000, '{"a":' * 100_000])
def test_text_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(SerializationError):
        GraphDeserialize.from_json(text)


NOT_JSON = {
    "cut short": ('{"vars": {', "the document ends too early", (1, 11)),
    "cut inside a string": ('{"vars', "the document ends too early", (1, 2)),
    "empty": ("", "the document is empty", (1, 1)),
    "comma too many": ('{\n"vars": {},,\n}', "expecting property name", (2, 12)),
}


@pytest.mark.parametrize(("text", "message", "place"), NOT_JSON.values(), ids=NOT_JSON)
def test_errors_in_json_name_line_and_column(text: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json(text, name="model.json")
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.span.source.name, finding.path) == ("not-json", "model.json", "")
    assert message in finding.message
    assert (finding.span.line, finding.span.column) == place


def test_the_error_about_a_list_says_what_a_graph_is() -> None:
    with pytest.raises(SerializationError, match="a graph is an object with `vars`, `blocks` and `next_index`"):
        GraphDeserialize.from_json("[1]")
