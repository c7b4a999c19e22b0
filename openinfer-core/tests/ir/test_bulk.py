"""The garbage collector, paused while many objects are built."""

from __future__ import annotations

import gc

import pytest

from openinfer.ir.bulk import many_objects


def test_collector_is_paused_and_resumed():
    with many_objects():
        inside = gc.isenabled()

    assert (inside, gc.isenabled()) == (False, True)


def test_collector_is_resumed_after_an_error():
    with pytest.raises(ValueError, match="no program"), many_objects():
        raise ValueError("no program")

    assert gc.isenabled()


def test_pauses_nest_and_end_with_the_outermost():
    with many_objects():
        with many_objects():
            pass
        between = gc.isenabled()

    assert (between, gc.isenabled()) == (False, True)


def test_disabled_collector_stays_disabled():
    gc.disable()
    try:
        with many_objects():
            pass
        after = gc.isenabled()
    finally:
        gc.enable()

    assert not after
