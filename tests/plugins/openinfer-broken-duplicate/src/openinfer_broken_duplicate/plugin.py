"""Takes a name that core's operators have."""

from collections.abc import Iterator

from openinfer.plugin import Elementwise, InputSpec, OpSchema, hookimpl, tree

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
