"""The windows of the oracles, put down one after the other, are those of the rule for shapes."""

from __future__ import annotations

from itertools import product

import pytest

from openinfer.ops.schema import OpTypeError
from openinfer.ops.windows import windows
from openinfer.testing.sliding import slides


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("kernel", [0, 1, 2, 3])
def test_there_are_as_many_windows_as_the_rule_says(kernel, ceil_mode):
    fitting = 0
    for size, stride, dilation, padding in product(
        (0, 1, 3, 4, 6), (1, 2, 3, 4), (1, 2), (0, (1, 0), (2, 4), (0, 3), (5, 0), "same_upper", "same_lower")
    ):
        settings = {"stride": stride, "dilation": dilation, "padding": padding, "ceil_mode": ceil_mode}
        try:
            (expected,) = windows((size,), (kernel,), settings)
        except OpTypeError:
            continue
        fitting += 1
        (found,) = slides(settings, (size,), (kernel,))
        assert len(found.starts) == expected.positions, settings
        assert all(start == place * stride - expected.before for place, start in enumerate(found.starts)), settings
    assert fitting > 50


def test_the_last_window_of_a_ceiled_pooling_is_left_out_where_it_begins_past_the_image():
    (pooled,) = slides({"stride": 2, "padding": (2, 4), "ceil_mode": True}, (3,), (3,))
    (floored,) = slides({"stride": 2, "padding": (2, 4)}, (3,), (3,))

    assert pooled.starts == (-2, 0, 2)
    assert floored.starts == (-2, 0, 2, 4)


def test_an_empty_window_reads_nothing():
    (found,) = slides({"stride": 1, "padding": 0}, (3,), (0,))

    assert [found.reads(position) for position in range(len(found.starts))] == [[], [], [], []]
