"""Takes a name that core's operators have."""

from collections.abc import Iterator

from openinfer.expr import tree
from openinfer.ops import Elementwise, InputSpec, OpSchema
from openinfer.plugins.hookspecs import hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_ops() -> Iterator[OpSchema]:
    """Offer an operator `relu`, which is not core's."""
    yield OpSchema(
        name="relu",
        summary="-x",
        category="example",
        inputs=(InputSpec(name="x"),),
        dtypes=frozenset({"f32"}),
        infer=lambda inputs, *_: (inputs[0],),
        definition=Elementwise(lambda inputs, *_: tree.neg(inputs[0])),
    )
