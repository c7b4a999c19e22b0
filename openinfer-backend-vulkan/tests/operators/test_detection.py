"""Boxes that are kept, chosen by a shader for each."""

from __future__ import annotations

import pytest

from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.computations import computation_of
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.environment import Environment
from openinfer_backend_vulkan.glsl.computations import shaders_of

NMS = Environment.default().op("nms")


def sources(most: int, boxes: int) -> list[str]:
    types = [TensorType(F32, (1, boxes, 4)), TensorType(F32, (1, 3, boxes))]
    call = call_of(NMS, types, {"max_output_boxes": most, "iou_threshold": 0.5})
    return [shader.source for stage in shaders_of(computation_of(NMS, call)) for shader in stage.shaders]


def test_more_boxes_are_more_runs_of_the_same_shaders() -> None:
    few, many = sources(6, 500), sources(12, 500)
    assert len(many) > len(few)
    assert len(set(many)) == len(set(few))


def test_as_many_boxes_as_there_are_may_be_chosen() -> None:
    assert sources(4000, 6) == sources(6, 6)
    with pytest.raises(OpTypeError, match="max_output_boxes is 4000"):
        sources(4000, 2000)
