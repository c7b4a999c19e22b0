"""Nodes as JSON: one schema for each kind (``specification: json.graphs``).

The body of a loop is read and written by the caller, node by node, so that nesting costs no stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from openinfer.ir.language import CARRIES_HINTS
from openinfer.ir.nodes import (
    Assign,
    Await,
    Barrier,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Loop,
    Node,
    NodeKind,
    Op,
    Return,
    Transfer,
    Yield,
)
from openinfer.ir.values import Attrs
from openinfer.serialize.access import ACCESS
from openinfer.serialize.forms import (
    COUNT,
    DEP_TARGET,
    DTYPE,
    EXPRESSION,
    IDENTIFICATION,
    IDENTIFIER,
    REFERENCE,
    SETTING_NAME,
    TEXT,
    Form,
    FormError,
    Problem,
    list_of,
    members,
    one_of,
    read_tagged,
    shown,
    tagged_schema,
    wrong,
    wrong_type,
)
from openinfer.serialize.objects import Member, object_form, record
from openinfer.serialize.values import HINTS, INPUT, VALUE, named_value
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from openinfer.ir.values import AttrValue
    from openinfer.symbolic import IntExpr


_SETTING: Form[tuple[str, AttrValue]] = object_form(
    {"name": SETTING_NAME, "value": VALUE},
    lambda data: (data["name"], data["value"]),
    lambda pair: {"name": pair[0], "value": pair[1]},
)


def _settings(data: dict[str, Any]) -> Attrs:
    names = [name for name, _ in data["items"]]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise wrong(f"setting {shown(name)} is given twice", "items", position, "name")
    return Attrs(tuple((name, named_value(name, value)) for name, value in data["items"]))


_SETTINGS: Form[Attrs] = object_form(
    {"items": list_of(_SETTING)}, _settings, lambda attrs: {"items": tuple(attrs.items())}
)


def _op(data: dict[str, Any]) -> Op:
    outputs = data["outputs"]
    if outputs is not None and outputs[:1] != (data["output"],):
        message = f"does not start with {shown(data['output'])}, the `output`"
        raise FormError(Problem(message, path=("outputs",), is_predicate=True))
    return Op(data["op"], data["inputs"], outputs or (data["output"],), data["attrs"])


def _op_parts(op: Op) -> dict[str, object]:
    parts: dict[str, object] = {
        "op": op.op,
        "attrs": op.settings,
        "inputs": op.inputs,
        "output": next(iter(op.outputs), None),
    }
    return {**parts, "outputs": op.outputs} if len(op.outputs) > 1 else parts


def _branch(data: dict[str, Any]) -> Branch:
    if (data["cond"] is None) != (data["else_block"] is None):
        raise wrong("a condition and an else block come together")
    return Branch(**data)


def _write_amount(amount: IntExpr) -> int | str:
    return amount.value if isinstance(amount, Const) else EXPRESSION.write(amount)


def _read_amount(value: object) -> IntExpr:
    return EXPRESSION.read(value) if isinstance(value, str) else Const(COUNT.read(value))


_AMOUNT: Form[IntExpr] = Form(_write_amount, _read_amount, {"anyOf": [COUNT.schema, EXPRESSION.schema]})


def _read_body(value: object) -> list[object]:
    if not isinstance(value, list):
        raise wrong_type(f"expected a list of nodes, found {shown(value)}")
    return cast("list[object]", value)


_BODY: Form[list[object]] = Form(list, _read_body, {"type": "array", "items": {"$ref": "#/$defs/node"}})
_NAMES = Member(list_of(IDENTIFIER, least=1), attribute="names")
_KINDS: dict[str, Form[Any]] = {
    "Assign": record(Assign, name=IDENTIFIER, dtype=DTYPE, dims=list_of(EXPRESSION)),
    "Op": object_form(
        {
            "op": IDENTIFIER,
            "attrs": _SETTINGS,
            "inputs": list_of(INPUT),
            "output": IDENTIFIER,
            "outputs": Member(list_of(IDENTIFIER), load_default=None),
        },
        _op,
        _op_parts,
    ),
    "Branch": object_form(
        {
            "cond": Member(IDENTIFIER, load_default=None),
            "then_block": IDENTIFIER,
            "else_block": Member(IDENTIFIER, load_default=None),
        },
        _branch,
    ),
    "Dep": record(Dep, after=DEP_TARGET, before=DEP_TARGET),
    "CacheRead": record(CacheRead, src=ACCESS, dst=IDENTIFIER),
    "CacheWrite": record(CacheWrite, src=REFERENCE, dst=ACCESS),
    "CacheIncrement": record(CacheIncrement, target=IDENTIFIER, amount=_AMOUNT),
    "CacheDecrement": record(CacheDecrement, target=IDENTIFIER, amount=_AMOUNT),
    "CacheReset": record(CacheReset, target=ACCESS),
    "Transfer": record(Transfer, src=REFERENCE, dst=IDENTIFIER),
    "Yield": record(Yield, vars=_NAMES),
    "Await": record(Await, vars=_NAMES),
    "Loop": object_form(
        {
            "name": IDENTIFIER,
            "index": IDENTIFIER,
            "start": EXPRESSION,
            "end": EXPRESSION,
            "body": Member(_BODY, load_only=True),
        },
        lambda data: Loop(data["name"], data["index"], data["start"], data["end"]),
    ),
}


def _unit(kind: NodeKind) -> Form[NodeKind]:
    """Return the form of the payload of a kind without fields, for readers that write ``{"Return": null}``."""

    def read(value: object) -> NodeKind:
        if value is not None:
            raise wrong(f"expected null, found {shown(value)}: this kind has no fields")
        return kind

    return Form(lambda _: None, read, {"type": "null"})


_UNITS: dict[str, NodeKind] = {"Barrier": Barrier(), "Return": Return()}
_ALL: dict[str, Form[Any]] = {**_KINDS, **{name: _unit(kind) for name, kind in _UNITS.items()}}


def _write_kind(kind: NodeKind) -> str | dict[str, Any]:
    name = type(kind).__name__
    return name if name in _UNITS else {name: _KINDS[name].write(kind)}


def _read_kind(value: object) -> NodeKind:
    if isinstance(value, str):
        return _UNITS[one_of(value, _UNITS, "an object with one key, or a kind of node without fields")]
    members(value, "a kind of node: an object with one key, or a string")
    return read_tagged(value, _ALL, "a kind of node")[1]


_KIND: Form[NodeKind] = Form(_write_kind, _read_kind, {"anyOf": [{"enum": list(_UNITS)}, tagged_schema(_ALL)]})


def _node(data: dict[str, Any]) -> Node:
    returns, kind = data.pop("returns"), data.pop("kind")
    if returns and not isinstance(kind, Return):
        raise wrong("only a Return has results", "returns")
    if data["hints"] and not isinstance(kind, CARRIES_HINTS):
        raise wrong(f"a {type(kind).__name__} has no hints", "hints")
    return Node(kind=Return(returns) if returns else kind, **data)


def _node_parts(node: Node) -> dict[str, object]:
    """Return the members of a node, without the extension fields that say nothing."""
    extras = {
        "hints": node.hints,
        "scope": node.scope,
        "returns": node.kind.names if isinstance(node.kind, Return) else (),
    }
    written = {name: value for name, value in extras.items() if value}
    return {"index": node.index, "uuid": node.uuid, "kind": node.kind, **written}


NODE: Form[Node] = object_form(
    {
        "index": COUNT,
        "uuid": IDENTIFICATION,
        "kind": _KIND,
        "hints": Member(HINTS, load_default=Attrs()),
        "scope": Member(list_of(TEXT), load_default=()),
        "returns": Member(list_of(IDENTIFIER), load_default=()),
    },
    _node,
    _node_parts,
)
"""A node; a loop comes without its body."""
