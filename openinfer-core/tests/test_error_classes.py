"""The exceptions of OpenInfer: what each is a kind of, and what it carries (``specification: runtime.errors``)."""

from __future__ import annotations

import pytest

import openinfer as oi
from openinfer import errors
from openinfer.diagnostics import Diagnostic
from openinfer.dsl import graph
from openinfer.errors import ExecutionError, OpenInferError
from openinfer.serialize import GraphDeserialize

KINDS = {
    OpenInferError: (
        "DslSyntaxError",
        "GraphError",
        "SerializationError",
        "ModelError",
        "ValidationError",
        "ExecutionError",
        "DeviceError",
        "SynthesisError",
        "PluginError",
    ),
    ExecutionError: (
        "DynamicUnsetError",
        "CacheIndexError",
        "CacheLimitError",
        "ShapeError",
        "DTypeError",
        "DeadlockError",
        "RaceError",
        "KernelMissingError",
        "DepthError",
        "StepStateError",
    ),
}


@pytest.mark.rule("runtime.errors.1")
@pytest.mark.parametrize(("base", "name"), [(base, name) for base, names in KINDS.items() for name in names])
def test_every_class_is_a_kind_of_its_base_with_a_code_of_its_own(base: type[OpenInferError], name: str) -> None:
    kind = getattr(errors, name)
    assert kind.__bases__ == (base,)
    raised = kind("what is wrong")
    assert (str(raised), raised.code, raised.diagnostics) == ("what is wrong", kind.default_code, ())
    assert getattr(oi, name) is kind


@pytest.mark.rule("runtime.errors.1")
def test_the_code_is_that_of_the_first_finding_unless_it_is_given() -> None:
    found = [Diagnostic(code="one", message="a"), Diagnostic(code="two", message="b")]
    assert errors.GraphError("x", diagnostics=found).code == "one"
    assert errors.GraphError("x", code="own", diagnostics=found).code == "own"


@pytest.mark.rule("runtime.errors.2")
def test_a_syntax_error_names_its_place_and_what_was_expected() -> None:
    text = "block entry {\n  loop l (i in 0..) { }\n}\n"
    with pytest.raises(errors.DslSyntaxError) as caught:
        graph(text)
    error = caught.value
    assert (error.line, error.column, error.offset) == (2, 19, text.index(") {"))
    assert error.snippet == "  loop l (i in 0..) { }"
    assert error.expected == ("identifier or integer for loop range",)


@pytest.mark.rule("runtime.errors.2")
def test_an_error_of_the_graph_names_place_and_variable() -> None:
    with pytest.raises(errors.GraphError, match="`x`") as caught:
        graph("dynamic { x: f32; x: f32; } block entry { return; }")
    (finding,) = caught.value.diagnostics
    assert isinstance(finding, Diagnostic)
    assert finding.span is not None
    assert finding.span.column == 19


@pytest.mark.rule("runtime.errors.3")
def test_an_error_of_json_has_the_pointer_of_its_place() -> None:
    with pytest.raises(errors.SerializationError) as caught:
        GraphDeserialize.from_json({"vars": {}, "blocks": 3})
    assert caught.value.path is not None
    assert caught.value.path in {
        finding.path for finding in caught.value.diagnostics if isinstance(finding, Diagnostic)
    }


@pytest.mark.rule("runtime.errors.5")
def test_an_error_of_a_step_has_the_exception_that_it_comes_of() -> None:
    reason = ZeroDivisionError("no")
    with pytest.raises(ExecutionError) as caught:
        raise ExecutionError("failed", block="entry", node_index=3, node_desc="barrier") from reason
    error = caught.value
    assert (error.block, error.node_index, error.node_desc, error.cause) == ("entry", 3, "barrier", reason)


@pytest.mark.rule("runtime.errors.6")
def test_an_error_of_a_plugin_names_plugin_distribution_hook_and_status() -> None:
    error = errors.PluginError("x", plugin="p", distribution="d", hook="h", status="failed")
    assert (error.plugin, error.distribution, error.hook, error.status) == ("p", "d", "h", "failed")


def test_errors_without_findings_have_no_place() -> None:
    assert errors.ValidationError("x").node_desc is None
    assert errors.SerializationError("x").path is None
    error = errors.ModelError("x")
    assert (error.file, error.table, error.name) == (None, None, None)
