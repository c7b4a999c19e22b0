"""Following: a computation evaluates an expression of its result before it stores it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.compute.elementwise import is_pointwise
from openinfer.compute.stage import Read
from openinfer.compute.substitution import moved
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.compute.stage import Computation, Element, Stage
    from openinfer.expr.tree import Expr


def followed(producer: Computation, consumer: Computation, tensor: str) -> Computation | None:
    """Return the producer with the expression of the consumer evaluated where it stored ``tensor``, its one output.

    Tensors of one name are one operand of both. What else the consumer reads is read right before an element of its
    result is stored, which several stages of the producer may do. None: the consumer is not a mere expression of the
    element of ``tensor`` at the place that it stores to, or a stage of the producer reads ``tensor`` again, so that it
    has to be stored as it is.
    """
    if any(_reads(element, tensor) for stage in producer.stages for element in stage.elements):
        return None
    if len(consumer.stages) != 1 or len(consumer.outputs) != 1 or not is_pointwise(consumer.stages[0]):
        return None
    (last,), (output,) = consumer.stages, consumer.outputs
    if any(isinstance(e, Read) and e.tensor == tensor and (e.at != last.at or e.fill) for e in last.elements):
        return None
    if consumer.tensor(tensor).shape != output.shape:
        return None
    stages = [_stage(stage, last, tensor) if stage.tensor == tensor else stage for stage in producer.stages]
    inputs = dict.fromkeys((*producer.inputs, *(read for read in consumer.inputs if read.name != tensor)))
    return replace(producer, inputs=tuple(inputs), outputs=(output,), stages=tuple(stages))


def _reads(element: Element, tensor: str) -> bool:
    return isinstance(element, Read) and element.tensor == tensor


def _stage(stage: Stage, last: Stage, tensor: str) -> Stage:
    values = {var: at for index, at in zip(last.at, stage.at, strict=True) for var in index.variables()}
    elements = list(stage.elements)
    replaced: dict[int, Expr] = {}
    for number, element in enumerate(last.elements):
        if _reads(element, tensor):
            replaced[number] = stage.value
        else:
            here = moved(element, values)
            if here not in elements:
                elements.append(here)
            replaced[number] = tree.Input(elements.index(here), here.dtype)
    value = tree.substitute(last.value, replaced)
    return replace(stage, tensor=last.tensor, elements=tuple(elements), value=value)
